"""Keeping one noisy library from filling the log while something is down."""

import logging
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

_TRACE: Final = "Traceback (most recent call last):"
# What drivers (PEP 249) and SQLAlchemy call it when the database does not do what it was asked.
_OF_DATABASES: Final = frozenset(
    {"OperationalError", "InterfaceError", "InternalError", "SQLAlchemyError"}
)


@dataclass
class _Window:
    began: float
    let_through: int = 0
    kept_back: int = 0


class FloodFilter(logging.Filter):
    """Lets a few warnings of a noisy logger through in each window and counts the others.

    The first record of the next window says how many were kept back. Loggers count with all
    loggers below them, each level on its own; records below WARNING are never touched.

    Args:
        noisy: Names of loggers.
        most: Records let through in one window.
        window: Its length.
        clock: Seconds that only rise.
    """

    def __init__(
        self,
        noisy: Sequence[str],
        *,
        most: int = 3,
        window: timedelta = timedelta(minutes=1),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._noisy = tuple(noisy)
        self._most = most
        self._seconds = window.total_seconds()
        self._clock = clock
        self._windows: dict[tuple[str, int], _Window] = {}
        self._counting = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written."""
        source = _source(self._noisy, record.name)
        if source is None or record.levelno < logging.WARNING:
            return True
        with self._counting:
            return self._admit((source, record.levelno), record)

    def _admit(self, key: tuple[str, int], record: logging.LogRecord) -> bool:
        now = self._clock()
        window = self._windows.get(key)
        if window is None or now - window.began >= self._seconds:
            if window is not None and window.kept_back:
                record.msg = f"{record.getMessage()} ({window.kept_back} more were kept back)"
                record.args = ()
            window = self._windows[key] = _Window(began=now)
        if window.let_through >= self._most:
            window.kept_back += 1
            return False
        window.let_through += 1
        return True


class BriefFilter(logging.Filter):
    """Has a library say in one line that the database is away, and keep traces out of sentences.

    Some libraries write the trace of what they caught into the sentence itself. It is put where
    the log shows what failed, beside the sentence; that of what a database said, or did not say,
    tells nothing about this program, and is left out for the words of the error.

    Args:
        noisy: Names of loggers; each with all loggers below it.
    """

    def __init__(self, noisy: Sequence[str]) -> None:
        super().__init__()
        self._noisy = tuple(noisy)

    def filter(self, record: logging.LogRecord) -> bool:
        """Always true; the record may have been changed."""
        if _source(self._noisy, record.name) is None:
            return True
        try:
            sentence, mark, _ = record.getMessage().partition(_TRACE)
        except (LookupError, TypeError, ValueError):
            return True  # it does not fit its arguments, which is told where it is written
        # A trace within the sentence is of what is being handled where that was logged.
        caught = sys.exc_info() if mark and not record.exc_info else record.exc_info
        if not caught or caught[1] is None:
            return True
        error = caught[1]
        sentence = sentence.rstrip(" :\n")
        if any(kind.__name__ in _OF_DATABASES for kind in type(error).__mro__):
            words = str(error).partition("\n")[0]
            sentence, caught = f"{sentence}: {type(error).__name__}: {words}", None
        record.msg, record.args, record.exc_info = sentence, (), caught
        return True


def _source(noisy: Sequence[str], name: str) -> str | None:
    return next((one for one in noisy if name == one or name.startswith(f"{one}.")), None)
