"""Signs places of the chain with Ed25519, and knows who signed."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from manent_server.domain.errors import ConfigurationError

_KEY_LENGTH: Final = 16


class Seal:
    """A private key.

    Args:
        path: Its PEM file, as `openssl genpkey -algorithm ed25519` writes it.

    Raises:
        ConfigurationError: There is none, or it is of another kind.
    """

    def __init__(self, path: Path) -> None:
        # Loading the library takes as long as the rest of a small command.
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - see above
            Ed25519PrivateKey,
        )
        from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - see above
            load_pem_private_key,
        )

        try:
            key = load_pem_private_key(path.read_bytes(), None)
        except (OSError, ValueError, TypeError) as error:
            raise _unusable(path, str(error)) from error
        if not isinstance(key, Ed25519PrivateKey):
            raise _unusable(path, "it is no Ed25519 key")
        self._key = key
        self.name = _name(key.public_key())
        """By which its signatures are known."""

    def sign(self, text: str) -> str:
        """The signature of a text, in hexadecimal digits."""
        return self._key.sign(text.encode()).hex()


class Trusted:
    """Public keys whose signatures count.

    Args:
        paths: PEM files of public or private keys.

    Raises:
        ConfigurationError: One of them cannot be used.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._keys = {_name(key): key for key in map(_public, paths)}

    def __bool__(self) -> bool:
        """Whether there is one."""
        return bool(self._keys)

    def good(self, key: str, text: str, signature: str) -> bool:
        """Whether one of them, by its name, has signed the text."""
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415 - see above

        known = self._keys.get(key)
        try:
            if known is not None:
                known.verify(bytes.fromhex(signature), text.encode())
        except (InvalidSignature, ValueError):
            return False
        return known is not None


def _public(path: Path) -> Any:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415 - see above
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )
    from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415 - see above
        load_pem_private_key,
        load_pem_public_key,
    )

    try:
        data = path.read_bytes()
        is_private = b"PRIVATE" in data
        key = load_pem_private_key(data, None) if is_private else load_pem_public_key(data)
    except (OSError, ValueError, TypeError) as error:
        raise _unusable(path, str(error)) from error
    if isinstance(key, Ed25519PrivateKey):
        return key.public_key()
    if not isinstance(key, Ed25519PublicKey):
        raise _unusable(path, "it is no Ed25519 key")
    return key


def _name(key: Any) -> str:
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:_KEY_LENGTH]


def _unusable(path: Path, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"the key {path} of the audit cannot be used: {why[:200]}",
        next="openssl genpkey -algorithm ed25519 -out audit.pem makes one",
    )
