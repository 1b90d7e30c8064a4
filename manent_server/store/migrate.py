"""Brings the tables up to this release: ours first, then the execution library's.

Everything happens under one lock, so any number of processes may start at once; each
revision is one transaction, so any of them may die at any moment.
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import sqlalchemy as sa

from manent_migrations import VERSION_TABLE, revisions
from manent_migrations.naming import Naming
from manent_server.domain.errors import ConfigurationError, Unavailable
from manent_server.store import file_lock
from manent_server.store.column import Instant
from manent_server.store.engine import WRITES, Engines
from manent_server.store.pooler import refuse_transaction_pooler
from manent_server.store.repeat import Backoff, Outages, never, until_answered

_log = logging.getLogger(__name__)

# Any fixed number: the key of the session lock on Postgres.
LOCK: Final = 0x6D616E656E74_4D
_FORBIDDEN: Final = "42501"


@dataclass(frozen=True)
class Library:
    """The durable execution library, as far as its tables are concerned.

    Attributes:
        version: Its release; its tables are made once for each.
        migrate: Makes them; called with our lock held, asks `stop` while it waits.
    """

    version: str
    migrate: Callable[[Engines, Callable[[], bool]], None]


@dataclass(frozen=True)
class MigrationReport:
    """What was done.

    Attributes:
        applied: Our revisions, oldest first.
        dbos: Whether the library's own migrations ran.
    """

    applied: list[str]
    dbos: bool


@dataclass(frozen=True)
class _Limits:
    """How long to go on waiting, and whether what has begun comes to its end all the same."""

    backoff: Backoff
    stop: Callable[[], bool]
    finishes: bool

    def wait(self) -> None:
        if self.backoff.is_over or self.stop():
            raise Unavailable(
                "another process is migrating the database", next="Try again when it is done."
            )
        self.backoff.wait()


def migrate(
    engines: Engines,
    *,
    library: Library,
    patience: timedelta | None = None,
    stop: Callable[[], bool] = never,
    finishes: bool = False,
) -> MigrationReport:
    """Bring the database up to date; does nothing if it is.

    Waits for a database that does not answer and for a process that migrates already.

    Args:
        engines: Where.
        library: Whose tables stand beside ours.
        patience: How long to wait; None is for ever.
        stop: Asked while waiting.
        finishes: The library is not asked to stop either: its tables would be begun again.

    Raises:
        Unavailable: Patience is over, or `stop` said so.
        ConfigurationError: A transaction pooler, a database of an unknown history, or a
            role that may not create tables.
    """
    limits = _Limits(Backoff(patience), stop, finishes)
    try:
        return until_answered(
            lambda: _migrate(engines, library, limits),
            Outages(engines.url),
            patience=patience,
            stop=stop,
        )
    except sa.exc.ProgrammingError as error:
        if getattr(error.orig, "sqlstate", None) != _FORBIDDEN:
            raise
        raise ConfigurationError(
            f"database.url: the role may not create tables: {error.orig}",
            next="Grant it CREATE on the database.",
        ) from error


def is_current(engines: Engines, *, library: Library) -> bool:
    """Whether nothing is left to migrate; changes nothing."""
    with engines.lone.connect() as connection:
        return not _pending(connection) and _has_library(connection, library)


def newer(engines: Engines) -> str | None:
    """The revision of the database if a newer release has made it; this one can work with it."""
    with engines.lone.connect() as connection:
        present = _present(connection)
    return present if present is not None and present not in revisions() else None


def _migrate(engines: Engines, library: Library, limits: _Limits) -> MigrationReport:
    refuse_transaction_pooler(engines)
    if is_current(engines, library=library):
        return MigrationReport([], dbos=False)
    with _locked(engines, limits) as connection:
        applied = _upgrade(connection)
        made = not _has_library(connection, library)
        if made:
            library.migrate(engines, never if limits.finishes else limits.stop)
            _note_library(connection, library)
        return MigrationReport(applied, dbos=made)


@contextmanager
def _locked(engines: Engines, limits: _Limits) -> Iterator[sa.Connection]:
    """A connection for our revisions, while no other process has one.

    On Postgres its session is the lock: if it is lost, so is the revision under way.
    """
    writer = engines.lone.execution_options(**{WRITES: True})
    if engines.file is None:
        with writer.connect() as connection:
            _wait(lambda: _lock_session(connection), limits)
            yield connection
        return
    with file_lock.migrating(engines.file) as lock:
        _wait(lock.acquire, limits)
        with writer.connect() as connection:
            yield connection


def _wait(acquire: Callable[[], bool], limits: _Limits) -> None:
    if acquire():
        return
    _log.info("waiting for another process that migrates the database")
    since = time.monotonic()
    while not acquire():
        limits.wait()
    _log.info("the other process is done after %.1f s", time.monotonic() - since)


def _lock_session(connection: sa.Connection) -> bool:
    with connection.begin():
        query = sa.select(sa.func.pg_try_advisory_lock(LOCK))
        return bool(connection.execute(query).scalar_one())


def _upgrade(connection: sa.Connection) -> list[str]:
    pending = _pending(connection)
    if pending:
        # A tenth of a second, and most starts find nothing to do.
        from manent_server.store import upgrade  # noqa: PLC0415

        upgrade.to_head(connection)
        _log.info("migrated the database: %s", ", ".join(pending))
    return pending


def _pending(connection: sa.Connection) -> list[str]:
    """Our revisions this database lacks, oldest first."""
    known = revisions()
    present = _present(connection)
    if present is None:
        return known
    if present in known:
        return known[known.index(present) + 1 :]
    if present.isdecimal() and present > known[-1]:
        _log.warning("the database is of a newer release (revision %s)", present)
        return []
    raise ConfigurationError(
        f"database.url: the database has the unknown revision '{present}'",
        next="Use a database of its own for manent.",
    )


def _present(connection: sa.Connection) -> str | None:
    naming = Naming(connection.dialect.name)
    name = naming.table(VERSION_TABLE)
    table = sa.table(name, sa.column("version_num", sa.Text), schema=naming.schema)
    with connection.begin():
        if not sa.inspect(connection).has_table(name, schema=naming.schema):
            return None
        return connection.execute(sa.select(table.c.version_num)).scalar_one_or_none()


def _library_table(connection: sa.Connection) -> sa.Table:
    naming = Naming(connection.dialect.name)
    return sa.Table(
        naming.table("engine_versions"),
        sa.MetaData(),
        sa.Column("version", sa.Text, primary_key=True),
        sa.Column("migrated_at", Instant, nullable=False),
        schema=naming.schema,
    )


def _has_library(connection: sa.Connection, library: Library) -> bool:
    table = _library_table(connection)
    query = sa.select(table.c.version).where(table.c.version == library.version)
    with connection.begin():
        return connection.execute(query).first() is not None


def _note_library(connection: sa.Connection, library: Library) -> None:
    now = sa.func.strftime("%Y-%m-%dT%H:%M:%f000Z", "now", type_=Instant)
    if connection.dialect.name == "postgresql":
        now = sa.func.clock_timestamp()
    row = {"version": library.version, "migrated_at": now}
    with connection.begin():
        connection.execute(sa.insert(_library_table(connection)).values(row))
