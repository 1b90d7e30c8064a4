"""The words between a worker, its guards and their hooks: JSON, one object a line.

`docs/reference/plugin-protocol.md` specifies the half a plugin sees.
"""

import json
import math
import re
import time
from collections.abc import Callable
from typing import Any, Final, NoReturn

VERSION: Final = 1
IN_VARIABLE: Final = "MANENT_PROTOCOL_IN"
OUT_VARIABLE: Final = "MANENT_PROTOCOL_OUT"
ATTEMPT_VARIABLE: Final = "MANENT_ATTEMPT_ID"
OUTPUT_LIMIT: Final = 64 * 1024
"""Bytes of JSON a result or a checkpoint may have."""
MESSAGE_LIMIT: Final = 1024 * 1024
"""Bytes a hook's line may have."""
TEXT_LIMIT: Final = 4096
"""Characters of an error's message that are kept."""

_UNPRINTABLE: Final = "\ufffd"
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_EXCERPT: Final = 200


class Nonsense(ValueError):
    """A line that is not a message of this protocol."""


def encode(message: dict[str, Any], *, default: Callable[[Any], Any] | None = None) -> bytes:
    """One line; plain ASCII, so that no text can break the framing.

    Args:
        message: What is said.
        default: What stands for a value JSON does not know; without it such a one is an error.
    """
    if default is None:
        return _ENCODER.encode(message).encode() + b"\n"
    text = json.dumps(message, separators=(",", ":"), allow_nan=False, default=default)
    return text.encode() + b"\n"


def encode_with_text(message: dict[str, Any], text: str) -> bytes:
    """One line that carries a long text beside its message; only a guard sends such.

    The text goes as it is, not as JSON, which would cost a flood more than anything else. It has
    no NUL: newlines travel as NUL, so that no text can break the framing.
    """
    body = text.encode("utf-8", "replace").replace(b"\n", b"\0")
    return b"%b\0%b\n" % (encode(message)[:-1], body)


def decode_with_text(line: bytes) -> dict[str, Any]:
    """The message of a guard's line; what it carries beside stands under `text`.

    Raises:
        Nonsense: It is not an object with a `type`.
    """
    head, mark, text = line.partition(b"\0")
    message = decode(head)
    if mark:
        message["text"] = text.replace(b"\0", b"\n").decode("utf-8", "replace")
    return message


def decode(line: bytes) -> dict[str, Any]:
    """The message of one line, with what no database stores replaced.

    Raises:
        Nonsense: It is not an object with a `type`.
    """
    try:
        text = line.decode("utf-8", "replace")
        message = _DECODER.decode(text)
    except (ValueError, RecursionError) as error:
        raise Nonsense(f"not JSON: {excerpt(line)} ({error})") from None
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise Nonsense(f"not an object with a type: {excerpt(line)}")
    if b"\\u" in line:
        cleaned: dict[str, Any] = clean(message)
        return cleaned
    return message


def clean(value: Any) -> Any:
    """The same JSON without NUL and lone surrogates, which Postgres and UTF-8 refuse."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [clean(item) for item in value]
    if isinstance(value, dict):
        return {clean_text(key): clean(item) for key, item in value.items()}
    return value


def clean_text(text: str) -> str:
    """The text without NUL and lone surrogates."""
    text = text.replace("\0", _UNPRINTABLE)
    if text.isascii():
        return text
    return _SURROGATES.sub(_UNPRINTABLE, text)


def excerpt(line: bytes) -> str:
    """The beginning of a line, safe to show."""
    text = repr(line[:_EXCERPT].decode("utf-8", "replace"))
    return text if len(line) <= _EXCERPT else f"{text[:-1]}...'"


def size(value: Any) -> int:
    """Bytes of a value as JSON.

    Raises:
        TypeError, ValueError: It is not JSON.
    """
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return len(text.encode("utf-8", "surrogatepass"))


def boottime() -> float:
    """Seconds on the clock of leases: it runs on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:40]} is out of range")
    return number


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


# Made once: `json` makes one for each call that asks for anything but its defaults.
_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_DECODER: Final = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)
