"""The receivers of the record: how far each was handed it, and what is wrong with it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from manent_server.observability.audit_metrics import AuditStanding
from manent_server.settings.audit import FILE, STDOUT
from manent_server.store import audit
from manent_server.store import audit_positions as positions
from manent_server.store.transaction import Transaction
from manent_server.usecases import view
from manent_server.usecases.desk import Desk


@dataclass(frozen=True)
class Standing:
    """One receiver: `waits` records it is still to be handed, the oldest since `oldest_at`."""

    name: str
    format: str
    number: int
    waits: int
    oldest_at: datetime | None
    failing_since: datetime | None
    error: str | None


def known(desk: Desk) -> dict[str, str]:
    """Every receiver that is configured, with its format."""
    settings = desk.settings().audit
    found = {name: sink.format for name, sink in settings.sinks.items()}
    if settings.file is not None:
        found[FILE] = "stdout" if settings.file == STDOUT else "jsonl"
    return found


def standings(tx: Transaction, desk: Desk) -> list[Standing]:
    """How far each of them is."""
    there = positions.everyone(tx)
    head, _ = audit.head(tx)
    found = []
    for name, form in known(desk).items():
        at = there.get(name) or positions.Position(name, 0, None, None)
        waits = max(0, head - at.number)
        oldest = positions.oldest_after(tx, at.number) if waits else None
        found.append(Standing(name, form, at.number, waits, oldest, at.failing_since, at.error))
    return found


def metrics(desk: Desk) -> list[AuditStanding]:
    """For the metrics: how far behind each of them is."""
    with desk.store.read() as tx:
        at = tx.now()
        return [
            AuditStanding(one.name, one.waits, _age(one.oldest_at, at), one.error is not None)
            for one in standings(tx, desk)
        ]


def unchained(desk: Desk) -> float:
    """Seconds since the oldest record that has no number yet was written; 0 for none."""
    with desk.store.read() as tx:
        return _age(audit.waiting_since(tx), tx.now())


def _age(since: datetime | None, at: datetime) -> float:
    return max(0.0, (at - since).total_seconds()) if since is not None else 0.0


def notes(tx: Transaction, desk: Desk) -> list[str]:
    """What a person should know, in words."""
    return [
        f"audit sink {one.name} gets no records since {view.instant(one.failing_since)}: "
        f"{one.error}; {one.waits} wait"
        for one in standings(tx, desk)
        if one.error is not None
    ]


def shown(tx: Transaction, desk: Desk) -> list[dict[str, Any]]:
    """Each as a sink among the others."""
    return [
        {
            "name": one.name,
            "plugin": f"audit/{one.format}",
            "events": ["*"],
            "applications": [],
            "environments": [],
            "is_on": True,
            "off_at": None,
            "off_reason": one.error,
            "waiting": one.waits,
            "dead": 0,
            "oldest_at": view.instant(one.oldest_at),
        }
        for one in standings(tx, desk)
    ]
