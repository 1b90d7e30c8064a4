"""Hand on: each receiver of the record gets all of it, in order, at least once."""

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from manent_server.domain.audit import Entry
from manent_server.store import audit_positions as positions
from manent_server.store.transaction import Transaction
from manent_server.usecases.desk import Desk

_log = logging.getLogger(__name__)
_BATCH: Final = 500
_AHEAD: Final = 5000
_LONGEST_REST: Final = 30.0
_LONGEST_ERROR: Final = 300


class Receiver(Protocol):
    """Where records go."""

    def give(self, entries: Sequence[Entry]) -> None:
        """Hand over records, in their order.

        Raises:
            OSError: Not all of them could be; they will be handed over again.
        """

    def confirmed(self) -> int:
        """The number up to which it has them for good; 0 as long as that is unknown.

        Raises:
            OSError: What was handed over may be lost.
        """

    def close(self) -> None:
        """Begin anew with the next record."""


class HandOn:
    """One receiver, in one process that holds its lease.

    Args:
        desk: The collaborators; each writing transaction asks for the lease.
        sink: The receiver's name.
        receiver: It.
        clock: Seconds, never set back.
    """

    def __init__(
        self,
        desk: Desk,
        sink: str,
        receiver: Receiver,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._desk = desk
        self._sink = sink
        self._receiver = receiver
        self._clock = clock
        # Numbers handed over and not confirmed yet, the last of each batch.
        self._given: deque[int] = deque()
        self._acknowledged = -1
        self._rest = 0.0
        self._next_at = 0.0
        self._is_failing = False

    def has_all_to(self, number: int) -> bool:
        """Whether the receiver has the record up to a number for good, as far as known here."""
        return not self._given and not self._is_failing and self._acknowledged == number

    def round(self) -> None:
        """Hand on what is there; whatever is wrong with the receiver is nobody else's matter."""
        if self._clock() < self._next_at:
            return
        try:
            self._round()
        except OSError as error:
            self._fail(error)

    def _round(self) -> None:
        with self._desk.store.read() as tx:
            position = positions.read(tx, self._sink)
        if position.number != self._acknowledged:
            # Another process has handed on meanwhile: what was given here says nothing.
            self._given.clear()
            self._acknowledged = position.number
        while True:
            self._confirm(had_failed=position.failing_since is not None)
            last = self._given[-1] if self._given else self._acknowledged
            if last - self._acknowledged >= _AHEAD:
                return
            with self._desk.store.read() as tx:
                entries = positions.entries(tx, after=last, limit=_BATCH)
            if not entries:
                return
            self._receiver.give(entries)
            self._given.append(entries[-1].number)

    def _confirm(self, *, had_failed: bool) -> None:
        if not self._given:
            return
        number = self._receiver.confirmed()
        if number < self._given[0]:
            return
        while self._given and self._given[0] <= number:
            done = self._given.popleft()
            self._acknowledged = done

        def work(tx: Transaction) -> None:
            positions.move(tx, self._sink, self._acknowledged, at=tx.now())

        self._desk.store.once(work)
        self._rest = 0.0
        if had_failed or self._is_failing:
            self._is_failing = False
            _log.info("the audit sink %s gets records again", self._sink)

    def _fail(self, error: OSError) -> None:
        self._receiver.close()
        self._given.clear()
        self._rest = min(_LONGEST_REST, self._rest * 2 or 1.0)
        self._next_at = self._clock() + self._rest
        words = (str(error) or type(error).__name__)[:_LONGEST_ERROR]
        if not self._is_failing:
            self._is_failing = True
            _log.warning("the audit sink %s gets no records: %s", self._sink, words)

        def work(tx: Transaction) -> None:
            positions.fail(tx, self._sink, words, at=tx.now())

        self._desk.store.once(work)
