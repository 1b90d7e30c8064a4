"""Put back: deploys nobody works on are dispatched anew, where somebody can go on with them."""

from collections.abc import Mapping, Sequence
from datetime import datetime

from manent_server.store import logs, workers
from manent_server.store.deploys import Deploy
from manent_server.store.logs import Origin
from manent_server.store.transaction import Transaction
from manent_server.usecases import executors
from manent_server.usecases.desk import Desk


def put_back(tx: Transaction, desk: Desk, rows: Sequence[Deploy], *, words: str) -> None:
    """Dispatch deploys anew whose rows are locked; their own logs say why."""
    if not rows:
        return
    logs.append_to_each(tx, rows, Origin(None, None, "manent", "warning", None), words)
    desk.dispatcher.dispatch_interrupted(tx, [row for row in rows if row.started_at])
    for row in rows:
        if row.started_at is None:
            desk.dispatcher.dispatch(tx, row.id)


def is_still(now: Deploy, before: Deploy) -> bool:
    """Whether the deploy is where it was when it was looked at."""
    return (
        now.is_live
        # Without a new dispatch it may have been begun meanwhile, and wait for something now.
        and (now.dispatch, now.epoch) == (before.dispatch, before.epoch)
        and (now.executor, now.incarnation) == (before.executor, before.incarnation)
    )


def running_versions(
    tx: Transaction, desk: Desk, without: str | None, at: datetime
) -> Mapping[str, frozenset[str]]:
    """By pool, the versions live workers run, without the executor that is taken over from."""
    stale_after = desk.settings().recovery.stale_after
    crew = workers.alive(tx, stale_after=stale_after, at=at)
    return executors.versions([worker for worker in crew if worker.id != without])


def obstacle(row: Deploy, runs: Mapping[str, frozenset[str]]) -> str | None:
    """What keeps it from being resumed: no live worker runs its version."""
    versions = runs.get(row.pool, frozenset())
    if not versions:
        return f"no live worker takes from pool {row.pool}"
    if row.started_at is not None and row.workflow_version not in versions:
        return f"no live worker of pool {row.pool} runs workflow version {row.workflow_version}"
    return None


def is_resumable(tx: Transaction, desk: Desk, row: Deploy) -> bool:
    """Whether a live worker could go on with it."""
    return obstacle(row, running_versions(tx, desk, None, tx.now())) is None
