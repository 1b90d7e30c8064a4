"""Mint: the text of tokens and sessions, which is shown once and stored as a digest."""

import hashlib
import secrets
import string
import zlib
from typing import Final

_LETTERS: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase
_SECRET: Final = 43
_CHECK: Final = 6
_LENGTH: Final = _SECRET + _CHECK
SHOWN: Final = 10
"""Characters by which people tell tokens apart."""
USER: Final = "mnt_u_"
SERVICE: Final = "mnt_s_"
SESSION: Final = "mnt_c_"
"""How the text of each kind begins: a token of a person, of a program, a sign-in."""
_KINDS: Final = (USER, SERVICE, SESSION)


def mint(kind: str = USER) -> str:
    """A text: 256 random bits and a checksum, so that scanners can be exact."""
    body = "".join(secrets.choice(_LETTERS) for _ in range(_SECRET))
    return kind + body + _checksum(body)


def kind_of(text: str) -> str | None:
    """Which kind a text is of; None for what this server never made."""
    kind = next((one for one in _KINDS if text.startswith(one)), None)
    if kind is None or not text.isascii() or len(text) != len(kind) + _LENGTH:
        return None
    body = text[len(kind) :]
    is_ours = secrets.compare_digest(_checksum(body[:_SECRET]), body[_SECRET:])
    return kind if is_ours else None


def digest(text: str) -> str:
    """What is stored of it: random as it is, it needs no slow hash."""
    return hashlib.sha256(text.encode()).hexdigest()


def _checksum(body: str) -> str:
    value = zlib.crc32(body.encode())
    digits = ""
    for _ in range(_CHECK):
        value, rest = divmod(value, len(_LETTERS))
        digits = _LETTERS[rest] + digits
    return digits
