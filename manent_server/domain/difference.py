"""Which keys differ between two orders; values are never told, some of them name secrets."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_OF_THE_REQUEST = frozenset(
    {"shape", "collision", "promotion", "current_configuration", "follows_live", "returns"}
)


@dataclass(frozen=True)
class Change:
    """One key, by its path, and whether it is `added`, `removed` or `changed`."""

    key: str
    change: str


def changes(before: Mapping[str, Any] | None, after: Mapping[str, Any]) -> tuple[Change, ...]:
    """The keys of an order that another one has not, or has otherwise.

    Args:
        before: The order that was carried out last; None: there was none.
        after: The order that would be.
    """
    old, new = dict(_flat(before or {})), dict(_flat(after))
    found = [Change(key, _word(key, old, new)) for key in sorted({*old, *new})]
    return tuple(one for one in found if one.change)


def _word(key: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    if key not in old:
        return "added"
    if key not in new:
        return "removed"
    return "changed" if old[key] != new[key] else ""


def _flat(value: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, inner in value.items():
        if not path and name in _OF_THE_REQUEST:
            continue
        key = f"{path}.{name}" if path else name
        if isinstance(inner, Mapping) and inner:
            yield from _flat(inner, key)
        else:
            yield key, inner
