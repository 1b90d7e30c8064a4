"""Leased loops: work that one process at a time does for all."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from manent_server.domain.errors import Unavailable
from manent_server.store import workers
from manent_server.store.transaction import Store, Transaction
from manent_server.store.workers import Lease

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Job:
    """A body and how often it runs while the lease of that name is held."""

    name: str
    every: timedelta
    body: Callable[[], object]


class Loop:
    """Runs one job in a thread, whenever this process holds its lease."""

    def __init__(self, store: Store, holder: str, job: Job, *, lasts: timedelta) -> None:
        self._store = store
        self._holder = holder
        self._job = job
        self._lasts = lasts
        self._lease: Lease | None = None
        self._renew_at = 0.0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"loop {job.name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the round that runs, then give the lease up."""
        self._stopped.set()

    def join(self) -> None:
        """Wait for the end of the thread, a little."""
        self._thread.join(2)

    def _run(self) -> None:
        while not self._stopped.wait(self._job.every.total_seconds()):
            self._round()
        self._give_up()

    def _round(self) -> None:
        try:
            if self._holds():
                self._job.body()
        except Unavailable:
            self._lease = None
        except Exception:  # noqa: BLE001 - logged whole; a loop outlives its rounds
            _log.exception("loop %s failed; it goes on", self._job.name)

    def _holds(self) -> bool:
        """Whether the lease is ours; renewed when a third of it has passed."""
        if self._lease is not None and time.monotonic() < self._renew_at:
            with self._store.read() as tx:
                return workers.holds_lease(tx, self._lease, at=tx.now())
        began = time.monotonic()

        def take(tx: Transaction) -> Lease | None:
            return workers.take_lease(
                tx, self._job.name, self._holder, lasts=self._lasts, at=tx.now()
            )

        self._lease = self._store.once(take)
        self._renew_at = began + self._lasts.total_seconds() / 3
        return self._lease is not None

    def _give_up(self) -> None:
        lease = self._lease
        if lease is None:
            return
        try:
            self._store.repeat(
                lambda tx: workers.give_up_lease(tx, lease), patience=timedelta(seconds=1)
            )
        except Unavailable:
            _log.info("the lease %s ends by itself", lease.name)


class Loops:
    """All loops of a process."""

    def __init__(self, store: Store, holder: str, jobs: Sequence[Job], *, lasts: timedelta) -> None:
        self._loops = [Loop(store, holder, job, lasts=lasts) for job in jobs]

    def start(self) -> None:
        """Begin all."""
        for loop in self._loops:
            loop.start()

    def stop(self) -> None:
        """End all and give their leases up."""
        for loop in self._loops:
            loop.stop()
        for loop in self._loops:
            loop.join()
