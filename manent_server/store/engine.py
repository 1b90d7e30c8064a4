"""Engines: how this process reaches its database.

Two engines stand on one database. `ours` runs our transactions, `dbos` belongs to the
durable execution library. Both carry the same limits, so that a process which stops,
loses its host or its network holds no lock for longer than the rules of recovery allow.
"""

import os
import select
import sqlite3
import time
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from manent_server.domain.errors import ConfigurationError
from manent_server.store.patience import bound

WRITES: Final = "manent_writes"
"""Execution option: the transaction writes, so SQLite takes its lock at once."""

CONNECT_TIMEOUT: Final = timedelta(seconds=5)
POOL_TIMEOUT: Final = timedelta(seconds=5)
# The library does not repeat what found no free connection.
LIBRARY_POOL_TIMEOUT: Final = timedelta(seconds=30)
IDLE_IN_TRANSACTION: Final = timedelta(seconds=5)
LOCK_TIMEOUT: Final = timedelta(seconds=5)
# A start that is told to end while its migration waits for a lock ends within five seconds.
LOCK_TIMEOUT_OF_START: Final = timedelta(seconds=3)
STATEMENT_TIMEOUT: Final = timedelta(seconds=30)
# The server ends a statement by then: this side gives up a little later.
ANSWER_TIMEOUT: Final = STATEMENT_TIMEOUT + timedelta(seconds=5)
BUSY_TIMEOUT: Final = timedelta(seconds=30)
RESTED: Final = timedelta(seconds=1)

_POSTGRES: Final = {"postgres", "postgresql", "postgresql+psycopg"}
_SQLITE: Final = {"sqlite", "sqlite+pysqlite"}
_SECRET_PARAMETERS: Final = ("password", "sslpassword")
# The server answers, but not as the primary of a healthy cluster: a new connection may.
_LEAVE: Final = {"25006", "57P01", "57P02", "57P03"}


@dataclass(frozen=True)
class Engines:
    """The engines of one process.

    Attributes:
        ours: Runs our transactions.
        dbos: Handed to the durable execution library.
        lone: Opens a connection of its own each time, outside every pool, for statements
            of any length: migrations and the probe at start.
        dialect: `sqlite` or `postgresql`.
        url: The address as it may be shown, without passwords.
        file: The database file on SQLite.
    """

    ours: sa.Engine
    dbos: sa.Engine
    lone: sa.Engine
    dialect: str
    url: str
    file: Path | None = None


def connect(
    url: str,
    *,
    pool: int,
    stale_after: timedelta,
    application_name: str = "manent",
    folder: Path = Path(),
) -> Engines:
    """Build the engines for `url`; opens no connection.

    Args:
        url: `postgresql://...` (psycopg 3) or `sqlite:///file`.
        pool: Most connections each of the two pooled engines keeps.
        stale_after: When a silent worker counts as lost; dead connections are noticed
            in less than half of it.
        application_name: How Postgres shows our sessions.
        folder: What a relative SQLite path is relative to.

    Raises:
        ConfigurationError: The address cannot be used.
    """
    parsed = _parse(url)
    if parsed.drivername in _SQLITE:
        return _sqlite(parsed, pool=pool, folder=folder)
    return _postgres(parsed, pool=pool, stale_after=stale_after, application_name=application_name)


def fold(engines: Engines) -> None:
    """Bring what the journal of a SQLite file holds into the file, so that it is whole alone."""
    if engines.file is None:
        return
    failures = suppress(sa.exc.SQLAlchemyError, sqlite3.Error)
    with failures, closing(engines.lone.raw_connection()) as raw, closing(raw.cursor()) as cursor:
        cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def dispose(engines: Engines) -> None:
    """Close every pooled connection."""
    for engine in (engines.ours, engines.dbos, engines.lone):
        engine.dispose()


