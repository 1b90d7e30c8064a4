"""Secrets by name: `secret://env/NAME` and `secret://file/PATH`.

A relative PATH lies under the folder of manent.yml and may not leave it; an absolute one is
written with a second slash, `secret://file//run/secrets/token`. One newline at the end of a
file is not part of the secret. Errors name store and name, never a value.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manent_server.domain.errors import ManentError
from manent_server.domain.secret import Secret
from manent_server.sources.files import open_regular

PREFIX = "secret://"
SHORTEST = 6
LARGEST = 64 * 1024

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class SecretMissing(ManentError):
    """A secret that is named cannot be had."""

    code = "secret_missing"


class SecretRefused(ManentError):
    """A secret's name or value cannot be used."""

    code = "secret_refused"


def check(reference: str) -> str | None:
    """What is wrong with the reference itself, whatever its store holds; None when nothing is."""
    try:
        _parts(reference)
    except SecretRefused as error:
        return error.detail
    return None


def _parts(reference: str) -> tuple[str, str]:
    """Store and name."""
    store, slash, name = reference.removeprefix(PREFIX).partition("/")
    if not reference.startswith(PREFIX) or not slash or not name:
        raise SecretRefused(
            "a secret is written secret://env/NAME or secret://file/PATH",
        )
    if "#" in name:
        raise SecretRefused(
            f"{reference}: the store {store!r} has no fields; a secret there is one value",
            next="leave out the part from # on",
        )
    if store not in ("env", "file"):
        raise SecretRefused(
            f"{reference}: there is no secret store {store!r}", next="use env or file"
        )
    if store == "env" and _NAME.fullmatch(name) is None:
        raise SecretRefused(f"secret://env/{name}: not the name of an environment variable")
    return store, name


class Secrets:
    """The two stores that always exist.

    Args:
        environ: The server's own environment.
        root: The folder of manent.yml.
    """

    def __init__(self, environ: Mapping[str, str], root: Path) -> None:
        self._environ = environ
        self._root = root

    def resolve(self, reference: str) -> Secret:
        """The value `reference` names."""
        store, name = _parts(reference)
        if store == "env":
            return Secret(_usable(reference, self._from_environment(name)))
        return Secret(_usable(reference, self._from_file(reference, name)))

    def fill(self, options: Any) -> tuple[Any, frozenset[Secret]]:
        """`options` with every reference replaced, and the values that were put in.

        Only a text that is a reference as a whole is replaced, at any depth; keys never are.
        """
        values: set[Secret] = set()
        return self._filled(options, values), frozenset(values)

    def _filled(self, value: Any, values: set[Secret]) -> Any:
        if isinstance(value, str) and value.startswith(PREFIX):
            secret = self.resolve(value)
            values.add(secret)
            return secret
        if isinstance(value, Mapping):
            return {key: self._filled(item, values) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._filled(item, values) for item in value]
        return value

    def _from_environment(self, name: str) -> str:
        if name not in self._environ:
            raise SecretMissing(
                f"secret://env/{name}: the server's environment has no {name}",
                next=f"set {name} where manent-server is started",
            )
        return self._environ[name]

    def _from_file(self, reference: str, name: str) -> str:
        path = self._path(reference, name)
        try:
            with open_regular(path) as file:
                content = file.read(LARGEST + 1)
        except OSError as error:
            raise SecretMissing(
                f"{reference}: {path}: {error.strerror}",
                next="an absolute path is written secret://file//run/secrets/name",
            ) from error
        if len(content) > LARGEST:
            raise SecretRefused(f"{reference}: larger than {LARGEST} bytes")
        return _text(reference, content)

    def _path(self, reference: str, name: str) -> Path:
        if "\0" in name:
            raise SecretRefused(f"{PREFIX}file: the path holds a NUL byte")
        if name.startswith("/"):
            return Path(name)
        root = self._root.resolve()
        path = (root / name).resolve()
        if not path.is_relative_to(root):
            raise SecretRefused(
                f"{reference}: leads out of the folder of manent.yml",
                next="write the absolute path with a second slash: secret://file//...",
            )
        return path


def _text(reference: str, content: bytes) -> str:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        # Not chained: the codec's error carries the bytes of the secret.
        raise SecretRefused(
            f"{reference}: not UTF-8 text", next="encode binary secrets as base64"
        ) from None
    return text.removesuffix("\r\n") if text.endswith("\r\n") else text.removesuffix("\n")


def _usable(reference: str, value: str) -> str:
    if "\0" in value:
        raise SecretRefused(f"{reference}: holds a NUL byte")
    if len(value) < SHORTEST:
        raise SecretRefused(
            f"{reference}: too short to be kept out of logs (fewer than {SHORTEST} characters)",
            next="use a longer secret",
        )
    return value
