"""Transactions: the only way to the tables.

`read` and `write` run once. `repeat` runs a piece of work until the database has answered,
so the work must be idempotent: ids are made outside of it, and finding that it happened
already is a success.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

import sqlalchemy as sa

from manent_server.store import tables
from manent_server.store.engine import WRITES, Engines
from manent_server.store.repeat import Outages, is_transient, never, unavailable, until_answered
from manent_server.store.room import Room

T = TypeVar("T")

REQUEST_PATIENCE: Final = timedelta(seconds=5)
# How long a clock that came with a row's lock stands for the clock now.
_FRESH: Final = 0.02


class Watermark:
    """How far the database had come when this process looked at it last; 0 before that.

    A database that is below went back in time: whatever asks whether something may begin tells
    it with `Transaction.floor`.
    """

    def __init__(self) -> None:
        self._epoch = 0
        self._number = 0
        self._lock = threading.Lock()

    @property
    def values(self) -> dict[str, int]:
        """It, by the names statements know."""
        return {"known_epoch": self._epoch, "known_number": self._number}

    def move(self, *, epoch: int, number: int) -> None:
        """It has come so far; what was numbered here during the look is not forgotten."""
        with self._lock:
            self._number = max(self._number, number) if epoch == self._epoch else number
            self._epoch = epoch

    def numbered(self, number: int) -> None:
        """This process has given that number to a record, and its commit was answered.

        Before it has looked it knows of no epoch to hold a number against.
        """
        with self._lock:
            if self._epoch:
                self._number = max(self._number, number)


class _Clock:
    """What the database's clock showed last in one transaction."""

    def __init__(self) -> None:
        self._at: datetime | None = None
        self._heard = 0.0

    def hear(self, at: datetime) -> None:
        """It came with an answer just now."""
        self._at, self._heard = at, time.monotonic()

    def fresh(self) -> datetime | None:
        """It, unless something has taken its time since: it is asked anew then."""
        return self._at if time.monotonic() - self._heard < _FRESH else None


@dataclass(frozen=True)
class Transaction:
    """One open transaction. Opaque outside the rooms that speak SQL."""

    connection: sa.Connection
    tables: tables.Tables
    dialect: str
    _watermark: Watermark = field(default_factory=Watermark, repr=False, compare=False)
    _clock: _Clock = field(default_factory=_Clock, repr=False, compare=False)

    @property
    def floor(self) -> dict[str, int]:
        """How far the database must have come, for statements that ask whether it is open."""
        return self._watermark.values

    def heard(self, at: datetime) -> None:
        """The clock came with a row's lock, read after it was got; it is not asked again at once.

        Args:
            at: What it showed, in any time zone.
        """
        self._clock.hear(at.astimezone(UTC))

    def now(self) -> datetime:
        """The database's clock at this moment, in UTC."""
        fresh = self._clock.fresh()
        if fresh is not None:
            return fresh
        if self.dialect == "sqlite":
            text: str = self.connection.exec_driver_sql(
                "SELECT strftime('%Y-%m-%dT%H:%M:%f+00:00', 'now')"
            ).scalar_one()
            return datetime.fromisoformat(text)
        now: datetime = self.connection.exec_driver_sql("SELECT clock_timestamp()").scalar_one()
        return now.astimezone(UTC)

    def savepoint(self) -> AbstractContextManager[object]:
        """A part that can fail alone: left by an exception, only its writes are undone."""
        return self.connection.begin_nested()


def _nothing(_: Transaction) -> None:
    """What an ordinary writing transaction begins with."""


def clock(dialect: str) -> sa.ColumnElement[Any]:
    """For the columns of a statement that locks rows; what it gives is told to `heard`.

    Null on SQLite, where asking costs no way to a server.
    """
    return sa.null() if dialect == "sqlite" else sa.func.clock_timestamp()


