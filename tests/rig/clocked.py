"""A store whose database shows the time a test sets."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from manent_server.store.engine import Engines
from manent_server.store.transaction import Store, Transaction
from manent_server.usecases.desk import Desk
from tests.rig.core import Core


class Clock:
    """What the database shows."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def forward(self, by: timedelta) -> datetime:
        """Let time pass."""
        self.at += by
        return self.at


@dataclass(frozen=True)
class _Told(Transaction):
    clock: Clock | None = None

    def now(self) -> datetime:
        """The time that was set."""
        assert self.clock is not None
        return self.clock.at


class ClockedStore(Store):
    """The tables of one database by a clock of their own."""

    def __init__(self, engines: Engines, clock: Clock) -> None:
        super().__init__(engines)
        self._clock = clock

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """A transaction for reading."""
        with super().read() as tx:
            yield self._told(tx)

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """A transaction for writing."""
        with super().write() as tx:
            yield self._told(tx)

    def _told(self, tx: Transaction) -> Transaction:
        return _Told(tx.connection, tx.tables, tx.dialect, clock=self._clock)


def clocked(core: Core, at: datetime) -> tuple[Desk, Clock]:
    """The use cases' collaborators on a database that shows `at`, and its clock."""
    clock = Clock(at)
    store = ClockedStore(core.engines, clock)
    return replace(core.desk, store=store, admission=core.admission.under(store)), clock
