"""Looks all the time whether the database is still the one this process began with.

The same look tells whether every process was asked for a reload.
"""

import logging
import threading
from collections.abc import Callable
from datetime import timedelta

from manent_server.domain.errors import Unavailable
from manent_server.store.repeat import is_transient
from manent_server.usecases.guard import Changed, Guard

_log = logging.getLogger(__name__)


class Sentry:
    """A thread of one process.

    Args:
        guard: What looks.
        every: Between two looks.
        on_changed: Told, once, why nothing may go on here.
        on_reload: Told each time that a reload was asked for.
    """

    def __init__(
        self,
        guard: Guard,
        *,
        every: timedelta,
        on_changed: Callable[[str], None],
        on_reload: Callable[[], None],
    ) -> None:
        self._guard = guard
        self._every = every
        self._on_changed = on_changed
        self._on_reload = on_reload
        self._is_failing = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="restore guard", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._stopped.set()

    def round(self) -> bool:
        """One look; False once this process must end."""
        try:
            if self._guard.watch():
                self._on_reload()
        except Changed as changed:
            _log.error("%s; this process ends, its hooks are killed", changed)
            self._on_changed(str(changed))
            return False
        except Unavailable:
            return True
        except Exception as error:  # noqa: BLE001 - while a dump is read in, tables come and go
            if not self._is_failing and not is_transient(error):
                _log.warning("the installation cannot be looked at: %s", error)
                self._is_failing = True
            return True
        self._is_failing = False
        return True

    def _run(self) -> None:
        while not self._stopped.wait(self._every.total_seconds()):
            if not self.round():
                return
