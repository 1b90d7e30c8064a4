"""Durations as people write them: Go's style, `d` read as 24 hours and never printed."""

import re
from datetime import timedelta

_MICROSECONDS = {
    "us": 1,
    "µs": 1,
    "μs": 1,
    "ms": 1_000,
    "s": 1_000_000,
    "m": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}
_PART = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,12}))?(us|µs|μs|ms|s|m|h|d)")
_LONGEST = timedelta(days=36_500)


def parse(text: str) -> timedelta:
    """Read `15s`, `1h30m`, `200ms`, `90d`.

    Raises:
        ValueError: No unit, a sign, an unknown unit, finer than a microsecond or over a century.
    """
    if text.isascii() and text.isdigit():
        raise ValueError(f"has no unit; write {text[:12]}s, {text[:12]}m or {text[:12]}h")
    total, at = 0, 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            raise ValueError("is no duration; write one like 15s, 1m, 1h30m or 2160h")
        total += _microseconds(*part.groups(default=""))
        at = part.end()
    if not text:
        raise ValueError("is no duration; write one like 15s, 1m, 1h30m or 2160h")
    if total > _LONGEST // timedelta(microseconds=1):
        raise ValueError("is longer than a century")
    return timedelta(microseconds=total)


def show(duration: timedelta) -> str:
    """Print it so that `parse` gives the same value back: `1h30m`, `1.5s`, `0s`."""
    left = duration // timedelta(microseconds=1)
    if left <= 0:
        return "0s"
    shown = ""
    for unit in ("h", "m"):
        count, left = divmod(left, _MICROSECONDS[unit])
        shown += f"{count}{unit}" if count else ""
    return shown + _seconds(left, alone=not shown)


def _seconds(microseconds: int, *, alone: bool) -> str:
    if microseconds == 0:
        return ""
    if alone and microseconds < _MICROSECONDS["ms"]:
        return f"{microseconds}us"
    if alone and microseconds < _MICROSECONDS["s"]:
        return _decimal(microseconds, _MICROSECONDS["ms"]) + "ms"
    return _decimal(microseconds, _MICROSECONDS["s"]) + "s"


def _decimal(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    fraction = str(unit + rest)[1:].rstrip("0")
    return f"{whole}.{fraction}" if fraction else str(whole)


def _microseconds(whole: str, fraction: str, unit: str) -> int:
    power: int = 10 ** len(fraction)
    scaled, rest = divmod(int(whole + fraction) * _MICROSECONDS[unit], power)
    if rest:
        raise ValueError("is finer than a microsecond")
    return scaled
