"""The leased loops of every `serve` process."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from operator import attrgetter

from manent_server.engine.identity import identify
from manent_server.observability.metrics import Metrics
from manent_server.recovery.reconcile import Disposal, Reconciler
from manent_server.retention import prune
from manent_server.retention.shelf import Shelf
from manent_server.settings import Settings
from manent_server.sources.artifacts import Artifacts
from manent_server.store import chats, records
from manent_server.store.records import Named
from manent_server.store.transaction import Transaction
from manent_server.usecases import executors, fire, publish, wake
from manent_server.usecases.auto_promote import AutoPromotion
from manent_server.usecases.desk import Desk
from manent_server.usecases.survey import Survey
from manent_server.worker.lookout import Lookout
from manent_server.worker.loops import Job

_AT_ONCE = timedelta(milliseconds=300)
_SOON = timedelta(seconds=1)
_PROMOTION = timedelta(seconds=2)
_DISPOSAL = timedelta(minutes=1)
_MINUTE = timedelta(minutes=1)
_HOURLY = timedelta(hours=1)
_KEYS = 500  # looked for and deleted at once: a transaction that writes stays short
_events = attrgetter("events")
_wakes = attrgetter("wakes")
_schedules = attrgetter("schedules")
WHILE_RETAINING = _MINUTE
"""How often it is looked whether a prune is due."""


def retaining(settings: Settings, artifacts: Artifacts) -> list[Job]:
    """What workers delete: old history, one of them for all; artifacts, each on its own disk."""
    often = min(settings.retention.interval, WHILE_RETAINING)
    return [
        Job(prune.LEASE, often, lambda desk: prune.Rounds(desk).round, lets_go=True),
        Job(
            "artifacts",
            settings.retention.interval,
            lambda desk: Shelf(desk, artifacts).round,
            is_alone=False,
        ),
    ]


def jobs(settings: Settings, metrics: Metrics, lookout: Lookout) -> list[Job]:
    """Every job of every process, by the name of its lease."""
    often, when = min(settings.recovery.heartbeat_interval, timedelta(seconds=5)), lookout.when
    return [
        Job("admission", _SOON, lambda desk: Survey(desk).round),
        Job("wake", _SOON, lambda desk: when(_wakes, partial(wake.wake_due, desk))),
        Job("promotion", _PROMOTION, lambda desk: AutoPromotion(desk).round),
        Job("schedules", _SOON, lambda desk: when(_schedules, partial(fire.fire_due, desk))),
        Job("reconciler", often, partial(_reconcile, settings, metrics)),
        Job("disposal", _DISPOSAL, lambda desk: Disposal(desk).round),
        Job("outbox", _AT_ONCE, lambda desk: when(_events, partial(publish.publish, desk))),
        Job("events", _HOURLY, lambda desk: partial(publish.forget, desk)),
        Job("chats", _MINUTE, lambda desk: partial(forget_seen, desk)),
        Job("keys", _HOURLY, lambda desk: partial(forget_keys, desk)),
        Job("registry", _HOURLY, lambda desk: partial(executors.forget_old, desk)),
    ]


def _reconcile(settings: Settings, metrics: Metrics, desk: Desk) -> Callable[[], object]:
    reconciler = Reconciler(
        desk,
        metrics,
        identify(settings.executor_id),
        heartbeat_interval=settings.recovery.heartbeat_interval,
        stale_after=settings.recovery.stale_after,
    )
    return reconciler.round


def admit_all(desk: Desk) -> None:
    """Admit wherever something waits: a crash between an event and its admission ends here."""
    Survey(desk).round()


def forget_keys(desk: Desk) -> None:
    """Forget idempotency keys that are older than they are kept, once their deploy is gone."""
    kept = desk.settings().retention.keys_max_age
    after: Named | None = None
    while True:
        with desk.store.read() as tx:
            before = tx.now() - kept
            old = records.old_keys(tx, before=before, after=after, limit=_KEYS)
        if not old:
            return
        desk.store.once(partial(records.forget_keys, keys=old))
        after = old[-1]


def forget_seen(desk: Desk) -> None:
    """Forget requests of chats that could not come again, and codes that are void."""

    def work(tx: Transaction) -> int:
        return chats.forget(tx, before=tx.now())

    desk.store.once(work)
