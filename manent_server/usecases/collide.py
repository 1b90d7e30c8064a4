"""Collide: what a new deploy does to others of its application in its environment.

The policy is the newer one's, frozen in its order, and acts as soon as its gates let it. A
rollback takes nobody's place and gives its own to nobody.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from functools import partial

from manent_server.domain import gates
from manent_server.domain.deploy import Kind, Outcome, Phase
from manent_server.domain.gates import ClosedGate, Facts
from manent_server.domain.rules import CANCEL_RUNNING, LATEST
from manent_server.engine import closing
from manent_server.engine.closing import Ending
from manent_server.store import deploys, queue, records
from manent_server.store.deploys import Deploy
from manent_server.store.records import Deed
from manent_server.store.repeat import is_transient
from manent_server.store.transaction import Transaction

ACTING = frozenset({LATEST, CANCEL_RUNNING})
_log = logging.getLogger(__name__)


def lock_rivals(tx: Transaction, environment: str, applications: Collection[str]) -> None:
    """Lock what several newer deploys may end, in the order of ids, before anything is written.

    Args:
        tx: The transaction that holds the environment's row.
        environment: Where.
        applications: Of what.
    """
    queue.lock_live(tx, environment, applications)


def make_room(tx: Transaction, row: Deploy, closed: Sequence[ClosedGate], facts: Facts) -> None:
    """Let a deploy have its way with older ones; the caller holds the environment's row lock.

    Args:
        tx: The transaction in which it was accepted or its gates opened.
        row: The newer deploy.
        closed: The gates that keep it back.
        facts: What is true there now.
    """
    if row.kind == Kind.ROLLBACK:
        return
    policy = row.order_body.get("collision")
    if policy == LATEST:
        _supersede(tx, row, closed, facts)
    elif policy == CANCEL_RUNNING and not closed:
        _cancel_running(tx, row)


def _supersede(tx: Transaction, row: Deploy, closed: Sequence[ClosedGate], facts: Facts) -> None:
    """Older ones that wait end; one that has its place is let run."""
    for older in queue.waiting_before(tx, row):
        if older.kind != Kind.ROLLBACK:
            _alone(tx, older, partial(_take_place, tx, row, older, partial(_stands, closed, facts)))


def _alone(tx: Transaction, older: Deploy, act: Callable[[], None]) -> None:
    """One older deploy; one that cannot be judged or ended keeps no newer one back."""
    try:
        with tx.savepoint():
            act()
    except Exception as error:
        if is_transient(error):
            raise
        _log.exception("deploy %s cannot make room for a newer one", older.id)


def _stands(closed: Sequence[ClosedGate], facts: Facts, older: Deploy) -> bool:
    return gates.stands_before(closed, gates.closed(older.asked, facts))


def _take_place(
    tx: Transaction, row: Deploy, older: Deploy, stands_before: Callable[[Deploy], bool]
) -> None:
    if not stands_before(older):
        return
    message = f"deploy {row.id} of {row.version} was asked for after it (latest)"
    ending = Ending(
        older.id,
        None,
        Outcome.SUPERSEDED,
        actor=row.requested_by,
        error={"code": "superseded", "message": message},
        superseded_by=row.id,
    )
    closing.close(tx, ending)


def _cancel_running(tx: Transaction, row: Deploy) -> None:
    """The one that has the place is cancelled; what repairs is let finish."""
    slots = queue.slots(tx, row.environment)
    holder = next((slot.deploy for slot in slots if slot.application == row.application), None)
    running = deploys.lock(tx, holder) if holder is not None else None
    if running is None or not running.is_live or running.cancel_requested_at is not None:
        return
    if running.kind == Kind.ROLLBACK or running.phase == Phase.ROLLING_BACK:
        return
    _alone(tx, running, partial(_cancel, tx, row, running))


def _cancel(tx: Transaction, row: Deploy, running: Deploy) -> None:
    reason = f"deploy {row.id} of {row.version} was asked for after it (cancel_running)"
    at = tx.now()
    deploys.update(
        tx,
        running.id,
        cancel_requested_at=at,
        cancel_by=row.requested_by,
        cancel_rollback=False,
        cancel_reason=reason,
    )
    deed = Deed(
        row.requested_by,
        "deploy.cancel",
        running.id,
        row.application,
        row.environment,
        {"rollback": False, "reason": reason, "for": row.id},
    )
    records.write_audit(tx, deed, at=at)
    if running.handed_out_at is None:
        ending = Ending(running.id, None, Outcome.CANCELLED, actor=row.requested_by)
        closing.close(tx, ending)
    else:
        # Its worker reads that within a second; where it has none, the reconciler ends it.
        deploys.update(tx, running.id, phase=Phase.CANCELLING)
