"""The heartbeat: a thread and a connection of its own, kept up through the drain."""

import logging
import threading
import time
from collections.abc import Callable
from datetime import timedelta

from manent_server.engine.control import Watch
from manent_server.engine.shop import Shop
from manent_server.plugins.protocol import boottime
from manent_server.store import aftermath, heartbeats, workers
from manent_server.store.heartbeats import Answer, Beat
from manent_server.store.transaction import Store
from manent_server.store.workers import Executor

_log = logging.getLogger(__name__)
_SOON = timedelta(milliseconds=500)
_LEAST = timedelta(milliseconds=50)
_PATIENCE = timedelta(seconds=5)


class Heartbeat:
    """Moves `heartbeat_at`, says what runs, renews leases and learns what is still ours.

    Args:
        store: On a connection of its own.
        shop: Whose worker it is.
        watch: What it runs.
        every: Between two beats.
        on_lost: Told once the row is another's.
        configuration: The digest of what is in force here.
    """

    def __init__(  # noqa: PLR0913 - whose it is, and whom it asks and tells
        self,
        store: Store,
        shop: Shop,
        watch: Watch,
        *,
        every: timedelta,
        on_lost: Callable[[], None],
        configuration: Callable[[], str],
    ) -> None:
        self._store = store
        self._shop = shop
        self._watch = watch
        self._every = every
        self._on_lost = on_lost
        self._configuration = configuration
        self._stopped = threading.Event()
        self._answered = time.monotonic()
        self._is_silent = False
        self._is_told = False
        self._thread = threading.Thread(target=self._loop, name="heartbeat", daemon=True)

    @property
    def silence(self) -> timedelta:
        """How long no heartbeat was answered."""
        return timedelta(seconds=time.monotonic() - self._answered)

    def start(self) -> None:
        """Begin to beat; the start of the worker was the first one."""
        self._hold(boottime())
        self._answered = time.monotonic()
        self._thread.start()

    def stop(self, *, patience: timedelta = _PATIENCE) -> None:
        """Beat no more; a beat that is under way is waited for, as long as `patience`."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(patience.total_seconds())

    def beat(self) -> None:
        """One heartbeat; what is no longer ours is killed.

        Leases are counted from before it was sent: the database counts them from later on.
        """
        shop = self._shop
        said = Beat(
            shop.identity.executor,
            shop.identity.incarnation,
            running=self._watch.running(),
            attempts=sorted(shop.runner.running()),
            lease=shop.lease,
            configuration=self._configuration(),
        )
        sent = boottime()
        with self._store.write() as tx:
            answer = heartbeats.beat(tx, said)
            if answer is None:
                aftermath.spare(tx, shop.identity.incarnation)
        if answer is None:
            self._lose()
            return
        self._hold(sent)
        self._answered = time.monotonic()
        self._tell(said, answer)

    def _hold(self, sent: float) -> None:
        lease = self._shop.lease
        self._shop.lifeline.holds_until = None if lease is None else sent + lease.total_seconds()

    def _tell(self, said: Beat, answer: Answer) -> None:
        """Move the leases of hooks; kill those of attempts that are not this worker's."""
        runner, until = self._shop.runner, self._shop.lifeline.holds_until
        for attempt in answer.renewed:
            runner.extend(attempt, until)
        # What was running when it was listed may have come to its end while the database was asked.
        for attempt in runner.running().intersection(said.attempts) - answer.owned:
            _log.error("attempt %s is no longer this worker's; it is killed", attempt)
            runner.kill(attempt)

    def _lose(self) -> None:
        """The row is another's: hooks die, this process must end."""
        self._stopped.set()
        self._shop.lifeline.lost.set()
        for attempt in self._shop.runner.running():
            self._shop.runner.kill(attempt)
        executor = self._shop.identity.executor
        try:
            with self._store.read() as tx:
                row = workers.read(tx, executor)
            _log.error("%s; its hooks are killed and it must be restarted", self._why(row))
        except Exception:  # noqa: BLE001 - whose it is now is only told
            _log.error("%s has lost its row and must be restarted", executor)
        self._on_lost()

    def _why(self, row: Executor | None) -> str:
        identity = self._shop.identity
        if row is None:
            return f"{identity.executor} is not in the registry any more"
        if row.incarnation != identity.incarnation:
            return f"another process has started as {identity.executor} on {row.hostname}"
        return (
            f"{identity.executor} was taken for lost and recovered by {row.recovered_by}: what it "
            "was running may have been started again elsewhere"
        )

    def _missed(self, error: Exception) -> None:
        if not self._is_silent:
            _log.warning("no heartbeat could be sent: %s", type(error).__name__)
            self._is_silent = True
            self._is_told = False
        if self._shop.lifeline.is_fenced and not self._is_told:
            self._is_told = True
            _log.error("no heartbeat for a whole lease: running hooks are dead, nothing is begun")

    def _loop(self) -> None:
        due = time.monotonic()
        while not self._stopped.is_set():
            try:
                self.beat()
            except Exception as error:  # noqa: BLE001 - an outage must not end the heartbeat
                self._missed(error)
                pause = min(self._every, _SOON)
            else:
                if self._is_silent:
                    _log.info("heartbeats are sent again")
                self._is_silent = False
                pause = self._every
            # Kept to the clock: what a beat took does not put the next one off.
            due = max(due + pause.total_seconds(), time.monotonic())
            self._stopped.wait(max(due - time.monotonic(), _LEAST.total_seconds()))
