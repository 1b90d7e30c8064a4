"""One webhook: signed as Standard Webhooks has it, sent to where it may go."""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from manent_server.domain.cdevents import CONTENT_TYPE

PREFIX: Final = "whsec_"
SHORTEST: Final = 24
"""Bytes a signing secret has at least, as the specification wants it."""
_AGENT: Final = "manent"


def key(secret: str) -> bytes:
    """The bytes a signing secret stands for.

    Raises:
        ValueError: It is no `whsec_` and base64 of at least 24 bytes; says nothing of its value.
    """
    if not secret.startswith(PREFIX):
        raise ValueError(f"a signing secret begins with {PREFIX}")
    try:
        found = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"what follows {PREFIX} is no base64") from None
    if len(found) < SHORTEST:
        raise ValueError(f"what follows {PREFIX} must be base64 of at least {SHORTEST} bytes")
    return found


def sign(keys: Sequence[bytes], *, message: str, timestamp: int, content: bytes) -> str:
    """The signatures of one message, one for each key, the first key's first."""
    signed = f"{message}.{timestamp}.".encode() + content
    made = (hmac.new(each, signed, hashlib.sha256).digest() for each in keys)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in made)


def content(body: Mapping[str, Any]) -> bytes:
    """The bytes that are signed and sent."""
    return json.dumps(body, separators=(",", ":"), sort_keys=True).encode()


def headers(
    keys: Sequence[bytes], *, message: str, timestamp: int, content: bytes
) -> dict[str, str]:
    """What is sent with them."""
    return {
        "content-type": CONTENT_TYPE,
        "user-agent": _AGENT,
        "webhook-id": message,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(keys, message=message, timestamp=timestamp, content=content),
    }