def _parse(url: str) -> sa.URL:
    try:
        parsed = sa.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        # Not chained: the library's message repeats the address with its password.
        raise _refuse("database.url is not an address") from None
    if parsed.drivername not in _POSTGRES | _SQLITE:
        raise _refuse(f"database.url: '{parsed.drivername}' is not supported")
    return parsed


def _refuse(detail: str) -> ConfigurationError:
    return ConfigurationError(
        detail,
        next="Use postgresql://user:password@host/database or sqlite:///manent.db; "
        "percent-encode special characters of a password.",
    )


def masked(url: sa.URL) -> str:
    """`url` as it may be shown: no password in it, wherever one may stand."""
    hidden = {name: "***" for name in _SECRET_PARAMETERS if name in url.query}
    return url.update_query_dict(hidden).render_as_string(hide_password=True)


def _postgres(url: sa.URL, *, pool: int, stale_after: timedelta, application_name: str) -> Engines:
    url = url.set(drivername="postgresql+psycopg")
    silence = stale_after / 2 * 0.8
    arguments = _client_limits(silence) | {"application_name": application_name}
    pooled = {
        "pool_size": pool,
        "max_overflow": 0,
        # The connection used last knows the statements best.
        "pool_use_lifo": True,
    }
    # Parameters may hold text of people: never in the message of an error.
    options: dict[str, Any] = {"connect_args": arguments, "hide_parameters": True}
    ours, dbos = (
        sa.create_engine(url, **options, **pooled, pool_timeout=wait.total_seconds())
        for wait in (POOL_TIMEOUT, LIBRARY_POOL_TIMEOUT)
    )
    lone = sa.create_engine(url, **options, poolclass=sa.NullPool)
    session = _session_settings(silence)
    for engine in (ours, dbos):
        _set_on_connect(engine, session | _transaction_limits())
        _ping_when_rested(engine)
        bound(engine, ANSWER_TIMEOUT)
    of_start = {"statement_timeout": "0", "lock_timeout": _milliseconds(LOCK_TIMEOUT_OF_START)}
    _set_on_connect(lone, session | _transaction_limits() | of_start)
    for engine in (ours, dbos, lone):
        sa.event.listen(engine, "handle_error", _leave_unhealthy_server)
    return Engines(ours=ours, dbos=dbos, lone=lone, dialect="postgresql", url=masked(url))


def _client_limits(silence: timedelta) -> dict[str, Any]:
    """How this side notices a dead server or network."""
    seconds = silence.total_seconds()
    return {
        "connect_timeout": max(2, int(CONNECT_TIMEOUT.total_seconds())),
        "keepalives": 1,
        "keepalives_idle": max(1, int(seconds / 3)),
        "keepalives_interval": max(1, int(seconds / 6)),
        "keepalives_count": 3,
        "tcp_user_timeout": int(seconds * 1000),
    }


def _session_settings(silence: timedelta) -> dict[str, str]:
    """How the server notices that this host is gone, and what we rely on besides."""
    seconds = silence.total_seconds()
    return {
        "TimeZone": "UTC",
        "default_transaction_isolation": "read committed",
        "tcp_keepalives_idle": str(max(1, int(seconds / 3))),
        "tcp_keepalives_interval": str(max(1, int(seconds / 6))),
        "tcp_keepalives_count": "3",
        "tcp_user_timeout": str(int(seconds * 1000)),
    }


def _transaction_limits() -> dict[str, str]:
    return {
        "idle_in_transaction_session_timeout": _milliseconds(IDLE_IN_TRANSACTION),
        "lock_timeout": _milliseconds(LOCK_TIMEOUT),
        "statement_timeout": _milliseconds(STATEMENT_TIMEOUT),
    }


def _milliseconds(duration: timedelta) -> str:
    return str(int(duration.total_seconds() * 1000))


