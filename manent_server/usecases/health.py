"""Health: whether this process can take requests."""

from collections.abc import Mapping, Sequence
from typing import Any

from manent_server.store import installation
from manent_server.store.installation import Installation
from manent_server.usecases import policy, receivers
from manent_server.usecases.desk import Desk


def ready(desk: Desk) -> dict[str, Any]:
    """What this process says of itself, and what it finds in the database.

    Raises:
        Unavailable: The database does not answer.
    """
    notes: list[str] = []
    report = dict(desk.report())
    is_working = not report.get("reasons")
    with desk.store.read() as tx:
        tx.now()
        # Before its tables are there nobody is behind.
        if is_working:
            notes += receivers.notes(tx, desk)
            report["reasons"] = _fences(installation.read(tx))
    if is_working and policy.differs(desk.store, desk.settings()):
        notes.append("another configuration than this process read is in force")
    return alone(report, notes)


def _fences(row: Installation | None) -> list[str]:
    """Why nothing may begin, whoever has noticed."""
    return [row.words] if row is not None and row.is_fenced else []


def alone(report: Mapping[str, Any], notes: Sequence[str]) -> dict[str, Any]:
    """Whether a process takes work, by its own word: it does not while it starts or drains.

    Args:
        report: Its own word.
        notes: What does not keep it from being ready, and is said all the same.
    """
    reasons = list(report.get("reasons", ()))
    draining = bool(report.get("draining"))
    if draining:
        reasons.append("draining")
    return {
        "ready": not reasons,
        "draining": draining,
        "running": int(report.get("running", 0)),
        "reasons": [*reasons, *notes, *report.get("notes", ())],
    }
