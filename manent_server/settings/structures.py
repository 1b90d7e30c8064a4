"""Types of lists and maps, and the declaration of a key."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from manent_server.domain.secret import names_a_secret
from manent_server.settings import document
from manent_server.settings.expand import Variable, expand, parts
from manent_server.settings.findings import Findings
from manent_server.settings.kinds import name_error
from manent_server.settings.node import Listing, Node, Place, Scalar, Table
from manent_server.settings.reading import INVALID, Invalid, Kind, Reading
from manent_server.settings.scalars import exact

REQUIRED = "required"
SECTION = "section"


@dataclass(frozen=True)
class Key:
    """One key: the loader, the reference and the example all come from this.

    Attributes:
        default: As YAML text; REQUIRED; SECTION where the defaults are those of the keys inside.
    """

    name: str
    kind: Kind
    default: str
    meaning: str


@dataclass(frozen=True)
class Section:
    """A map with declared keys.

    Attributes:
        make: Builds the section's value of the keys' values.
        check: What is wrong between keys, as pairs of key and message.
    """

    keys: tuple[Key, ...]
    make: Callable[..., Any] = dict
    check: Callable[[Mapping[str, Any]], Sequence[tuple[str, str]]] = lambda _: ()
    words: str = "map"

    @property
    def names(self) -> list[str]:
        """The declared keys."""
        return [key.name for key in self.keys]

    def read(self, node: Node, reading: Reading) -> Any:
        """What `make` builds of the values."""
        if not isinstance(node, Table):
            return _no_map(node, reading)
        for name in node.entries:
            if name not in self.names:
                reading.unknown_key(node, name, self.names)
        values = {key.name: self._value(key, node, reading) for key in self.keys}
        if _has_invalid(values.values()):
            return INVALID
        for name, message in () if reading.is_partial else self.check(values):
            at = node.get(name) or node
            reading.findings.add(at.place, (*node.path, name), message)
        return self.make(**values)

    def _value(self, key: Key, table: Table, reading: Reading) -> Any:
        found = table.get(key.name)
        if found is not None:
            return key.kind.read(found, reading)
        if reading.is_partial:
            return None
        if key.default == REQUIRED:
            return reading.refuse(table, f"the key {key.name} is missing")
        return key.kind.read(default_node(key.default), reading)


@dataclass(frozen=True)
class Layer(Section):
    """One of several maps merged later: any of the keys, none of them required."""

    def read(self, node: Node, reading: Reading) -> Any:
        """The values of this layer alone."""
        return super().read(node, reading.partial())


@cache
def default_node(default: str) -> Node:
    """A declared default, read like anything else."""
    if default == SECTION:
        return Table(Place("", 0), (), {})
    findings = Findings()
    table = document.parse(f"x: {default}".encode(), file="", findings=findings)
    findings.raise_if_any(f"the default {default}")
    found = table.get("x") if table else None
    if found is None:
        raise ValueError(default)
    return found


@dataclass(frozen=True)
class ListOf:
    """A list of one type, in the order written."""

    kind: Kind
    least: int = 0
    is_unique: bool = False

    @property
    def words(self) -> str:
        """With the type of the items."""
        return f"list: {self.kind.words}"

    def read(self, node: Node, reading: Reading) -> tuple[Any, ...] | Invalid:
        """The items."""
        if not isinstance(node, Listing):
            return reading.refuse(node, "must be a list")
        items = tuple(self.kind.read(item, reading) for item in node.items)
        if _has_invalid(items):
            return INVALID
        if len(items) < self.least:
            return reading.refuse(node, f"must have at least {self.least}")
        if self.is_unique and len(set(items)) < len(items):
            return reading.refuse(node, "names something twice")
        return items


@dataclass(frozen=True)
class TableOf:
    """A map from names to one type."""

    kind: Kind
    what: str

    @property
    def words(self) -> str:
        """With what the names are of."""
        return f"map by {self.what}"

    def read(self, node: Node, reading: Reading) -> Mapping[str, Any] | Invalid:
        """The values by name, in the order written."""
        if not isinstance(node, Table):
            return _no_map(node, reading)
        found = {name: self._value(node, name, reading) for name in node.entries}
        return INVALID if _has_invalid(found.values()) else found

    def _value(self, node: Table, name: str, reading: Reading) -> Any:
        entry = node.entries[name]
        wrong = name_error(name, self.what)
        if wrong:
            reading.findings.add(entry.place, entry.node.path, wrong)
            return INVALID
        if reading.reference(entry.node, self.what, name) is INVALID:
            return INVALID
        return self.kind.read(entry.node, reading)


@dataclass(frozen=True)
class Empty:
    """A map that can hold nothing yet."""

    words: str = "empty map"

    def read(self, node: Node, reading: Reading) -> Mapping[str, Any] | Invalid:
        """Nothing."""
        if not isinstance(node, Table):
            return _no_map(node, reading)
        for name in node.entries:
            reading.unknown_key(node, name, ())
        return {} if not node.entries else INVALID


@dataclass(frozen=True)
class Free:
    """A map whose keys a plugin knows; scalars must be kept exactly as written."""

    words: str = "map of the plugin's options"

    def read(self, node: Node, reading: Reading) -> dict[str, Any] | Invalid:
        """Plain JSON values."""
        if not isinstance(node, Table):
            return _no_map(node, reading)
        found: dict[str, Any] | Invalid = _plain(node, reading)
        return found


def _plain(node: Node, reading: Reading) -> Any:
    """The value of a node without a type, or INVALID if anything in it is."""
    if isinstance(node, Table):
        table = {key: _plain(entry.node, reading) for key, entry in node.entries.items()}
        return INVALID if _has_invalid(table.values()) else table
    if isinstance(node, Listing):
        items = [_plain(item, reading) for item in node.items]
        return INVALID if _has_invalid(items) else items
    try:
        value = exact(node)
        if not isinstance(value, str):
            return value
        _demand_no_secret(node, value)
        return expand(value, reading.environ)
    except ValueError as error:
        return reading.refuse(node, str(error))


def _demand_no_secret(node: Scalar, text: str) -> None:
    """Refuse what would stand in the order of every deploy, in clear.

    Raises:
        ValueError: A variable fills in what its name, or the option's, says is a secret.
    """
    option = str(node.path[-1]) if node.path else ""
    for part in parts(text):
        if isinstance(part, Variable) and (names_a_secret(part.name) or names_a_secret(option)):
            raise ValueError(
                f"${{{part.name}}} would be stored with every deploy; "
                f"write secret://env/{part.name}, which is looked up for each hook"
            )


def _has_invalid(values: Iterable[Any]) -> bool:
    return any(value is INVALID for value in values)


def _no_map(node: Node, reading: Reading) -> Invalid:
    is_empty = isinstance(node, Scalar) and node.kind == "null"
    hint = ", and here is nothing: write {} for an empty one" if is_empty else ""
    return reading.refuse(node, f"must be a map{hint}")
