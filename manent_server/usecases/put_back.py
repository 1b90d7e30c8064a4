"""Put back: deploys nobody works on are dispatched anew, where somebody can go on with them."""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from manent_server.store import logs, workers
from manent_server.store.deploys import Deploy
from manent_server.store.logs import Origin
from manent_server.store.repeat import is_transient
from manent_server.store.transaction import Transaction
from manent_server.usecases import executors
from manent_server.usecases.desk import Desk

_log = logging.getLogger(__name__)


def put_back(
    tx: Transaction, desk: Desk, rows: Sequence[Deploy], *, words: str
) -> Mapping[str, str]:
    """Dispatch deploys anew whose rows are locked; their own logs say why.

    Returns:
        Those that could not be, by their id, and what went wrong: they are as they were.
    """
    return one_by_one(tx, rows, lambda some: _dispatch(tx, desk, some, words))


def one_by_one(
    tx: Transaction, rows: Sequence[Deploy], act: Callable[[Sequence[Deploy]], None]
) -> Mapping[str, str]:
    """Act on all of them at once, or on each alone if that fails: one must block no other.

    Returns:
        Those with which it failed, by their id, and how; of these nothing was written.
    """
    if not rows:
        return {}
    try:
        with tx.savepoint():
            act(rows)
    except Exception as error:
        if is_transient(error):
            raise
        if len(rows) == 1:
            _log.exception("deploy %s cannot be dispatched", rows[0].id)
            return {rows[0].id: f"it cannot be dispatched: {type(error).__name__}"}
    else:
        return {}
    failed: dict[str, str] = {}
    for row in rows:
        failed |= one_by_one(tx, [row], act)
    return failed


def _dispatch(tx: Transaction, desk: Desk, rows: Sequence[Deploy], words: str) -> None:
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
