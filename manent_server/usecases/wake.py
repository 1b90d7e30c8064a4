"""Wake: what waited for an instant goes on."""

import logging
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from manent_server.domain import gates
from manent_server.domain.deploy import Outcome, Phase, State
from manent_server.domain.errors import Unavailable
from manent_server.engine import closing
from manent_server.engine.closing import Ending
from manent_server.store import deploys, facts, queue, records, waiting
from manent_server.store.deploys import Deploy
from manent_server.store.records import Due
from manent_server.store.transaction import Transaction
from manent_server.store.workers import LeaseLost
from manent_server.usecases import cancel
from manent_server.usecases.desk import Desk

BATCH = 100
_MANY = 1000
_ROUNDS = 20
AGAIN = timedelta(seconds=1)
RECHECK = timedelta(minutes=1)
GATE = "gate"
OFFERED_AGAIN = frozenset({"plugin", "suspect", "occupied"})
"""Reasons for which a deploy that no worker took or kept is dispatched once more."""
_log = logging.getLogger(__name__)


def wake_due(desk: Desk) -> int:
    """Go on with everything whose instant has come; how many were looked at."""
    looked = 0
    for _ in range(_ROUNDS):
        with desk.store.read() as tx:
            due = records.due(tx, at=tx.now(), limit=_MANY)
        delayed = [one for one in due if one.is_delayed]
        _open_gates(desk, delayed)
        others = [one.deploy for one in due if not one.is_delayed][:BATCH]
        environments = {found for deploy in others if (found := _try(desk, deploy)) is not None}
        for environment in sorted(environments):
            desk.admission(environment, only=())
        looked += len(delayed) + len(others)
        if len(due) < _MANY:
            break
    return looked


def _open_gates(desk: Desk, due: Sequence[Due]) -> None:
    """Look at what waits for its start, many at once: thousands may have the same instant."""
    places: dict[str, list[str]] = {}
    for one in due:
        places.setdefault(one.environment, []).append(one.deploy)
    for environment, ids in places.items():
        if not desk.admission(environment, only=ids):
            desk.store.once(partial(_put_off, ids=ids))


def _put_off(tx: Transaction, *, ids: Sequence[str]) -> None:
    waiting.wake_at(tx, dict.fromkeys(ids, tx.now() + RECHECK))


def _try(desk: Desk, deploy: str) -> str | None:
    """One deploy; what is wrong with it keeps no other from going on."""
    try:
        return desk.store.once(partial(_wake, desk=desk, deploy=deploy))
    except LeaseLost:
        raise
    except Unavailable as error:
        # Somebody holds one of its rows perhaps: its wake stays for the next round.
        _log.warning("deploy %s is not woken now: %s", deploy, error.detail)
        return None
    except Exception:  # noqa: BLE001 - logged whole; the others go on
        _log.exception("deploy %s could not be woken; it is tried again", deploy)
        desk.store.once(partial(_later, deploy=deploy))
        return None


def _later(tx: Transaction, *, deploy: str) -> None:
    wake = records.wake_of(tx, deploy)
    if wake is not None:
        records.wake(tx, deploy, tx.now() + RECHECK, wake[1])


def _wake(tx: Transaction, *, desk: Desk, deploy: str) -> str | None:
    """The environment to admit to, if the deploy waited for its start."""
    # A row that somebody holds is the next round's: it must keep no other waiting.
    row = next(iter(deploys.lock_free(tx, [deploy])), None)
    wake = records.wake_of(tx, deploy)
    if row is None or wake is None or wake[0] > tx.now():
        return None
    records.unwake(tx, deploy)
    if row.state == State.PENDING and row.executor is None:
        _go_on(tx, desk, row, wake[1])
        return row.environment if row.cancel_requested_at is not None else None
    if row.state == State.ENQUEUED and queue.has_slot(tx, row.id):
        _not_begun(tx, desk, row, wake[1])
    return row.environment if row.is_live else None


def _not_begun(tx: Transaction, desk: Desk, row: Deploy, reason: str) -> None:
    """It has its place but no worker yet: too late by now, or to be offered once more."""
    is_expiring = row.handed_out_at is None and row.not_after is not None
    if is_expiring and gates.is_expired(row.asked, at=tx.now()):
        closing.close(tx, Ending(row.id, None, Outcome.EXPIRED))
        return
    if reason in OFFERED_AGAIN:
        phase = Phase.DISPATCHED if row.started_at is None else Phase.INTERRUPTED
        desk.dispatcher.dispatch(tx, row.id, phase=phase)
    if is_expiring and row.not_after is not None:
        # The one wake it had stood for another instant; its last one is still to come.
        records.wake(tx, row.id, row.not_after, GATE)


def _go_on(tx: Transaction, desk: Desk, row: Deploy, reason: str) -> None:
    if row.cancel_requested_at is not None:
        if not cancel.conclude(tx, desk, row.id, actor=row.cancel_by or "manent"):
            records.wake(tx, row.id, tx.now() + AGAIN, "close")
        return
    if reason == GATE and _is_held(tx, row):
        records.wake(tx, row.id, tx.now() + RECHECK, GATE)
        return
    phase = Phase(row.phase) if row.phase else Phase.INTERRUPTED
    desk.dispatcher.dispatch(tx, row.id, state=State.PENDING, phase=phase)


def _is_held(tx: Transaction, row: Deploy) -> bool:
    """Whether a lock still keeps the next wave back: no dispatch is spent on finding out."""
    at = tx.now()
    if row.deadline_at is not None and row.deadline_at <= at:
        return False
    return bool(gates.stopping(row.asked, facts.read(tx, row.environment)))
