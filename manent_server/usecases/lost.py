"""Lost: what the file of the record says happened after the point a database was restored to."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

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
    """What the file tells: `problem` says why it does not; deploys by id, and its last number."""

    problem: str | None = None
    last: int = 0
    deploys: dict[str, Story] = field(default_factory=dict)


def read(tx: Transaction, file: Path | str | None, *, number: int) -> Told:
    """Read the file that this process writes, if it does.

    Args:
        tx: Where the chain is: the file must be of the same.
        file: As `audit.file` has it.
        number: The last one of the restored database.
    """
    if not isinstance(file, Path):
        return Told("audit.file is no file here: compare with where the record goes")
    if not file.exists():
        return Told(f"{file} is not there: compare with where the record goes")
    told = Told()
    try:
        for line in _lines(file, number):
            if int(line["number"]) == number:
                if line["hash"] != _hash(tx, number):
                    return Told(f"{file} is the record of another installation")
                continue
            _add(told, line)
    except (OSError, KeyError, TypeError, ValueError) as error:
        told.problem = f"{file} cannot be read: {error}"
    return told


def _lines(file: Path, number: int) -> Iterator[dict[str, Any]]:
    return audit_file.read_from(file, max(number, 1))


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
