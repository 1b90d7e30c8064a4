"""Health: whether this process can take requests."""

from typing import Any

from manent_server.domain.errors import Unavailable
from manent_server.usecases import policy, receivers
from manent_server.usecases.desk import Desk


def ready(desk: Desk) -> dict[str, Any]:
    """`ready` is false while the process starts, drains or cannot reach the database."""
    report = dict(desk.report())
    reasons = list(report.get("reasons", ()))
    notes = []
    try:
        with desk.store.read() as tx:
            tx.now()
            # Before its tables are there nobody is behind.
            notes += receivers.notes(tx, desk) if not reasons else []
        if not reasons and policy.differs(desk.store, desk.settings()):
            notes.append("another configuration than this process read is in force")
    except Unavailable:
        reasons.append("the database does not answer")
    draining = bool(report.get("draining"))
    if draining:
        reasons.append("draining")
    return {
        "ready": not reasons,
        "draining": draining,
        "running": int(report.get("running", 0)),
        # What does not keep it from being ready is said all the same.
        "reasons": [*reasons, *notes],
    }
