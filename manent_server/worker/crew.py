"""The worker of a process: from taking its executor row to signing off."""

import logging
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from manent_server.domain.deploy import State
from manent_server.domain.errors import Unavailable
from manent_server.engine.control import Control, Watch
from manent_server.engine.runtime import Runtime
from manent_server.engine.shop import Shop
from manent_server.recovery import start
from manent_server.recovery.heartbeat import Heartbeat
from manent_server.recovery.start import Resumed, Start
from manent_server.recovery.watcher import Watcher
from manent_server.store import deploys, work
from manent_server.store.transaction import Transaction

_log = logging.getLogger(__name__)
_HOOK_GRACE = timedelta(seconds=3)
_SLACK = timedelta(seconds=5)
_LAST_WORDS = timedelta(seconds=1)


@dataclass(frozen=True)
class Crew:
    """What makes a worker; its parts are started and stopped in one order."""

    shop: Shop
    watch: Watch
    start: Start
    heartbeat: Heartbeat
    watcher: Watcher
    runtime: Runtime
    drain_timeout: timedelta

    def begin(self, wait: Callable[[timedelta], bool]) -> None:
        """Take the row, beat, then let the engine deliver.

        Raises:
            StartRefused: Another process works under this id.
            Unavailable: The process is to end.
        """
        self.shop.runner.start()
        try:
            # A COMMIT that took the row may have been left without an answer.
            self._go(self.start.take(wait), wait)
        except BaseException:
            self._give_up()
            raise

    def _go(self, resumed: Resumed, wait: Callable[[timedelta], bool]) -> None:
        """What follows once the row is this worker's."""
        # At once: what comes next may take longer than a worker may be silent.
        self.heartbeat.start()
        # Everything an earlier start ran here is known dead now: its folders are nobody's.
        for left in ("deploys", "attempts"):
            shutil.rmtree(self.shop.workdir / left, ignore_errors=True)
        for deploy in resumed.deploys:
            _log.info("deploy %s was left by an earlier start and is dispatched anew", deploy)
        self.watch.start()
        self.runtime.launch(stop=lambda: wait(timedelta(0)))
        self.watcher.start()

    def _give_up(self) -> None:
        """A start that fails signs off too: nobody waits until its row is stale."""
        self.refuse()
        self.runtime.destroy(limit=timedelta(0))
        for control in self.watch.controls():
            control.disown(self.shop.runner)
        self.watch.stop()
        self.shop.runner.close()
        self.runtime.wait_idle(_LAST_WORDS)
        self.heartbeat.stop(patience=_LAST_WORDS)
        try:
            start.sign_off(self.shop.store, self.shop.identity, patience=_LAST_WORDS)
        except Unavailable:
            _log.warning("the database does not answer; the end of this start is not recorded")

    @property
    def is_fenced(self) -> bool:
        """Whether its leases have ended because no heartbeat was answered."""
        return self.shop.lifeline.is_fenced

    @property
    def silence(self) -> timedelta:
        """How long no heartbeat was answered."""
        return self.heartbeat.silence

    def running(self) -> int:
        """How many deploys run here."""
        return len(self.watch.running())

    def refuse(self) -> None:
        """Put back what the queue still hands out."""
        self.shop.lifeline.draining.set()

    def drain(self) -> None:
        """Take nothing new, let what runs finish, interrupt what does not, sign off."""
        self.refuse()
        self.watcher.stop()
        lifeline = self.shop.lifeline
        with suppress(Unavailable):
            start.announce_drain(self.shop.store, self.shop.identity)
        timer = threading.Timer(self.drain_timeout.total_seconds(), self._cut)
        timer.daemon = True
        timer.start()
        self._await_end()
        timer.cancel()
        lifeline.cut.set()
        self.watch.stop()
        self.shop.runner.close()
        try:
            self._hand_back()
            self.heartbeat.stop()
            start.sign_off(self.shop.store, self.shop.identity)
        except Unavailable:
            # Unsigned: the next start under this id waits until the row is stale.
            _log.warning("the database does not answer; the shutdown is not recorded")

    def _await_end(self) -> None:
        """Let the engine deliver no more and what runs come to its end, within the limit."""
        limit = self.drain_timeout + _SLACK
        began = time.monotonic()
        self.runtime.destroy(limit=limit)
        # The engine counts by the time of day, which may be set forward meanwhile.
        self.runtime.wait_idle(limit - timedelta(seconds=time.monotonic() - began))

    def _hand_back(self) -> None:
        """Deploys still busy outside of hooks, with a download perhaps: anybody may go on."""
        for control in self.watch.controls():
            hand_back = partial(self._hand_back_one, control=control)
            try:
                self.shop.store.repeat(hand_back, patience=timedelta(seconds=5))
            except Unavailable:
                raise
            except Exception:  # noqa: BLE001 - logged whole; the shutdown is recorded all the same
                _log.exception("deploy %s could not be handed back", control.deploy)

    def _hand_back_one(self, tx: Transaction, *, control: Control) -> None:
        row = deploys.lock(tx, control.deploy)
        identity = self.shop.identity
        if row is None or row.epoch != control.epoch or row.state != State.PENDING:
            return
        attempts = work.open_attempts(tx, place=(row.environment, row.application))
        if row.incarnation == identity.incarnation and not attempts:
            self.shop.dispatcher.hand_back(tx, row)

    def abandon(self) -> None:
        """The row is another's: hooks die now, nothing is written any more."""
        self.watcher.stop()
        lifeline = self.shop.lifeline
        lifeline.lost.set()
        lifeline.draining.set()
        for control in self.watch.controls():
            control.disown(self.shop.runner)
        self.shop.runner.close()
        # What came to its end too late is dropped in words.
        self.runtime.wait_idle(_LAST_WORDS)

    def _cut(self) -> None:
        """The drain's time is over: hooks are told to end, steps unwind."""
        _log.warning("the drain limit is reached; running hooks are interrupted")
        self.shop.lifeline.cut.set()
        grace = min(self.shop.caps.kill_grace, _HOOK_GRACE)
        pause = threading.Event()
        while not self.runtime.wait_idle(timedelta(0)):
            for control in self.watch.controls():
                control.interrupt(self.shop.runner, grace=grace)
            if pause.wait(0.2):
                return
