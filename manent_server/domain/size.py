"""Sizes in bytes as people write them: `16KiB`, `50MiB`."""

import re

_UNITS = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3, "TiB": 1024**4}
_SIZE = re.compile(r"([0-9]{1,16})(B|KiB|MiB|GiB|TiB)")
_LARGEST = 1024**5


def parse(text: str) -> int:
    """Read a whole number with one of the units B, KiB, MiB, GiB, TiB.

    Raises:
        ValueError: No unit, another unit (KB is refused, not guessed) or beyond 1024 TiB.
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError("is no size; write a whole number and B, KiB, MiB or GiB, like 16KiB")
    size = int(found[1]) * _UNITS[found[2]]
    if size > _LARGEST:
        raise ValueError("is larger than 1024TiB")
    return size


def show(size: int) -> str:
    """Print it in the largest unit that divides it: `16KiB`, `1500B`."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size and size % _UNITS[unit] == 0:
            return f"{size // _UNITS[unit]}{unit}"
    return f"{size}B"
