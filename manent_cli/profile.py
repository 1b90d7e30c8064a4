"""Which server to talk to, and as whom: flag beats environment beats contexts file."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any

from manent_cli.errors import BadUsage

NO_SERVER = "set MANENT_URL and MANENT_TOKEN, or choose a context: manent context list"


@dataclass(eq=False, repr=False)
class Context:
    """A server under a name, with the token to use there."""

    name: str
    url: str
    token: str | None


@dataclass(eq=False, repr=False)
class Contexts:
    """All contexts of this user, and which one is current."""

    current: str | None
    contexts: Mapping[str, Context]

    def named(self, name: str) -> Context:
        """The context of this name.

        Raises:
            BadUsage: There is none.
        """
        if name not in self.contexts:
            known = ", ".join(sorted(self.contexts)) or "none"
            raise BadUsage(f"there is no context {name!r}", next=f"contexts that exist: {known}")
        return self.contexts[name]


@dataclass(eq=False, repr=False)
class Connection:
    """The server a command talks to; `token_of` names the context that keeps the token."""

    url: str
    token: str | None
    context: str | None = None
    token_of: str | None = None


def contexts_path(environ: Mapping[str, str]) -> Path:
    """Where the contexts of this user stand."""
    folder = environ.get("XDG_CONFIG_HOME") or ""
    root = Path(folder) if Path(folder).is_absolute() else _home(environ) / ".config"
    return root / "manent" / "contexts.json"


def load_contexts(environ: Mapping[str, str]) -> Contexts:
    """The contexts file, empty when there is none.

    Raises:
        BadUsage: It cannot be read.
    """
    path = contexts_path(environ)
    try:
        fields = json.loads(path.read_text(encoding="utf-8"))
        return _contexts(fields)
    except FileNotFoundError:
        return Contexts(current=None, contexts={})
    except OSError as error:
        raise BadUsage(
            f"{path} cannot be read",
            why=error.strerror or str(error),
            next="let this user read it; XDG_CONFIG_HOME names another place",
        ) from error
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadUsage(
            f"{path} cannot be read: it is no contexts file",
            next='it looks like {"current": "x", "contexts": {"x": {"url": "https://..."}}}',
        ) from error


def save_context(
    name: str, url: str, token: str | None, *, environ: Mapping[str, str] | None = None
) -> Path:
    """Write a context and make it the current one; the others stay.

    Args:
        name: Its name; one of that name is replaced.
        url: The server.
        token: The token to use there.
        environ: Where `XDG_CONFIG_HOME` and `HOME` are read from; the process's own by default.

    Returns:
        The file, which only its owner can read.
    """
    variables = os.environ if environ is None else environ  # noqa: TID251 - called by `init` as well
    known = load_contexts(variables)
    contexts = {**known.contexts, name: Context(name, url, token)}
    return _write(contexts_path(variables), Contexts(current=name, contexts=contexts))


def new_context(
    name: str, url: str, token: str, *, environ: Mapping[str, str] | None = None
) -> tuple[str, Path]:
    """Write a context beside those there are and make it the current one.

    Args:
        name: The name wanted; a number is added when another server's context has it.
        url: The server.
        token: The token to use there.
        environ: As in `save_context`.

    Returns:
        The name it was given, and the file.
    """
    variables = os.environ if environ is None else environ  # noqa: TID251 - called by `init`
    known = load_contexts(variables).contexts
    names = chain([name], (f"{name}-{number}" for number in count(2)))
    free = next(one for one in names if one not in known)
    return free, save_context(free, url, token, environ=variables)


def use_context(name: str, *, environ: Mapping[str, str]) -> Context:
    """Make a context the current one."""
    known = load_contexts(environ)
    chosen = known.named(name)
    _write(contexts_path(environ), Contexts(current=name, contexts=known.contexts))
    return chosen


def resolve(
    environ: Mapping[str, str], *, context: str | None = None, url: str | None = None
) -> Connection:
    """The server and the token, by flag, then environment, then contexts file.

    A token kept for one server is never sent to another: the token of a context goes only to
    the URL of that context.

    Args:
        environ: The environment.
        context: `--context`.
        url: `--url`.

    Raises:
        BadUsage: No server is named, or what names it cannot be used.
    """
    if context is not None and url is not None:
        raise BadUsage("--url and --context name two servers", next="give one of them")
    address = url or (None if context else environ.get("MANENT_URL"))
    given = _token(environ)
    if address and given:
        return Connection(address, given)
    known = load_contexts(environ)
    name = context or (None if url else environ.get("MANENT_CONTEXT")) or known.current
    if address:
        keeper = _keeper_for(address, known, name)
        if keeper is None:
            return Connection(address, None)
        return Connection(address, _kept(keeper), token_of=keeper.name)
    if not name:
        raise BadUsage("no server is named", next=NO_SERVER)
    chosen = known.named(name)
    if given and not (context and chosen.token):
        return Connection(chosen.url, given, name)
    return Connection(chosen.url, _kept(chosen), name, token_of=chosen.token and name)


def _kept(context: Context) -> str | None:
    return _usable(context.token, f"the token of context {context.name}")


def _keeper_for(address: str, known: Contexts, name: str | None) -> Context | None:
    wanted = address.rstrip("/")
    first = [known.contexts[name]] if name and name in known.contexts else []
    for one in (*first, *known.contexts.values()):
        if one.url.rstrip("/") == wanted and one.token:
            return one
    return None


def _token(environ: Mapping[str, str]) -> str | None:
    if environ.get("MANENT_TOKEN"):
        return _usable(environ["MANENT_TOKEN"], "MANENT_TOKEN")
    path = environ.get("MANENT_TOKEN_FILE")
    if not path:
        return None
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise BadUsage(f"MANENT_TOKEN_FILE {path} cannot be read", why=str(reason)) from error
    if not text:
        raise BadUsage(f"MANENT_TOKEN_FILE {path} is empty")
    return _usable(text, f"the token in {path}")


def _usable(token: str | None, what: str) -> str | None:
    # It becomes a header: a line break in it would write headers of its own.
    if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
        raise BadUsage(f"{what} is no token", why="it holds a space or an unprintable character")
    return token


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ["HOME"]) if environ.get("HOME") else Path.home()


def _contexts(fields: Mapping[str, Any]) -> Contexts:
    contexts = {
        str(name): Context(str(name), str(one["url"]), one.get("token"))
        for name, one in fields["contexts"].items()
    }
    return Contexts(current=fields.get("current"), contexts=contexts)


def _write(path: Path, known: Contexts) -> Path:
    fields = {
        "current": known.current,
        "contexts": {
            name: {"url": one.url, "token": one.token} for name, one in known.contexts.items()
        },
    }
    from tempfile import mkstemp  # noqa: PLC0415 - only when something is written

    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # mkstemp makes it readable to its owner alone before the first byte is in it.
    handle, temporary = mkstemp(dir=path.parent, prefix=".contexts-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(json.dumps(fields, indent=2) + "\n")
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path
