"""The watcher: every worker watches the others, the holder of one lease takes over from the lost.

A worker that has stopped is taken over from at once. One that is silent must be so by two
clocks: by the database's, and by this host's since the answer that first showed its last
heartbeat. The takeover looks again under the lock of the executor's row.
"""

import logging
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from manent_server.domain import liveness
from manent_server.domain.errors import Conflict, Unavailable
from manent_server.domain.observation import Beat, Observation
from manent_server.store import deploys, workers
from manent_server.store.transaction import Transaction
from manent_server.store.workers import Executor, Lease
from manent_server.usecases import executors, recover
from manent_server.usecases.desk import Desk
from manent_server.usecases.recover import Claim
from manent_server.usecases.tenure import Vigil, take_watched

_log = logging.getLogger(__name__)
LEASE: Final = "recovery"
ACTOR: Final = "manent"


def boottime() -> float:
    """Seconds since the boot of this host, its sleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class _NotNow(Exception):
    """Looked at again under its lock, the executor is not to be taken over from."""


@dataclass(frozen=True)
class _Look:
    """The registry as one answer showed it."""

    at: datetime
    crew: list[Executor]
    left: frozenset[str]


class Watcher:
    """Watches the registry in a thread of its own while automatic recovery is on."""

    def __init__(self, desk: Desk, executor: str, *, clock: Callable[[], float] = boottime) -> None:
        recovery = desk.settings().recovery
        self._desk = desk
        self._executor = executor
        self._clock = clock
        self._after = recovery.auto_recover_after
        self._every = recovery.heartbeat_interval / 4
        self._lasts = liveness.loop_lease(recovery.heartbeat_interval, self._after)
        self._seen = Observation(recovery.heartbeat_interval)
        # Replicas may share a name: each start is a holder of its own.
        self._holder = f"{executor}:{secrets.token_hex(4)}"
        self._lease: Lease | None = None
        self._renew_at = 0.0
        self._vigil = Vigil(self._lasts, clock)
        self._has_looked = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="watcher", daemon=True)

    def start(self) -> None:
        """Begin, where automatic recovery is on."""
        if self._after:
            self._thread.start()

    def stop(self) -> None:
        """Take over no more; the lease is given up, so that another worker may at once."""
        self._stopped.set()

    def round(self) -> list[str]:
        """Look once; the executors that were taken over from."""
        asked = self._clock()
        look = self._look()
        beats = {row.id: Beat(row.incarnation, row.heartbeat_at) for row in look.crew}
        if not self._seen.note(beats, asked=asked, answered=self._clock()) and self._has_looked:
            _log.info("the registry was not read for a heartbeat; silences are counted anew")
        self._has_looked = True
        lease = self._hold()
        if lease is None:
            return []
        due = [row for row in look.crew if self._is_due(row, look)]
        return [row.id for row in due if self._try(row, lease)]

    def _look(self) -> _Look:
        with self._desk.store.read() as tx:
            # The clock first: read later it would make every heartbeat look older than it is.
            at = tx.now()
            crew = workers.everyone(tx)
            stopped = [row.id for row in crew if row.stopped_at and row.recovered_by is None]
            left = frozenset(name for name in stopped if deploys.owned(tx, name))
        return _Look(at, crew, left)

    def _is_due(self, row: Executor, look: _Look) -> bool:
        if row.id == self._executor or row.recovered_by is not None:
            return False
        if row.stopped_at is not None:
            return row.id in look.left
        silence = self._seen.silence(row.id, Beat(row.incarnation, row.heartbeat_at))
        return silence >= self._after and look.at - row.heartbeat_at > self._after

    def _try(self, row: Executor, lease: Lease) -> bool:
        """One executor; what is wrong with it keeps no other from being taken over from."""
        try:
            return self._take_over(row, lease)
        except Unavailable as error:
            # Somebody holds its row perhaps; the lease may have ended meanwhile.
            self._renew_at = 0.0
            _log.warning("%s is not taken over from now: %s", row.id, error.detail)
        except Exception:  # noqa: BLE001 - logged whole; the next round tries again
            _log.exception("%s could not be taken over from", row.id)
        return False

    def _take_over(self, row: Executor, lease: Lease) -> bool:
        """One transaction; False where the executor is not lost after all."""
        claim = Claim(
            id=secrets.token_hex(16),
            executor=row.id,
            by=self._executor,
            actor=ACTOR,
            demand=partial(self._demand, row, lease),
        )
        taken = [held for held in executors.holdings(self._desk) if held.executor == row.id]
        try:
            answer = self._desk.store.once(lambda tx: recover.take(tx, self._desk, claim, taken))
        except (_NotNow, Conflict) as reason:
            _log.info("%s is not taken over from: %s", row.id, reason)
            return False
        recover.report(self._desk, answer)
        return True

    def _demand(self, seen: Executor, lease: Lease, tx: Transaction, row: Executor | None) -> None:
        """The same start with the same heartbeat, and the lease still ours."""
        at = tx.now()
        if row is None or (row.incarnation, row.heartbeat_at, row.stopped_at) != (
            seen.incarnation,
            seen.heartbeat_at,
            seen.stopped_at,
        ):
            raise _NotNow("it has moved")
        if row.recovered_by is not None:
            raise _NotNow(f"{row.recovered_by} was faster")
        if not workers.holds_lease(tx, lease, at=at):
            raise _NotNow("the lease went to another worker")

    def _hold(self) -> Lease | None:
        """The lease, if it is this worker's; asked for anew when a third of it has passed."""
        now = self._clock()
        if now < self._renew_at:
            return self._lease

        def take(tx: Transaction) -> Lease | None:
            return take_watched(tx, LEASE, self._holder, self._lasts, self._vigil)

        self._lease = self._desk.store.once(take)
        self._renew_at = now + self._lasts.total_seconds() / 3
        return self._lease

    def _loop(self) -> None:
        while not self._stopped.wait(self._every.total_seconds()):
            try:
                self.round()
            except Unavailable:
                self._lease, self._renew_at = None, 0.0
            except Exception:  # noqa: BLE001 - logged whole; the watcher outlives its rounds
                _log.exception("the watcher failed; it goes on")
        self._give_up()

    def _give_up(self) -> None:
        lease = self._lease
        if lease is None:
            return
        try:
            self._desk.store.repeat(
                lambda tx: workers.give_up_lease(tx, lease), patience=timedelta(seconds=1)
            )
        except Unavailable:
            _log.info("the lease %s ends by itself", LEASE)
