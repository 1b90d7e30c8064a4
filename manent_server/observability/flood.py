"""Keeping one noisy library from filling the log while something is down."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta


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
        source = self._source(record.name)
        if source is None or record.levelno < logging.WARNING:
            return True
        with self._counting:
            return self._admit((source, record.levelno), record)

    def _source(self, name: str) -> str | None:
        return next(
            (noisy for noisy in self._noisy if name == noisy or name.startswith(f"{noisy}.")), None
        )

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
