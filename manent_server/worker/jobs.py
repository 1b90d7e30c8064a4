"""The leased loops of every `serve` process."""

from datetime import timedelta

from manent_server.engine.identity import identify
from manent_server.observability.metrics import Metrics
from manent_server.recovery import reconcile
from manent_server.recovery.reconcile import Reconciler
from manent_server.store import queue, records
from manent_server.store.transaction import Transaction
from manent_server.usecases import executors, wake
from manent_server.usecases.desk import Desk
from manent_server.worker.loops import Job

_SOON = timedelta(seconds=1)
_DISPOSAL = timedelta(minutes=1)
_HOURLY = timedelta(hours=1)


def jobs(desk: Desk, metrics: Metrics) -> list[Job]:
    """Every job, by the name of its lease."""
    recovery = desk.settings().recovery
    reconciler = Reconciler(
        desk,
        metrics,
        identify(desk.settings().executor_id),
        heartbeat_interval=recovery.heartbeat_interval,
        stale_after=recovery.stale_after,
    )
    often = min(recovery.heartbeat_interval, timedelta(seconds=5))
    return [
        Job("admission", _SOON, lambda: admit_all(desk)),
        Job("wake", _SOON, lambda: wake.wake_due(desk)),
        Job("reconciler", often, reconciler.round),
        Job("disposal", _DISPOSAL, lambda: reconcile.dispose(desk)),
        Job("keys", _HOURLY, lambda: forget_keys(desk)),
        Job("registry", _HOURLY, lambda: executors.forget_old(desk)),
    ]


def admit_all(desk: Desk) -> None:
    """Admit wherever something waits: a crash between an event and its admission ends here."""
    with desk.store.read() as tx:
        waiting = queue.waiting_environments(tx)
    for environment in waiting:
        desk.admission(environment)


def forget_keys(desk: Desk) -> None:
    """Forget idempotency keys that are older than they are kept."""
    kept = desk.settings().retention.keys_max_age

    def work(tx: Transaction) -> int:
        return records.forget_keys(tx, before=tx.now() - kept)

    desk.store.once(work)
