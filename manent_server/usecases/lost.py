"""Lost: what the file of the record says happened after the point a database was restored to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from manent_server.domain.audit import OPENED
from manent_server.observability import audit_file
from manent_server.store import audit
from manent_server.store.transaction import Transaction

_MOST: Final = 20
"""So many records of a deploy are shown, the newest."""
_REQUESTED: Final = "deploy.requested"
_ENDED: Final = "deploy.ended"


@dataclass
class Story:
    """What is on record of one deploy since."""

    application: str | None = None
    environment: str | None = None
    version: str | None = None
    outcome: str | None = None
    records: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Told:
    """What the file tells, to its last number; `problem` says why nothing, or not all."""

    problem: str | None = None
    last: int = 0
    deploys: dict[str, Story] = field(default_factory=dict)


def read(tx: Transaction, file: Path | str | None, lost: tuple[int, int]) -> Told:
    """Read the file that this process writes, if it does.

    Args:
        tx: Where the chain is: the file must be of the same.
        file: As `audit.file` has it.
        lost: The first and the last number that the restored database lacks.
    """
    if not isinstance(file, Path):
        return Told("audit.file is no file here: compare with where the record goes")
    if not file.exists():
        return Told(f"{file} is not there: compare with where the record goes")
    told, seen, number = Told(), _Seen(), lost[0] - 1
    try:
        for line in audit_file.read_from(file, max(number, 1)):
            if int(line["number"]) == number:
                if line["hash"] != _hash(tx, number):
                    return Told(f"{file} is the record of another installation")
                continue
            _add(told, line)
            seen.add(line)
    except (OSError, KeyError, TypeError, ValueError) as error:
        told.problem = f"{file} cannot be read: {error}"
        return told
    lacking = seen.lacking(*lost)
    if lacking:
        # Processes take turns in writing it, each on its own machine.
        told.problem = f"{file} lacks {lacking} of these records: compare with where else they went"
    return told


class _Seen:
    """Which numbers the file has."""

    def __init__(self) -> None:
        self._numbers: set[int] = set()
        self._skipped: list[tuple[int, int]] = []

    def add(self, line: Mapping[str, Any]) -> None:
        """One line; a record that opened a restored database says which numbers were not given."""
        self._numbers.add(int(line["number"]))
        if line["record"]["action"] == OPENED:
            detail = line["record"]["detail"]
            self._skipped.append((int(detail["first"]), int(detail["last"])))

    def lacking(self, first: int, last: int) -> int:
        """How many of these numbers were given and are not there."""
        holes, at = 0, first
        for number in (*sorted(n for n in self._numbers if first <= n <= last), last + 1):
            holes += self._given(at, number - 1)
            at = number + 1
        return holes

    def _given(self, first: int, last: int) -> int:
        """How many numbers of a hole were given to some record."""
        skipped = [(max(a, first), min(b, last)) for a, b in self._skipped]
        return last - first + 1 - max((b - a + 1 for a, b in skipped if a <= b), default=0)


def _hash(tx: Transaction, number: int) -> str | None:
    found = audit.links(tx, after=number - 1, limit=1)
    return str(found[0][1]) if found else None


def _add(told: Told, line: dict[str, Any]) -> None:
    record = line["record"]
    told.last = max(told.last, int(line["number"]))
    deploy = record.get("deploy")
    if deploy is None:
        return
    story = told.deploys.setdefault(deploy, Story())
    story.application = record.get("application") or story.application
    story.environment = record.get("environment") or story.environment
    detail = record.get("detail") or {}
    if record["action"] in (_REQUESTED, _ENDED):
        story.version = detail.get("version") or story.version
    if record["action"] == _ENDED:
        story.outcome = detail.get("outcome")
    shown = {"number": line["number"], "at": record["at"]}
    shown |= {"action": record["action"], "actor": record["actor"]}
    story.records = [*story.records[1 - _MOST :], shown]
