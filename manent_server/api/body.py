"""Reading a JSON body: bounded, strict, and without ever failing in a way of its own."""

import hashlib
import json
import math
from collections.abc import Iterator
from typing import Any, NoReturn

from manent_server.domain.errors import Malformed

MAX_DEPTH = 32
_ADVICE = "send one JSON object, encoded as UTF-8"


def read_object(raw: bytes) -> dict[str, Any]:
    """The JSON object in `raw`.

    Refused besides what is no JSON: anything but an object at the top, nesting deeper than 32,
    a key that comes twice, numbers no double can hold, NaN and Infinity, NUL characters and
    lone surrogates.

    Raises:
        Malformed: Says which of these it was, never what was sent.
    """
    value = _parse(raw)
    if not isinstance(value, dict):
        raise _malformed("the body is JSON but no object")
    _check(value)
    return value


def digest(value: Any) -> str:
    """SHA-256 over the one canonical writing of a parsed body."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _parse(raw: bytes) -> Any:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise _malformed("the body is not UTF-8") from None
    try:
        return json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=_finite,
        )
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise _malformed(f"the body is no JSON ({place})") from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError:  # an integer of more digits than Python converts
        raise _malformed("the body holds a number that is too long") from None


def _check(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level for inner in _containers(outer)]
        if not level:
            return
    raise _too_deep()


def _containers(outer: Any) -> Iterator[Any]:
    items = [*outer, *outer.values()] if isinstance(outer, dict) else outer
    for item in items:
        if isinstance(item, str):
            _check_text(item)
        elif isinstance(item, dict | list):
            yield item


def _check_text(text: str) -> None:
    if "\x00" in text:
        raise _malformed("the body holds a NUL character")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        raise _malformed("the body holds half of a surrogate pair") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _malformed("the body names a key twice in one object")
    return found


def _no_constant(_: str) -> NoReturn:
    raise _malformed("the body holds NaN or Infinity, which JSON does not know")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _malformed("the body holds a number that is too large")
    return number


def _too_deep() -> Malformed:
    return _malformed(f"the body is nested deeper than {MAX_DEPTH}")


def _malformed(detail: str) -> Malformed:
    return Malformed(detail, next=_ADVICE)
