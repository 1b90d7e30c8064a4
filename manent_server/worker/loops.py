"""Leased loops: work that one process at a time does for all."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from manent_server.domain.errors import Unavailable
from manent_server.store.repeat import is_transient
from manent_server.store.workers import LeaseLost
from manent_server.usecases.desk import Desk
from manent_server.usecases.tenure import Tenure

_log = logging.getLogger(__name__)
_PATIENCE = timedelta(seconds=2)
_FIRST = timedelta(seconds=10)
"""What is seldom done is done soon after a start: a process may not live as long as it rests."""


@dataclass(frozen=True)
class Job:
    """A body and how often it runs while the lease of that name is held.

    `make` gives the body for a desk whose every writing transaction asks for the lease first.
    `lets_go`: the lease is given up after each round, so that a person's command may have it.
    `is_alone`: one process at a time does it; otherwise each one does it for itself.
    """

    name: str
    every: timedelta
    make: Callable[[Desk], Callable[[], object]]
    lets_go: bool = False
    is_alone: bool = True


class Loop:
    """Runs one job in a thread, whenever this process holds its lease."""

    def __init__(self, desk: Desk, holder: str, job: Job, *, lasts: timedelta) -> None:
        self._job = job
        self._tenure = Tenure(desk.store, job.name, holder, lasts=lasts)
        self._body = job.make(desk.under(self._tenure.demand) if job.is_alone else desk)
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
            if not self._job.is_alone:
                self._body()
            elif self._tenure.take():
                self._body()
                if self._job.lets_go:
                    self._tenure.give_up()
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
        every = self._job.every
        rest = min(every, _FIRST)
        while not self._stopped.wait(rest.total_seconds()):
            self.round()
            rest = every
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
