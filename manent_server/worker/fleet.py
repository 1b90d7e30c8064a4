"""Loops that come and go with the configuration, each under a lease of its own."""

import logging
import threading
import time
from collections.abc import Callable, Collection
from datetime import timedelta
from typing import Final

from manent_server.usecases.desk import Desk
from manent_server.worker.loops import Job, Loop

_log = logging.getLogger(__name__)
_LOOK: Final = 1.0
_PATIENCE: Final = 1.0


class Fleet:
    """Begins a loop when its name comes into the configuration, ends it when the name goes.

    Args:
        desk: The collaborators.
        holder: Who holds the leases.
        wanted: The names that are configured now.
        job: What the loop of a name does.
        lasts: How long a lease lasts.
    """

    def __init__(
        self,
        desk: Desk,
        holder: str,
        wanted: Callable[[], Collection[str]],
        job: Callable[[str], Job],
        *,
        lasts: timedelta,
    ) -> None:
        self._desk = desk
        self._holder = holder
        self._wanted = wanted
        self._job = job
        self._lasts = lasts
        self._loops: dict[str, Loop] = {}
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fleet", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Take nothing more; whoever waits for an answer from outside is not waited for."""
        self._stopped.set()
        self._thread.join(_PATIENCE)
        for loop in self._loops.values():
            loop.stop()

    def join(self) -> None:
        """Wait a little for the ends; what was on its way is done again by another."""
        limit = time.monotonic() + _PATIENCE
        for loop in self._loops.values():
            loop.join(max(0.0, limit - time.monotonic()))

    def look(self) -> None:
        """Serve exactly the names that are configured now."""
        wanted = set(self._wanted())
        for name in self._loops.keys() - wanted:
            self._loops.pop(name).stop()
        for name in sorted(wanted - self._loops.keys()):
            self._loops[name] = self._begin(name)

    def _begin(self, name: str) -> Loop:
        loop = Loop(self._desk, self._holder, self._job(name), lasts=self._lasts)
        loop.start()
        return loop

    def _run(self) -> None:
        self._look_safely()
        while not self._stopped.wait(_LOOK):
            self._look_safely()

    def _look_safely(self) -> None:
        try:
            self.look()
        except Exception:  # noqa: BLE001 - logged whole; the names are looked at again
            _log.exception("what is configured could not be looked at; it is tried again")
