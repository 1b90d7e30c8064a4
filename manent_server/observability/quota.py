"""A quota: what strangers may make this server write down, so many times in a while."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta


class Quota:
    """Lets a few of a kind through in each window and counts the others. For any thread.

    Args:
        most: Let through in one window.
        window: Its length.
        clock: Seconds that only rise.
    """

    def __init__(
        self,
        *,
        most: int = 20,
        window: timedelta = timedelta(minutes=1),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = most
        self._seconds = window.total_seconds()
        self._clock = clock
        self._began: dict[str, float] = {}
        self._count: dict[str, int] = {}
        self._counting = threading.Lock()

    def admit(self, kind: str) -> int | None:
        """None if there were too many; else how many were kept back in the window before.

        Args:
            kind: One of few: each is remembered.
        """
        with self._counting:
            now, kept_back = self._clock(), 0
            if kind not in self._began or now - self._began[kind] >= self._seconds:
                kept_back = max(0, self._count.get(kind, 0) - self._most)
                self._began[kind], self._count[kind] = now, 0
            self._count[kind] += 1
            return kept_back if self._count[kind] <= self._most else None
