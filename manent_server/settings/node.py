"""What a YAML file says, with the place of every word kept."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Path = tuple[str | int, ...]
ScalarKind = Literal["null", "bool", "int", "float", "text", "leading zero"]


@dataclass(frozen=True, slots=True)
class Place:
    """File and line (from 1) where something is written."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value as written; `${NAME}` is still in it."""

    place: Place
    path: Path
    text: str
    kind: ScalarKind


@dataclass(frozen=True, slots=True)
class Listing:
    """A list."""

    place: Place
    path: Path
    items: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of a map, with the place of the key itself."""

    place: Place
    node: "Node"


@dataclass(frozen=True, slots=True)
class Table:
    """A map, in the order written."""

    place: Place
    path: Path
    entries: Mapping[str, Entry]

    def get(self, key: str) -> "Node | None":
        """What stands under `key`, or None."""
        entry = self.entries.get(key)
        return entry.node if entry else None

    def table(self, *keys: str) -> "Table | None":
        """The map found by following `keys`, or None when one of them holds no map."""
        found: Node | None = self
        for key in keys:
            found = found.get(key) if isinstance(found, Table) else None
        return found if isinstance(found, Table) else None


Node = Scalar | Listing | Table
