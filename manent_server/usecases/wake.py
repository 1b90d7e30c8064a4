"""Wake: what waited for an instant goes on."""

from datetime import timedelta
from functools import partial

from manent_server.domain.deploy import Phase, State
from manent_server.store import deploys, records
from manent_server.store.deploys import Deploy
from manent_server.store.transaction import Transaction
from manent_server.usecases import cancel
from manent_server.usecases.desk import Desk

BATCH = 100
AGAIN = timedelta(seconds=1)


def wake_due(desk: Desk) -> int:
    """Go on with everything whose instant has come; how many were looked at."""
    with desk.store.read() as tx:
        due = records.due(tx, at=tx.now(), limit=BATCH)
    environments = set()
    for deploy in due:
        environment = desk.store.once(partial(_wake, desk=desk, deploy=deploy))
        if environment:
            environments.add(environment)
    for environment in sorted(environments):
        desk.admission(environment)
    return len(due)


def _wake(tx: Transaction, *, desk: Desk, deploy: str) -> str | None:
    """The environment to admit to, if the deploy waited for its start."""
    row = deploys.lock(tx, deploy)
    wake = records.wake_of(tx, deploy)
    if row is None or wake is None or wake[0] > tx.now():
        return None
    records.unwake(tx, deploy)
    if row.state != State.PENDING:
        return row.environment if row.is_live else None
    if row.executor is None:
        _go_on(tx, desk, row)
    return row.environment if row.cancel_requested_at is not None else None


def _go_on(tx: Transaction, desk: Desk, row: Deploy) -> None:
    if row.cancel_requested_at is not None:
        if not cancel.conclude(tx, desk, row.id, actor=row.cancel_by or "manent"):
            records.wake(tx, row.id, tx.now() + AGAIN, "close")
        return
    phase = Phase(row.phase) if row.phase else Phase.INTERRUPTED
    desk.dispatcher.dispatch(tx, row.id, state=State.PENDING, phase=phase)
