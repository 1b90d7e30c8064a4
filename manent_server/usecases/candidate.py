"""Candidate: which version automation brings, and whether a rollback speaks against it."""

from dataclasses import dataclass

from manent_server.domain.errors import ManentError
from manent_server.domain.inventory import Knowledge
from manent_server.domain.schedule import Source
from manent_server.store import history, records
from manent_server.store.records import Stock
from manent_server.store.schedules import Schedule
from manent_server.store.transaction import Transaction
from manent_server.usecases.desk import Desk


class Skipped(ManentError):
    """An instant that brings nothing, and why (never sent)."""

    code = "skipped"

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(detail, code=code)


@dataclass(frozen=True)
class Chosen:
    """What is to be brought; the digest where it has to be the very same artifact."""

    version: str
    sha256: str | None = None


def choose(tx: Transaction, desk: Desk, row: Schedule) -> Chosen:
    """What the schedule brings now.

    Raises:
        Skipped: There is nothing to bring.
    """
    if row.source == Source.VERSION:
        return Chosen(row.version or "")
    if row.source == Source.NEWEST:
        version = history.newest_accepted(tx, row.application)
        if version is None:
            raise Skipped("nothing_to_deploy", f"no version of {row.application} was accepted yet")
        return Chosen(version)
    return _running(tx, desk, row)


def _running(tx: Transaction, desk: Desk, row: Schedule) -> Chosen:
    """What runs on every target of the environment it copies, if that is one version."""
    origin = row.source_environment or ""
    application = desk.application(row.application)
    targets = desk.placement(application, desk.environment(origin)).targets
    stock = {
        one.target: one
        for one in records.inventory(tx, application=row.application, environment=origin)
    }
    rows = [stock.get(target) for target in targets]
    known = [one for one in rows if one is not None and one.state == Knowledge.KNOWN]
    found = {one.version for one in known if one.version is not None}
    if len(known) < len(targets) or len(found) != 1:
        words = f"what runs of {row.application} in {origin} is not one known version"
        raise Skipped("nothing_to_deploy", words)
    place = desk.placement(application, desk.environment(row.environment))
    return Chosen(found.pop(), _digest(known) if place.artifact is not None else None)


def _digest(rows: list[Stock]) -> str | None:
    digests = {one.sha256 for one in rows}
    return digests.pop() if len(digests) == 1 else None


def demand_kept(tx: Transaction, row: Schedule, version: str) -> None:
    """Never undo a rollback; the transaction holds the environment's row lock.

    Raises:
        Skipped: The version was rolled back from, and nobody has brought it again since.
    """
    left = history.rolled_back_from(tx, row.application, row.environment, version)
    if left is not None:
        raise Skipped(
            "rolled_back",
            f"{version} was rolled back from in {row.environment} (deploy {left}): it comes back "
            "once a person has deployed it there with success, or a newer version has been",
        )
