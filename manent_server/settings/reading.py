"""What every value is read with: where errors go, the environment, the names that exist."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

from manent_server.settings.expand import expand
from manent_server.settings.findings import Findings, escaped, suggestion
from manent_server.settings.node import Node, Scalar, Table
from manent_server.settings.scalars import shown as as_written


class Invalid(Enum):
    """The value could not be used and a finding says why."""

    INVALID = "invalid"


INVALID = Invalid.INVALID


class Kind(Protocol):
    """A type of value in manent.yml."""

    @property
    def words(self) -> str:
        """What it is called in the reference, e.g. `duration`."""

    def read(self, node: Node, reading: "Reading") -> Any:
        """The typed value, or INVALID after noting why."""


@dataclass(frozen=True)
class Reading:
    """One pass over the files.

    Attributes:
        names: Names that exist, by what they name (`template`, `environment`, ...); what is not
            in it is not checked.
        sections: Where keys of each name stand, to point from one section to another.
        is_partial: Whether required keys may be missing because another layer has them.
    """

    findings: Findings
    environ: Mapping[str, str]
    folder: Path
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sections: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    is_partial: bool = False

    def partial(self) -> "Reading":
        """The same pass over one layer of several."""
        return replace(self, is_partial=True)

    def refuse(self, node: Node, message: str) -> Invalid:
        """Note that a value cannot be used."""
        self.findings.refuse(node, message)
        return INVALID

    def unknown_key(self, table: Table, key: str, known: Iterable[str]) -> None:
        """Note a key that does not exist here, with the one probably meant."""
        others = self.sections.get(key, ())
        hint = f"; {key} is a key of {', '.join(others)}" if others else ""
        self.findings.add(
            table.entries[key].place,
            table.entries[key].node.path,
            f"unknown key {escaped(key)}; {suggestion(key, known)}{hint}",
        )

    def text(self, node: Node) -> str | Invalid:
        """The text of a node with its variables filled in."""
        raw = self.raw_text(node)
        if raw is INVALID:
            return INVALID
        try:
            return expand(raw, self.environ)
        except ValueError as error:
            return self.refuse(node, str(error))

    def raw_text(self, node: Node) -> str | Invalid:
        """The text of a node as written."""
        if not isinstance(node, Scalar):
            return self.refuse(node, "must be text")
        if node.kind == "null":
            return self.refuse(node, "must be text, and here is nothing (null)")
        if node.kind != "text":
            what = "true or false" if node.kind == "bool" else "a number"
            return self.refuse(node, f"must be text, but {as_written(node)} is {what}: quote it")
        return node.text

    def reference(
        self, node: Node, what: str, text: str, *, written: str | None = None
    ) -> str | Invalid:
        """A name that must exist; `written` is how the file has it."""
        known = self.names.get(what)
        if known is None or text in known:
            return text
        shown = text if written is None else written
        hint = suggestion(shown, known)
        return self.refuse(node, f"there is no {what} {escaped(shown)}; {hint}")
