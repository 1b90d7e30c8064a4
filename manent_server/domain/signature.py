"""Signatures of what comes from chats: only who knows the secret can have sent these bytes.

Everything here is decided before a byte of the body is parsed. Comparisons take the same time
whatever is wrong, and every key is tried.
"""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

WINDOW: Final = timedelta(seconds=300)
"""How far the clock of a sender may be from ours, in either direction."""
_DIGITS: Final = 12
_SLACK: Final = "v0="
_STANDARD: Final = "v1,"
_SEAL: Final = b"manent-seal-v1\n"


class Fault(StrEnum):
    """Why a request is not believed. The sender is never told which it was."""

    UNKNOWN = "unknown"
    UNSIGNED = "unsigned"
    FORGED = "forged"
    LATE = "late"
    REPLAYED = "replayed"
    ELSEWHERE = "elsewhere"
    UNREADABLE = "unreadable"
    OVERSIZED = "oversized"


@dataclass(frozen=True)
class Signed:
    """What a good signature says.

    Attributes:
        nonce: The same only for the same request sent again.
        at: When it was made, by the sender's clock.
        window: How far that may be from our clock.
    """

    nonce: str
    at: datetime
    window: timedelta = WINDOW

    @property
    def kept(self) -> timedelta:
        """How long it is remembered: longer than it could be used again."""
        return 2 * self.window


def slack(keys: Sequence[bytes], headers: Mapping[str, str], body: bytes) -> Signed | Fault:
    """Slack's version 0: HMAC-SHA256 over `v0:`, the timestamp, `:` and the bytes of the body.

    Args:
        keys: Signing secrets; several while one is exchanged.
        headers: By lower-case name.
        body: As it came.
    """
    given = headers.get("x-slack-signature")
    moment = headers.get("x-slack-request-timestamp")
    if given is None or moment is None:
        return Fault.UNSIGNED
    at = _instant(moment)
    if at is None or not given.startswith(_SLACK):
        return Fault.FORGED
    signed = b"v0:" + moment.encode() + b":" + body
    made = [_SLACK + hmac.new(key, signed, hashlib.sha256).hexdigest() for key in keys]
    return _judged(made, [given], at)


def standard(keys: Sequence[bytes], headers: Mapping[str, str], body: bytes) -> Signed | Fault:
    """Standard Webhooks: HMAC-SHA256 over id, timestamp and body, a dot between each.

    Args:
        keys: Signing secrets; several while one is exchanged.
        headers: By lower-case name.
        body: As it came.
    """
    name, moment = headers.get("webhook-id"), headers.get("webhook-timestamp")
    given = headers.get("webhook-signature")
    if name is None or moment is None or given is None:
        return Fault.UNSIGNED
    at = _instant(moment)
    if at is None or not name.isascii():
        return Fault.FORGED
    signed = f"{name}.{moment}.".encode() + body
    made = [_STANDARD + _base64(hmac.new(key, signed, hashlib.sha256).digest()) for key in keys]
    return _judged(made, given.split(" ")[:8], at)


def _judged(made: Sequence[str], given: Sequence[str], at: datetime) -> Signed | Fault:
    # No way out of the loop: how long it takes tells nothing.
    found = None
    for right in made:
        for text in given:
            if hmac.compare_digest(right.encode(), text.encode("utf-8", "replace")):
                found = right
    if found is None:
        return Fault.FORGED
    return Signed(hashlib.sha256(found.encode()).hexdigest(), at)


def _instant(text: str) -> datetime | None:
    if not text.isascii() or not text.isdigit() or len(text) > _DIGITS:
        return None
    try:
        return datetime.fromtimestamp(int(text), UTC)
    except (OverflowError, ValueError, OSError):
        return None


def difference(signed: Signed, *, at: datetime) -> timedelta:
    """By how much the sender's clock, or the way the request took, is behind ours."""
    return at - signed.at


def is_late(signed: Signed, *, at: datetime) -> bool:
    """Whether it was made too long ago, or will be."""
    return abs(difference(signed, at=at)) > signed.window


def seal(key: bytes, values: Mapping[str, Any]) -> str:
    """Values as a text that nobody can make or change without the key; anyone can read it."""
    content = _safe(json.dumps(values, separators=(",", ":"), sort_keys=True).encode())
    return f"{content}.{_safe(_mac(key, content))}"


def unseal(keys: Sequence[bytes], text: str) -> dict[str, Any] | None:
    """The values of a seal made with one of the keys; None for anything else."""
    content, _, mac = text.partition(".")
    right = [hmac.compare_digest(_safe(_mac(key, content)).encode(), _bytes(mac)) for key in keys]
    if not any(right):
        return None
    try:
        values = json.loads(base64.urlsafe_b64decode(content + "=" * (-len(content) % 4)))
    except (binascii.Error, ValueError):  # pragma: no cover - we have sealed it ourselves
        return None
    return dict(values)


def _mac(key: bytes, content: str) -> bytes:
    return hmac.new(key, _SEAL + _bytes(content), hashlib.sha256).digest()


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")


def _safe(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
