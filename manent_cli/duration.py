"""Durations in Go's style: `90s`, `1h30m`, `500ms`; `d` is 24h."""

import re

from manent_cli.errors import BadUsage

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)


def seconds(text: str, *, option: str) -> float:
    """The seconds of a duration above zero.

    Raises:
        BadUsage: It is no duration, has no unit, or is nothing.
    """
    parts = _PART.findall(text)
    total = sum(float(number) * _UNITS[unit] for number, unit in parts)
    if "".join(number + unit for number, unit in parts) != text or total <= 0:
        raise BadUsage(
            f"{option} {text!r} is no duration above 0s", next="write it like 90s, 10m or 1h30m"
        )
    return total
