"""When a transaction is worth another try, and how long to wait before it."""

import logging
import random
import sqlite3
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Final, TypeVar

import sqlalchemy as sa

from manent_server.domain.errors import Unavailable

_log = logging.getLogger(__name__)

FIRST_PAUSE: Final = timedelta(milliseconds=50)
LONGEST_PAUSE: Final = timedelta(seconds=1)
_REMEMBERED: Final = 32

# Classes of SQLSTATE: connection, resources, operator, system.
_OUTAGE_CLASSES: Final = ("08", "53", "57", "58")
_OUTAGE: Final = {"25006", "25P03", "40003"}
_DISK_FULL: Final = "53100"
_CONTENTION: Final = {"40001", "40P01", "55P03", "57014"}
_SQLITE_CONTENTION: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_SQLITE_OUTAGE: Final = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}

T = TypeVar("T")

_random = random.SystemRandom()


class NotAnswered(Exception):
    """The database went away from work done outside of this process."""


def never() -> bool:
    """A `stop` that never says so."""
    return False


def unavailable(error: BaseException) -> Unavailable:
    """What a caller is told whose patience is over.

    Args:
        error: The last one it met.
    """
    if isinstance(error, sa.exc.DBAPIError) and (
        _sqlite_code(error) == sqlite3.SQLITE_FULL or _sqlstate(error) == _DISK_FULL
    ):
        return Unavailable(
            "the disk of the database is full", next="Make room there, then try again."
        )
    return Unavailable("the database does not answer", next="Try again in a moment.")


def is_contention(error: BaseException) -> bool:
    """True if the transaction only lost to others: deadlock, lock, time limit, full pool."""
    if isinstance(error, sa.exc.TimeoutError):
        return True
    if not isinstance(error, sa.exc.DBAPIError):
        return False
    return _sqlstate(error) in _CONTENTION or _sqlite_code(error) in _SQLITE_CONTENTION


def is_outage(error: BaseException) -> bool:
    """True if the database was not there, went away, or did not say how COMMIT ended."""
    if isinstance(error, NotAnswered):
        return True
    if not isinstance(error, sa.exc.DBAPIError):
        return False
    if error.connection_invalidated or _sqlite_code(error) in _SQLITE_OUTAGE:
        return True
    state = _sqlstate(error)
    if state is None:
        # psycopg reports a connection that could not be made without a code.
        return isinstance(error, sa.exc.OperationalError) and _sqlite_code(error) is None
    return state in _OUTAGE or (state[:2] in _OUTAGE_CLASSES and state not in _CONTENTION)


def is_transient(error: BaseException) -> bool:
    """True if the same transaction may succeed when it is run again.

    Code that swallows errors under a savepoint must let these through.
    """
    return is_contention(error) or is_outage(error)


def _sqlstate(error: sa.exc.DBAPIError) -> str | None:
    return getattr(error.orig, "sqlstate", None)


def _sqlite_code(error: sa.exc.DBAPIError) -> int | None:
    code = getattr(error.orig, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


class Backoff:
    """Pauses of one repeated transaction: 50 ms, doubled up to 1 s, spread at random."""

    def __init__(self, patience: timedelta | None) -> None:
        self._began = time.monotonic()
        self._patience = patience
        self._pause = FIRST_PAUSE

    @property
    def is_over(self) -> bool:
        """True once the patience is used up."""
        if self._patience is None:
            return False
        return time.monotonic() - self._began >= self._patience.total_seconds()

    def wait(self) -> None:
        """Sleep for the next pause, never past the end of the patience."""
        pause = self._pause.total_seconds() * _random.uniform(0.5, 1.0)
        if self._patience is not None:
            left = self._patience.total_seconds() - (time.monotonic() - self._began)
            pause = max(0.0, min(pause, left))
        time.sleep(pause)
        self._pause = min(self._pause * 2, LONGEST_PAUSE)


class Outages:
    """Says once that the database is away and once that it is back, for all threads."""

    def __init__(self, database: str) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._since: float | None = None
        self._repeats = Counter({"outage": 0, "contention": 0})
        self._past: deque[tuple[float, float]] = deque(maxlen=_REMEMBERED)

    def began(self, error: BaseException, *, since: float) -> None:
        """A transaction met an outage; it was begun at `since`, a second of time.monotonic."""
        with self._lock:
            if self._since is not None:
                return
            self._since = since
        _log.warning(
            "%s does not answer, repeating until it does: %s", self._database, _cause(error)
        )

    def ended(self) -> None:
        """A transaction was answered."""
        if self._since is None:  # the usual case takes no lock
            return
        with self._lock:
            since, self._since = self._since, None
            if since is not None:
                self._past.append((since, time.monotonic()))
        if since is not None:
            _log.warning("%s answers again after %.1f s", self._database, time.monotonic() - since)

    def repeated(self, reason: str) -> None:
        """A transaction met an outage, or lost to others."""
        with self._lock:
            self._repeats[reason] += 1

    def repeats(self) -> Mapping[str, int]:
        """How often that was, by reason."""
        return dict(self._repeats)

    def within(self, last: float) -> float:
        """How many of the last seconds the database is known not to have answered."""
        now = time.monotonic()
        with self._lock:
            spans = [*self._past, *([] if self._since is None else [(self._since, now)])]
        return sum(max(0.0, end - max(start, now - last)) for start, end in spans)


def _cause(error: BaseException) -> str:
    """The driver's own words in one line, without statement and parameters."""
    original = getattr(error, "orig", None) or error
    return " ".join(str(original).split())


def until_answered(
    attempt: Callable[[], T],
    outages: Outages,
    *,
    patience: timedelta | None,
    stop: Callable[[], bool],
) -> T:
    """Call `attempt` until it ends without a transient error; `Store.repeat` says more."""
    backoff = Backoff(patience)
    while True:
        began = time.monotonic()
        try:
            result = attempt()
        except (sa.exc.SQLAlchemyError, NotAnswered) as error:
            if not is_transient(error):
                raise
            _note(error, outages, began)
            if backoff.is_over or stop():
                raise unavailable(error) from error
            backoff.wait()
        else:
            outages.ended()
            return result


def _note(error: Exception, outages: Outages, began: float) -> None:
    outages.repeated("outage" if is_outage(error) else "contention")
    if is_outage(error):
        outages.began(error, since=began)
    else:
        _log.debug("a transaction is repeated: %s", _cause(error))
