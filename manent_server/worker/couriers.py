"""The loops that tell sinks: one for each that is configured, under its own lease."""

import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from manent_server.usecases import sinks
from manent_server.usecases.deliver import Carrier, Courier
from manent_server.usecases.desk import Desk
from manent_server.worker.loops import Job, Loop

_log = logging.getLogger(__name__)
EVERY: Final = timedelta(milliseconds=500)
_LOOK: Final = 1.0
_PATIENCE: Final = 1.0


class Couriers:
    """Begins with a sink when it comes into the configuration, ends when it goes.

    Args:
        desk: The collaborators.
        holder: Who holds the leases.
        carrier: How a sink is told.
        lasts: How long a lease lasts.
    """

    def __init__(
        self,
        desk: Desk,
        holder: str,
        carrier: Callable[[str], Carrier | None],
        *,
        lasts: timedelta,
    ) -> None:
        self._desk = desk
        self._holder = holder
        self._carrier = carrier
        self._lasts = lasts
        self._loops: dict[str, Loop] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="couriers", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Take nothing more; whoever waits for a receiver is not waited for."""
        self._stopped.set()
        self._thread.join(_PATIENCE)
        for loop in self._loops.values():
            loop.stop()

    def join(self) -> None:
        """Wait a little for the ends; a notice that is on its way is sent again by another."""
        limit = time.monotonic() + _PATIENCE
        for loop in self._loops.values():
            loop.join(max(0.0, limit - time.monotonic()))

    def look(self) -> None:
        """Serve exactly the sinks that are configured now."""
        wanted = {sink.name for sink in sinks.known(self._desk)}
        for name in self._loops.keys() - wanted:
            self._loops.pop(name).stop()
        for name in sorted(wanted - self._loops.keys()):
            self._loops[name] = self._begin(name)

    def _begin(self, name: str) -> Loop:
        def make(desk: Desk) -> Callable[[], object]:
            courier = Courier(desk, self._desk.store, name, lambda: self._carrier(name))
            courier.is_stopping = self._stopped.is_set
            return courier.round

        loop = Loop(self._desk, self._holder, Job(f"outbox:{name}", EVERY, make), lasts=self._lasts)
        loop.start()
        return loop

    def _run(self) -> None:
        self._look_safely()
        while not self._stopped.wait(_LOOK):
            self._look_safely()

    def _look_safely(self) -> None:
        try:
            self.look()
        except Exception:  # noqa: BLE001 - logged whole; the sinks are looked at again
            _log.exception("the sinks could not be looked at; it is tried again")
