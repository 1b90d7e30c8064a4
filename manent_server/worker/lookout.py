"""The lookout: one look at the database for all loops of a process.

A loop that has nothing to do costs mostly its question, and there are many loops. One that asks
within a moment after another is given the same answer.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

from manent_server.store.glance import Glance, glance
from manent_server.store.transaction import Store

_FRESH: Final = 0.25
"""Seconds: shorter than the pause of the loop that looks most often, which sees no old answer."""


class Lookout:
    """Looks for the loops of one process.

    Args:
        store: Where it looks.
        clock: Seconds, never set back.
    """

    def __init__(self, store: Store, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: Glance | None = None
        self._asked_at = 0.0

    def look(self) -> Glance:
        """What there is to do, as seen at most a moment before this was called.

        Raises:
            Unavailable: The database does not answer.
        """
        # Where answers are late, those who waited for one together share the next one too.
        came_at = self._clock()
        with self._lock:
            if self._seen is None or self._asked_at <= came_at - _FRESH:
                self._seen = None
                # From before the question: an answer is no younger than that.
                self._asked_at = self._clock()
                with self._store.read() as tx:
                    self._seen = glance(tx)
            return self._seen

    def when(
        self, is_due: Callable[[Glance], bool], body: Callable[[], object]
    ) -> Callable[[], object]:
        """A round that is done only where there is something to do.

        Args:
            is_due: Whether there is, by what was seen.
            body: The round.
        """

        def round_() -> object:
            return body() if is_due(self.look()) else None

        return round_
