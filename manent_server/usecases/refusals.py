"""Refusals: sign-ins that failed, on record; but nobody fills the record by failing."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from manent_server.domain.access import Caller
from manent_server.domain.errors import Unavailable
from manent_server.store import records
from manent_server.store.records import Deed
from manent_server.store.transaction import Store, Transaction
from manent_server.usecases.requests import Visit

REFUSED: Final = "signin.refused"
MOST: Final = 20
WINDOW: Final = timedelta(minutes=1)
"""Each process writes at most so many rows in so long, and how many it has left out."""


@dataclass
class Refusals:
    """What one process has written lately.

    Args:
        clock: Seconds that only rise.
    """

    clock: Callable[[], float] = time.monotonic
    _began: float = field(default=float("-inf"), init=False)
    _written: int = field(default=0, init=False)
    _left_out: int = field(default=0, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def record(self, store: Store, actor: str, detail: Mapping[str, Any], visit: Visit) -> None:
        """Write one, unless too many were written just now."""
        left_out = self._take()
        if left_out is None:
            return
        told = {**detail, "left_out": left_out} if left_out else dict(detail)

        def work(tx: Transaction) -> None:
            who = Caller(actor, (), channel=visit.channel, address=visit.address)
            records.write_audit(tx, Deed(who, REFUSED, detail=told), at=tx.now())

        try:
            store.repeat(work, patience=timedelta(0))
        except Unavailable:
            with self._lock:
                self._left_out += left_out + 1

    def _take(self) -> int | None:
        """How many were left out before this one; None to leave out this one too."""
        with self._lock:
            now = self.clock()
            if now - self._began >= WINDOW.total_seconds():
                self._began, self._written = now, 0
            if self._written >= MOST:
                self._left_out += 1
                return None
            self._written += 1
            left_out, self._left_out = self._left_out, 0
            return left_out