class Store:
    """The tables of one database, by transactions."""

    def __init__(self, engines: Engines) -> None:
        self._demand: Callable[[Transaction], None] = _nothing
        self._tables = tables.build(engines.dialect)
        self._dialect = engines.dialect
        self._room = Room()
        self._use(engines)
        self._outages = Outages(engines.url)
        self.watermark = Watermark()

    def _use(self, engines: Engines) -> None:
        self._writer = engines.ours.execution_options(**{WRITES: True})
        self._reader = engines.ours
        if engines.dialect == "postgresql":
            # Each statement stands alone: no lock, no snapshot and no idle transaction.
            self._reader = engines.ours.execution_options(isolation_level="AUTOCOMMIT")

    def through(self, engines: Engines) -> "Store":
        """The same tables by connections of another pool."""
        apart = copy(self)
        apart._use(engines)  # noqa: SLF001 - of this very class
        return apart

    def sparing(self, most: int) -> "Store":
        """The same tables for work nobody waits for; where answers are late it has most to do.

        Args:
            most: Of the pool's connections it has so many at once, and others find the rest.
        """
        spared = copy(self)
        if self._dialect == "postgresql":  # a file has one writer, whatever there are connections
            spared._room = Room(most)  # noqa: SLF001 - of this very class
        return spared

    def under(self, demand: Callable[[Transaction], None]) -> "Store":
        """The same tables for whoever may write only while something holds.

        Args:
            demand: Called first in every writing transaction; what it raises ends that.
        """
        guarded = copy(self)
        guarded._demand = demand  # noqa: SLF001 - of this very class
        return guarded

    def repeats(self) -> Mapping[str, int]:
        """How often transactions of this process were repeated, by reason."""
        return self._outages.repeats()

    def unanswered(self, last: timedelta) -> timedelta:
        """How much of the time up to now the database did not answer this process.

        Args:
            last: How far back to look.
        """
        return timedelta(seconds=self._outages.within(last.total_seconds()))

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """A transaction for reading; SQLite gives it one snapshot.

        Raises:
            Unavailable: The database does not answer.
        """
        try:
            with self._room.taken(), self._reader.connect() as connection:
                yield self._transaction(connection)
        except sa.exc.SQLAlchemyError as error:
            if is_transient(error):
                raise unavailable(error) from error
            raise

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """A transaction that commits at the end, or not at all.

        On SQLite it holds the write lock from its first statement on: never open one
        inside another.
        """
        with self._room.taken(), self._writer.begin() as connection:
            transaction = self._transaction(connection)
            self._demand(transaction)
            yield transaction

    def _transaction(self, connection: sa.Connection) -> Transaction:
        return Transaction(connection, self._tables, self._dialect, self.watermark)

    def consult(self, ask: Callable[[Transaction], T], *, stop: Callable[[], bool] = never) -> T:
        """A read that is repeated until it is answered.

        Raises:
            Unavailable: `stop` said so.
        """

        def attempt() -> T:
            with self._room.taken(), self._reader.connect() as connection:
                return ask(self._transaction(connection))

        return until_answered(attempt, self._outages, patience=None, stop=stop)

    def repeat(
        self,
        work: Callable[[Transaction], T],
        *,
        patience: timedelta | None = None,
        stop: Callable[[], bool] = never,
    ) -> T:
        """Run `work` in a writing transaction, again and again until it is answered.

        Repeated after a lost deadlock, a lock or time limit, a lost connection and a COMMIT
        whose answer was lost, so `work` may find its own writes.

        Args:
            work: Idempotent; every id it writes was made outside.
            patience: How long; None is for ever.
            stop: Asked before each further try.

        Raises:
            Unavailable: Patience is over, or `stop` said so; the last try may have
                committed without an answer.
        """

        def attempt() -> T:
            with self.write() as transaction:
                return work(transaction)

        return until_answered(attempt, self._outages, patience=patience, stop=stop)

    def once(self, work: Callable[[Transaction], T]) -> T:
        """`repeat` with the patience of a request."""
        return self.repeat(work, patience=REQUEST_PATIENCE)
