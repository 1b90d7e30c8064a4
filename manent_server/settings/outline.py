"""The declared keys as a flat list, for whoever prints or searches them."""

from collections.abc import Iterator
from dataclasses import dataclass

from manent_server.settings.kinds import Or
from manent_server.settings.reading import Kind
from manent_server.settings.structures import Key, Section, TableOf


@dataclass(frozen=True)
class Declared:
    """One key with its full path, `<name>` standing for a name of one's own."""

    path: tuple[str, ...]
    key: Key


def declared(keys: tuple[Key, ...], at: tuple[str, ...] = ()) -> Iterator[Declared]:
    """Every key below `keys`, in the order declared."""
    for key in keys:
        path = (*at, key.name)
        yield Declared(path, key)
        section = _section(key.kind)
        if section is not None:
            yield from declared(section[1], (*path, *section[0]))


def sections(keys: tuple[Key, ...]) -> dict[str, tuple[str, ...]]:
    """For each key name the sections that have it."""
    found: dict[str, list[str]] = {}
    for item in declared(keys):
        found.setdefault(item.path[-1], []).append(".".join(item.path[:-1]) or "the top level")
    return {name: tuple(places[:3]) for name, places in found.items()}


def _section(kind: Kind) -> tuple[tuple[str, ...], tuple[Key, ...]] | None:
    """The names between a key and the keys inside it, and those keys."""
    if isinstance(kind, Or):
        return _section(kind.kind)
    if isinstance(kind, TableOf):
        inner = _section(kind.kind)
        return None if inner is None else ((f"<{kind.what}>", *inner[0]), inner[1])
    return ((), kind.keys) if isinstance(kind, Section) else None