def _set_on_connect(engine: sa.Engine, settings: Mapping[str, str]) -> None:
    # Statements, not the start-up packet: a session pooler in between drops the latter.
    statement = "SELECT " + ", ".join("set_config(%s, %s, false)" for _ in settings)
    values = [part for pair in settings.items() for part in pair]

    def configure(connection: Any, _record: Any) -> None:
        connection.autocommit = True
        connection.execute(statement, values, prepare=False)
        connection.autocommit = False

    sa.event.listen(engine, "connect", configure)


def _ping_when_rested(engine: sa.Engine) -> None:
    """After an outage the first use finds the dead connection and replaces it.

    One that was in use a moment ago is asked only if the server has said something since, which
    it does when it ends a session: asking each time would cost every transaction a round trip.
    """

    def used(_connection: Any, record: Any) -> None:
        record.info["used_at"] = time.monotonic()

    def check(connection: Any, record: Any, _proxy: Any) -> None:
        rested = time.monotonic() - record.info["used_at"] > RESTED.total_seconds()
        if not rested and not _has_news(connection):
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as dead:
            raise sa.exc.InvalidatePoolError from dead

    sa.event.listen(engine, "connect", used)
    sa.event.listen(engine, "checkin", used)
    sa.event.listen(engine, "checkout", check)


def _has_news(connection: Any) -> bool:
    """Whether the server has sent something, or has gone, while nobody asked."""
    socket = select.poll()
    socket.register(connection.fileno(), select.POLLIN)
    return bool(socket.poll(0))


def _leave_unhealthy_server(context: sa.engine.ExceptionContext) -> None:
    if getattr(context.original_exception, "sqlstate", None) in _LEAVE:
        context.is_disconnect = True


def _sqlite(url: sa.URL, *, pool: int, folder: Path) -> Engines:
    file = _file(url, folder)
    url = url.set(drivername="sqlite", database=str(file))
    pooled = {
        "pool_size": pool,
        "max_overflow": 0,
        "pool_timeout": BUSY_TIMEOUT.total_seconds(),
        "hide_parameters": True,
    }
    wait = {"timeout": BUSY_TIMEOUT.total_seconds()}
    # The driver would begin a transaction at the first write only, after the reads the
    # write rests on. None leaves every BEGIN to the event below.
    manual = wait | {"isolation_level": None}
    ours = sa.create_engine(url, connect_args=manual, **pooled)
    lone = sa.create_engine(url, connect_args=manual, poolclass=sa.NullPool, hide_parameters=True)
    # The library issues its own BEGIN in places, which an event of ours would double.
    dbos = sa.create_engine(url, connect_args=wait | {"isolation_level": "IMMEDIATE"}, **pooled)
    for engine in (ours, dbos, lone):
        sa.event.listen(engine, "do_connect", _private(file))
        sa.event.listen(engine, "connect", _set_pragmas)
    for engine in (ours, lone):
        sa.event.listen(engine, "begin", _begin)
    return Engines(ours=ours, dbos=dbos, lone=lone, dialect="sqlite", url=masked(url), file=file)


def _file(url: sa.URL, folder: Path) -> Path:
    database = url.database or ""
    if database in ("", ":memory:") or database.startswith("file:") or url.query:
        raise _refuse("database.url: SQLite needs a plain path to a file")
    file = (folder / database).absolute()
    if not file.parent.is_dir():
        raise ConfigurationError(
            f"database.url: the folder {file.parent} does not exist", next="Create the folder."
        )
    return file


def _private(file: Path) -> Callable[..., None]:
    """Make a new file its owner's alone: the driver would let everybody read logs and reasons."""

    def make(*_: object) -> None:
        with suppress(FileExistsError):
            os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))

    return make


def _set_pragmas(connection: Any, _record: Any) -> None:
    # Setting the mode wants the whole file for a moment; asking does not.
    if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        connection.execute("PRAGMA journal_mode = WAL").fetchone()
    # FULL: what was acknowledged is kept, also when the power goes.
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")


def _begin(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get(WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
