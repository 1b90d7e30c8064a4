"""Start: a worker takes its executor row and goes on with what it left."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

from manent_server.domain import duration
from manent_server.domain.deploy import Phase
from manent_server.domain.errors import StartRefused, Unavailable
from manent_server.domain.liveness import is_lost
from manent_server.engine.dispatch import Dispatcher
from manent_server.engine.identity import Identity
from manent_server.engine.version import build
from manent_server.plugins import lockfile
from manent_server.store import deploys, work, workers
from manent_server.store.deploys import Deploy
from manent_server.store.transaction import Store, Transaction
from manent_server.store.work import Attempt
from manent_server.store.workers import Executor
from manent_server.usecases import put_back

_log = logging.getLogger(__name__)
PATIENCE = timedelta(minutes=2)
_YOUNG = timedelta(seconds=10)
_PATIENT = timedelta(seconds=5)


@dataclass(frozen=True)
class Offer:
    """What the row says of the worker besides who it is."""

    pools: Sequence[str]
    plugins: Sequence[str]
    configuration: str
    stale_after: timedelta


@dataclass(frozen=True)
class Resumed:
    """What a start found: deploys to go on with, and attempts whose end nobody had seen."""

    deploys: Sequence[str]
    attempts: Sequence[str]


class Start:
    """Takes the row of one executor for one incarnation."""

    def __init__(
        self, store: Store, dispatcher: Dispatcher, identity: Identity, offer: Offer
    ) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._identity = identity
        self._offer = offer
        self._waited = timedelta(0)
        self._ahead: tuple[datetime, timedelta] | None = None

    def take(self, wait: Callable[[timedelta], bool]) -> Resumed:
        """Take the row, waiting until its earlier holder is lost.

        Args:
            wait: Waits for a time; True if the process is to end meanwhile.

        Raises:
            StartRefused: Another process beats under this id and goes on doing so.
        """
        pause = timedelta(milliseconds=250)
        patience = max(PATIENCE, self._offer.stale_after * 2)
        while True:
            resumed = self._store.repeat(self._take, stop=lambda: wait(timedelta(0)))
            if resumed is not None:
                return resumed
            if self._waited >= patience:
                raise self._refusal(self._alive_attempts())
            if not self._waited:
                _log.warning(
                    "waiting until it counts as lost, at most %s: %s",
                    duration.show(patience),
                    self._refusal(self._alive_attempts()).detail,
                )
            if wait(pause):
                raise Unavailable("the start was given up", next="start again")
            self._waited += pause

    def _take(self, tx: Transaction) -> Resumed | None:
        """One transaction: the row, the attempts it left, its deploys; None while it is held."""
        row = workers.lock(tx, self._identity.executor)
        if row is not None and row.incarnation == self._identity.incarnation:
            return Resumed((), ())  # the answer to an earlier COMMIT was lost
        at = tx.now()
        if row is not None and not self._is_lost(row, tx):
            return None
        # Their locks keep the earlier start from handing out while its attempts are asked for.
        owned = [
            deploys.lock(tx, deploy.id) for deploy in deploys.owned(tx, self._identity.executor)
        ]
        left = self._left(tx)
        if any(self._may_live(attempt, at) for attempt in left):
            return None
        taken = workers.write(
            tx,
            {
                "id": self._identity.executor,
                "incarnation": self._identity.incarnation,
                "version": self._identity.version,
                "build": build(),
                "hostname": self._identity.hostname,
                "boot": self._identity.boot,
                "pid_namespace": self._identity.pid_namespace,
                "started_at": at,
                "heartbeat_at": at,
                "stopped_at": None,
                "draining": False,
                "pools": list(self._offer.pools),
                "plugins": sorted(self._offer.plugins),
                "running": [],
                "configuration": self._offer.configuration,
                "recovered_by": None,
            },
        )
        if not taken:
            return None
        ended = [self._end(tx, attempt, row) for attempt in left if self._is_over(attempt, at)]
        live = [deploy for deploy in owned if deploy is not None and deploy.is_live]
        # One that cannot be dispatched keeps no worker from starting: the reconciler has it.
        failed = put_back.one_by_one(tx, live, partial(self._dispatch, tx))
        resumed = [deploy.id for deploy in live if deploy.id not in failed]
        return Resumed(resumed, ended)

    def _dispatch(self, tx: Transaction, rows: Sequence[Deploy]) -> None:
        for deploy in rows:
            self._dispatcher.dispatch(tx, deploy.id, phase=Phase.INTERRUPTED)

    def _left(self, tx: Transaction) -> list[Attempt]:
        return work.open_attempts(tx, executor=self._identity.executor)

    def _is_over(self, attempt: Attempt, at: datetime) -> bool:
        """Whether nothing of it can act any more, or this start is the word for it.

        Its lock file is free where it can be asked; another process namespace of the same boot
        was an earlier container of this one. Elsewhere its lease has to pass.
        """
        if not work.may_act(attempt, at=at) or attempt.lease_until is None:
            return True
        if not self._is_same_boot(attempt):
            return False
        is_elsewhere = not self._is_my_namespace(attempt)
        return is_elsewhere or Path(attempt.lock_file).parent.is_dir()

    def _end(self, tx: Transaction, attempt: Attempt, before: Executor | None) -> str:
        # With automatic recovery off a lease has no end: a start under the same id is the word
        # that ends it. On the same host the lock file has shown that nothing of it lives.
        is_begun = self._is_begun(attempt)
        work.end_lost(
            tx,
            attempt.id,
            died=not has_stopped(before, attempt),
            message=f"{attempt.executor} ended " + ("under it" if is_begun else "before it began"),
            is_begun=is_begun,
        )
        if not self._is_here(attempt) and attempt.lease_until is None:
            _log.warning(
                "attempt %s of deploy %s ran on host %s, which cannot be asked from here; it is "
                "taken as ended because %s starts again",
                attempt.id,
                attempt.deploy,
                attempt.hostname,
                attempt.executor,
            )
        return attempt.id

    def _is_begun(self, attempt: Attempt) -> bool:
        """False only if it is certain: a hook that began here on this boot left its lock file."""
        is_here = self._is_same_boot(attempt) and self._is_my_namespace(attempt)
        file = Path(attempt.lock_file)
        return file.exists() or not (is_here and file.parent.is_dir())

    def _is_my_namespace(self, attempt: Attempt) -> bool:
        return attempt.pid_namespace == self._identity.pid_namespace

    def _may_live(self, attempt: Attempt, at: datetime) -> bool:
        """Whether a process of the attempt lives on this host, or is about to."""
        if not self._is_same_boot(attempt):
            return False
        if not self._is_my_namespace(attempt):
            return False
        file = Path(attempt.lock_file)
        # Handed out a moment ago, its guard may not have taken the lock yet.
        is_young = not file.exists() and at - attempt.handed_out_at < _YOUNG
        return is_young or not lockfile.is_free(file)

    def _alive_attempts(self) -> list[Attempt]:
        """Attempts of this executor that keep the start waiting."""

        def read(tx: Transaction) -> list[Attempt]:
            at = tx.now()
            return [attempt for attempt in self._left(tx) if self._may_live(attempt, at)]

        return self._store.consult(read)

    def _is_same_boot(self, attempt: Attempt) -> bool:
        return attempt.boot == self._identity.boot

    def _is_here(self, attempt: Attempt) -> bool:
        return self._is_same_boot(attempt) or attempt.hostname == self._identity.hostname

    def _is_lost(self, row: Executor, tx: Transaction) -> bool:
        at = tx.now()
        if row.heartbeat_at > at and row.stopped_at is None:
            return self._is_silent(row)
        return is_lost(
            heartbeat_at=row.heartbeat_at,
            stopped_at=row.stopped_at,
            at=at,
            stale_after=self._offer.stale_after,
        )

    def _is_silent(self, row: Executor) -> bool:
        """Whether a heartbeat of a time to come has stayed the last one while this start waited.

        The database's clock was set back since. It could not say for as long that the holder is
        lost; a holder that lives sends a new one.
        """
        if self._ahead is None or self._ahead[0] != row.heartbeat_at:
            self._ahead = row.heartbeat_at, self._waited
        return self._waited - self._ahead[1] > self._offer.stale_after

    def _refusal(self, alive: Sequence[Attempt]) -> StartRefused:
        executor = self._identity.executor
        if alive:
            return StartRefused(
                f"processes of attempt {alive[0].id} of deploy {alive[0].deploy} still live here",
                code="attempt_alive",
                next="end them, then start again",
            )
        with self._store.read() as tx:
            row = workers.read(tx, executor)
        holder = f"{row.hostname} since {row.started_at.isoformat()}" if row else "another process"
        return StartRefused(
            f"executor_id {executor} is in use by {holder}",
            code="executor_id_in_use",
            next="stop that process, or give this one an executor_id of its own",
        )


def has_stopped(row: Executor | None, attempt: Attempt) -> bool:
    """Whether the start that ran the attempt recorded its stop: no death then."""
    is_its = row is not None and row.incarnation == attempt.incarnation
    return is_its and row is not None and row.stopped_at is not None


def sign_off(store: Store, identity: Identity, *, patience: timedelta = _PATIENT) -> None:
    """Record the shutdown: the last thing a worker does.

    Raises:
        Unavailable: The database did not answer for as long as `patience`.
    """

    def work(tx: Transaction) -> None:
        at = tx.now()
        workers.update(
            tx, identity.executor, identity.incarnation, stopped_at=at, running=[], draining=False
        )

    store.repeat(work, patience=patience)


def announce_drain(store: Store, identity: Identity) -> None:
    """Say that nothing new is taken: admission counts this worker no more."""

    def work(tx: Transaction) -> None:
        workers.update(tx, identity.executor, identity.incarnation, draining=True)

    store.repeat(work, patience=timedelta(seconds=2))
