"""Writes down, now and then, how many refusals were only counted."""

import logging
import threading
from typing import Final

from manent_server.usecases.refuse import Refusals

_log = logging.getLogger(__name__)
_EVERY: Final = 15.0


class Tally:
    """A thread of one process; what is counted when it stops is written too."""

    def __init__(self, refusals: Refusals) -> None:
        self._refusals = refusals
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="refusals", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, after a last look."""
        self._stopped.set()
        self._thread.join(2.0)

    def _run(self) -> None:
        while not self._stopped.wait(_EVERY):
            self._flush()
        self._flush()

    def _flush(self) -> None:
        try:
            self._refusals.flush()
        except Exception:  # noqa: BLE001 - logged whole; it counts on
            _log.exception("refusals could not be written; it is tried again")
