"""What a run recorded: everything the checkers look at, and nothing else.

All instants are seconds since boot of the machine everything runs on; the database's own are
turned into them when they are read.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ENDED = frozenset({"SUCCESS", "ERROR", "CANCELLED"})
ACTING = frozenset({"deploy", "verify", "rollback"})


@dataclass(frozen=True)
class Call:
    """What a client asked and was told; `status` is None when no answer came."""

    number: int
    client: str
    what: str
    sent: float
    answered: float
    status: int | None
    key: str | None = None
    nonce: str | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    answer: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_good(self) -> bool:
        """Whether it was acknowledged."""
        return self.status is not None and 200 <= self.status < 300


@dataclass(frozen=True)
class Mark:
    """One line of the ledger."""

    event: str
    at: float
    run: str
    deploy: str
    application: str
    environment: str
    target: str
    hook: str
    version: str
    attempt: int
    epoch: int
    executor: str
    pid: int
    session: int
    exit: int | None = None
    lines: int | None = None


@dataclass(frozen=True)
class Fault:
    """What the nemesis did; it counts when a hook was running on its victim."""

    kind: str
    at: float
    victim: str | None = None
    counts: bool = True
    until: float | None = None
    detail: str = ""


@dataclass(frozen=True)
class Change:
    """One row as a committed transaction left it, in the order of writing."""

    number: int
    at: float
    table: str
    is_deletion: bool
    row: Mapping[str, Any]


@dataclass(frozen=True)
class Line:
    """One line of a deploy's log."""

    deploy: str
    sequence: int
    step: str | None
    attempt: int | None
    stream: str
    text: str
    is_final: bool


@dataclass
class History:
    """One run."""

    settings: dict[str, Any] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    ledger: list[Mark] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    deploys: list[dict[str, Any]] = field(default_factory=list)
    inventory: list[dict[str, Any]] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)
    exits: list[dict[str, Any]] = field(default_factory=list)

    def of(self, *tables: str) -> Iterator[Change]:
        """Changes of these tables in order."""
        return (change for change in self.changes if change.table in tables)

    def write(self, path: Path) -> None:
        """As JSON lines."""
        with path.open("w") as file:
            for kind, value in self._records():
                file.write(json.dumps({"of": kind, **value}) + "\n")

    def _records(self) -> Iterator[tuple[str, dict[str, Any]]]:
        yield "settings", {"value": self.settings}
        for name in _LISTS:
            for value in getattr(self, name):
                shown = asdict(value) if name in _MADE else {"value": value}
                yield name, shown


_MADE: dict[str, Callable[..., Any]] = {
    "calls": Call, "ledger": Mark, "faults": Fault, "changes": Change, "lines": Line,
}  # fmt: skip
_LISTS = (*_MADE, "deploys", "inventory", "records", "leaks", "exits")


def read(path: Path) -> History:
    """A history that was written."""
    history = History()
    for text in path.read_text().splitlines():
        record = json.loads(text)
        kind = record.pop("of")
        if kind == "settings":
            history.settings = record["value"]
        else:
            made = _MADE[kind](**record) if kind in _MADE else record["value"]
            getattr(history, kind).append(made)
    return history


@dataclass(frozen=True)
class Run:
    """One run of a hook, or of a grandchild it left."""

    first: Mark
    last: Mark
    is_child: bool

    @property
    def has_ended(self) -> bool:
        """Whether it came to its own end."""
        return self.last.event == "end"

    @property
    def place(self) -> tuple[str, str]:
        """Where two of them must not meet."""
        return self.first.environment, self.first.application

    @property
    def owner(self) -> tuple[str, int]:
        """Whose it is."""
        return self.first.deploy, self.first.epoch

    @property
    def step(self) -> str:
        """The step it is an attempt of."""
        return f"{self.first.hook}:{self.first.target}"

    def meets(self, other: "Run") -> bool:
        """Whether both were seen alive at one instant."""
        return self.first.at < other.last.at and other.first.at < self.last.at


def runs(marks: Sequence[Mark]) -> list[Run]:
    """The runs of a ledger in order of their start."""
    found: dict[str, list[Mark]] = {}
    for mark in marks:
        found.setdefault(mark.run, []).append(mark)
    made = [Run(each[0], each[-1], each[0].event == "child") for each in found.values()]
    return sorted(made, key=lambda run: run.first.at)
