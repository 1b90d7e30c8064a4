"""Leased loops: work that one process at a time does for all."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from manent_server.domain.errors import Unavailable
from manent_server.store import workers
from manent_server.store.repeat import is_transient
from manent_server.store.transaction import Store, Transaction
from manent_server.store.workers import Lease, LeaseLost
from manent_server.usecases.desk import Desk

_log = logging.getLogger(__name__)
_PATIENCE = timedelta(seconds=2)


@dataclass(frozen=True)
class Job:
    """A body and how often it runs while the lease of that name is held.

    `make` gives the body for a desk whose every writing transaction asks for the lease first.
    """

    name: str
    every: timedelta
    make: Callable[[Desk], Callable[[], object]]


class Tenure:
    """One lease as this process has it, or has not.

    Args:
        store: Where the lease is.
        name: Of the lease.
        holder: Who asks for it.
        lasts: How long it lasts.
    """

    def __init__(self, store: Store, name: str, holder: str, *, lasts: timedelta) -> None:
        self._store = store
        self._name = name
        self._holder = holder
        self._lasts = lasts
        self._lease: Lease | None = None
        self._renew_at = 0.0

    def take(self) -> bool:
        """Whether the lease is ours; taken or prolonged when a third of it has passed."""
        if self._lease is not None and time.monotonic() < self._renew_at:
            return True  # each batch asks again
        began = time.monotonic()

        def take(tx: Transaction) -> Lease | None:
            return workers.take_lease(tx, self._name, self._holder, lasts=self._lasts, at=tx.now())

        self._lease = self._store.once(take)
        self._renew_at = began + self._lasts.total_seconds() / 3
        return self._lease is not None

    def demand(self, tx: Transaction) -> None:
        """What every batch begins with; a long round prolongs the lease on its way.

        Raises:
            LeaseLost: Another may act by now.
        """
        lease = self._lease
        if lease is None:
            raise LeaseLost(f"the lease {self._name} is not held", next="another process goes on")
        began = time.monotonic()
        prolongs = began >= self._renew_at
        workers.demand_lease(tx, lease, lasts=self._lasts, prolongs=prolongs)
        if prolongs:
            self._renew_at = began + self._lasts.total_seconds() / 3

    def lose(self) -> None:
        """Ask anew before the next round."""
        self._lease = None

    def give_up(self) -> None:
        """End it early, so that another process need not wait for its end."""
        lease, self._lease = self._lease, None
        if lease is None:
            return
        try:
            self._store.repeat(
                lambda tx: workers.give_up_lease(tx, lease), patience=timedelta(seconds=1)
            )
        except Unavailable:
            _log.info("the lease %s ends by itself", lease.name)


class Loop:
    """Runs one job in a thread, whenever this process holds its lease."""

    def __init__(self, desk: Desk, holder: str, job: Job, *, lasts: timedelta) -> None:
        self._job = job
        self._tenure = Tenure(desk.store, job.name, holder, lasts=lasts)
        self._body = job.make(desk.under(self._tenure.demand))
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"loop {job.name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the round that runs, then give the lease up."""
        self._stopped.set()

    def join(self, seconds: float) -> None:
        """Wait for the end of the thread, a little."""
        self._thread.join(seconds)

    def round(self) -> None:
        """One round, if the lease is ours; what goes wrong in it is the next one's to mend."""
        try:
            if self._tenure.take():
                self._body()
        except LeaseLost as error:
            _log.warning("loop %s stops its round: %s", self._job.name, error.detail)
            self._tenure.lose()
        except Unavailable:
            self._tenure.lose()
        except Exception as error:  # noqa: BLE001 - a loop outlives its rounds
            # What the engine asks for itself meets outages too.
            if is_transient(error):
                _log.warning("loop %s goes on when the database does", self._job.name)
            else:
                _log.exception("loop %s failed; it goes on", self._job.name)

    def _run(self) -> None:
        while not self._stopped.wait(self._job.every.total_seconds()):
            self.round()
        self._tenure.give_up()


class Loops:
    """All loops of a process."""

    def __init__(self, desk: Desk, holder: str, jobs: Sequence[Job], *, lasts: timedelta) -> None:
        self._loops = [Loop(desk, holder, job, lasts=lasts) for job in jobs]

    def start(self) -> None:
        """Begin all."""
        for loop in self._loops:
            loop.start()

    def stop(self) -> None:
        """End all and give their leases up; none is waited for longer than two seconds in all."""
        for loop in self._loops:
            loop.stop()
        limit = time.monotonic() + _PATIENCE.total_seconds()
        for loop in self._loops:
            loop.join(max(0.0, limit - time.monotonic()))
