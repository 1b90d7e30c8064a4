"""What may happen to a running deploy from outside: cancel, deadline, loss.

One thread of the worker reads the rows of all its runs every second and tells each run;
the runs ask their control before every wait and hand-out.
"""

import logging
import threading
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from manent_server.domain.deploy import State
from manent_server.engine.identity import Identity
from manent_server.engine.leftover import Leftovers
from manent_server.plugins.runner import Runner
from manent_server.store.transaction import Store

_log = logging.getLogger(__name__)
_EVERY = timedelta(seconds=1)


class Control:
    """The switches of one run; `changed` is notified with every one that is thrown."""

    def __init__(self, deploy: str, epoch: int, *, grace: timedelta) -> None:
        self.deploy = deploy
        self.epoch = epoch
        self.changed = threading.Condition()
        self.is_cancelled = False
        self.wants_rollback = False
        self.is_overdue = False
        self.is_disowned = False
        self.is_undoing = False
        self.deadline_at: datetime | None = None
        self._grace = grace
        self._attempts: set[str] = set()
        self._told: set[str] = set()

    def began(self, attempt: str) -> None:
        """An attempt is about to be called."""
        with self.changed:
            self._attempts.add(attempt)

    def ended(self, attempt: str) -> None:
        """Its call came back."""
        with self.changed:
            self._attempts.discard(attempt)
            self._told.discard(attempt)

    def note_cancel(self, *, rollback: bool) -> None:
        """The row says that it is cancelled."""
        with self.changed:
            self.is_cancelled, self.wants_rollback = True, rollback
            self.changed.notify_all()

    def cancel(self, runner: Runner, *, rollback: bool) -> None:
        """Stop what must not go on; with `rollback` an undoing goes on."""
        with self.changed:
            self.is_cancelled, self.wants_rollback = True, rollback
            if not (self.is_undoing and rollback):
                self._stop(runner, "cancelled", self._grace)

    def overdue(self, runner: Runner) -> None:
        """The deadline has passed: the hook ends; an undoing has no deadline."""
        with self.changed:
            if not self.is_undoing:
                self.is_overdue = True
                self._stop(runner, "timed_out", self._grace)

    def interrupt(self, runner: Runner, *, grace: timedelta) -> None:
        """The worker's drain is over: hooks are told to end, steps will unwind."""
        with self.changed:
            self._stop(runner, "interrupted", grace)

    def disown(self, runner: Runner) -> None:
        """The deploy is no longer this run's: its hooks die at once."""
        with self.changed:
            self.is_disowned = True
            for attempt in self._attempts:
                runner.kill(attempt)
            self.changed.notify_all()

    def _stop(self, runner: Runner, reason: str, grace: timedelta) -> None:
        # Called again every second: an attempt handed out just before is told the next time,
        # and none is told twice.
        for attempt in (self._attempts & runner.running()) - self._told:
            self._told.add(attempt)
            runner.cancel(attempt, reason=reason, grace=grace)
        self.changed.notify_all()


class Watch:
    """Every run of this worker, and the thread that reads their rows.

    Args:
        store: Where they are read.
        runner: Runs their hooks.
        identity: Whose runs they are.
        leftovers: Attempts whose end is owed; seen to once a second as well.
    """

    def __init__(
        self, store: Store, runner: Runner, identity: Identity, leftovers: Leftovers | None = None
    ) -> None:
        self._store = store
        self._runner = runner
        self._identity = identity
        self._leftovers = leftovers or Leftovers()
        self._runs: dict[str, Control] = {}
        self._guard = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="watch", daemon=True)

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """Read no more."""
        self._stopped.set()

    def add(self, control: Control) -> None:
        """A run begins."""
        with self._guard:
            self._runs[control.deploy] = control

    def remove(self, control: Control) -> None:
        """A run has ended."""
        with self._guard:
            if self._runs.get(control.deploy) is control:
                del self._runs[control.deploy]

    def controls(self) -> list[Control]:
        """Those at work now."""
        with self._guard:
            return list(self._runs.values())

    def running(self) -> list[str]:
        """The ids of their deploys."""
        return sorted(control.deploy for control in self.controls())

    def look(self) -> None:
        """Read the rows once and tell the runs."""
        controls = self.controls()
        if not controls:
            return
        with self._store.read() as tx:
            at = tx.now()
            d = tx.tables.deploys
            rows = {
                row.id: row
                for row in tx.connection.execute(
                    sa.select(
                        d.c.id,
                        d.c.epoch,
                        d.c.phase,
                        d.c.cancel_requested_at,
                        d.c.cancel_rollback,
                        d.c.deadline_at,
                    ).where(
                        d.c.id.in_([control.deploy for control in controls]),
                        d.c.incarnation == self._identity.incarnation,
                        d.c.state == State.PENDING,
                    )
                )
            }
        for control in controls:
            self._tell(control, rows.get(control.deploy), at)

    def _tell(self, control: Control, row: Any, at: datetime) -> None:
        if row is None or row.epoch != control.epoch:
            control.disown(self._runner)
            return
        if row.cancel_requested_at is not None:
            control.cancel(self._runner, rollback=row.cancel_rollback)
        control.deadline_at = row.deadline_at
        if row.deadline_at is not None and row.deadline_at <= at:
            control.overdue(self._runner)

    def _loop(self) -> None:
        while not self._stopped.wait(_EVERY.total_seconds()):
            try:
                self.look()
                self._leftovers.settle(self._store)
            except Exception as error:  # noqa: BLE001 - an outage must not end the watch
                _log.debug("the watch could not read: %s", error)
