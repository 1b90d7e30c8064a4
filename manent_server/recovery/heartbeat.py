"""The heartbeat: a thread and a connection of its own, kept up through the drain."""

import logging
import threading
from collections.abc import Callable
from datetime import timedelta

from manent_server.engine.control import Watch
from manent_server.engine.identity import Identity
from manent_server.plugins.runner import Runner
from manent_server.store import workers
from manent_server.store.transaction import Store, Transaction
from manent_server.store.work import spare

_log = logging.getLogger(__name__)


class Heartbeat:
    """Moves `heartbeat_at`, says what runs, and learns whether all of it is still ours."""

    def __init__(
        self,
        store: Store,
        identity: Identity,
        *,
        every: timedelta,
        on_lost: Callable[[], None],
    ) -> None:
        self._store = store
        self._identity = identity
        self._every = every
        self._on_lost = on_lost
        self._stopped = threading.Event()
        self._is_silent = False
        self._watch: Watch | None = None
        self._runner: Runner | None = None
        self._thread = threading.Thread(target=self._loop, name="heartbeat", daemon=True)

    def start(self, watch: Watch, runner: Runner) -> None:
        """Begin to beat."""
        self._watch, self._runner = watch, runner
        self._thread.start()

    def stop(self) -> None:
        """Beat no more."""
        self._stopped.set()
        self._thread.join(5)

    def beat(self) -> None:
        """One heartbeat; what is no longer ours is killed."""
        if self._watch is None or self._runner is None:
            raise RuntimeError("the heartbeat was not started")
        running = self._watch.running()
        attempts = sorted(self._runner.running())

        def work(tx: Transaction) -> list[str] | None:
            mine = workers.beat(
                tx, self._identity.executor, self._identity.incarnation, running=running
            )
            if mine:
                return workers.disowned(tx, attempts)
            spare(tx, self._identity.incarnation)
            return None

        with self._store.write() as tx:
            disowned = work(tx)
        if disowned is None:
            self._stopped.set()
            self._on_lost()
            return
        # What was running when it was listed may have come to its end while the database was asked.
        for attempt in self._runner.running().intersection(disowned):
            _log.error("attempt %s is no longer this worker's; it is killed", attempt)
            self._runner.kill(attempt)

    def _loop(self) -> None:
        while not self._stopped.wait(self._every.total_seconds()):
            try:
                self.beat()
            except Exception as error:  # noqa: BLE001 - an outage must not end the heartbeat
                if not self._is_silent:
                    _log.warning("no heartbeat could be sent: %s", type(error).__name__)
                self._is_silent = True
            else:
                if self._is_silent:
                    _log.info("heartbeats are sent again")
                self._is_silent = False
