"""The log of one run: lines come from hooks, leave redacted and in batches.

Up to a limit everything is kept; past it the newest lines are kept in memory and written
when their attempt ends, so that head and tail of a flood stay and the gap is named.
"""

import threading
from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from itertools import repeat

from manent_server.engine.shop import Caps, Shop
from manent_server.store import deploys, logs
from manent_server.store.deploys import Deploy
from manent_server.store.logs import Chunk, Origin
from manent_server.store.transaction import Transaction

_EVERY = timedelta(milliseconds=200)
_ROW = 32 * 1024
_BATCH = 512 * 1024
_MOST_WAITING = 500_000
# What a kept line costs beside its characters.
_LINE = 64


# One redacted line and where it came from; made by `zip`, a million of them in no time.
Entry = tuple[Origin, str]


class Logbook:
    """Collects the lines of one run and writes them in order under its epoch."""

    def __init__(self, shop: Shop, deploy: Deploy) -> None:
        self._shop = shop
        self._deploy = deploy
        self._caps: Caps = shop.caps
        self._head = shop.caps.deploy - shop.caps.tail
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._pending: deque[Entry] = deque()
        self._size = 0
        self._written = deploy.log_bytes
        self._tail: deque[Entry] = deque()
        self._tail_size = 0
        self._dropped = 0
        self._gap: int | None = None
        self._is_stale = False
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._loop, name=f"log {deploy.id}", daemon=True)
        self._thread.start()

    def write(self, origin: Origin, texts: Sequence[str]) -> None:
        """Take lines; they are stored within a second."""
        lines = self._shop.redactor.redact_lines(texts)
        self._wait_for_room()
        with self._lock:
            fitting = self._fitting(lines)
            self._pending.extend(zip(repeat(origin), lines[:fitting]))
            if fitting < len(lines):
                self._keep_last(origin, lines[fitting:])
            is_full = self._size > _BATCH
        if is_full:
            self._wake.set()

    def _wait_for_room(self) -> None:
        """Hold a flood back while the database does not keep up: lines cost memory here."""
        while len(self._pending) > _MOST_WAITING and not self._closed.is_set():
            self._wake.set()
            if self._closed.wait(_EVERY.total_seconds()) or self._is_stale:
                return

    def say(self, text: str, *, step: str | None = None) -> None:
        """A line of manent's own."""
        executor = self._shop.identity.executor
        self.write(Origin(step, None, "manent", None, executor), [text])

    def flush(self) -> None:
        """Store what is there, the kept tail included."""
        with self._lock:
            self._release_tail()
        self._store()

    def close(self) -> None:
        """Store everything and stop."""
        self._closed.set()
        self._wake.set()
        self._thread.join()
        self.flush()

    def abandon(self) -> None:
        """Stop without storing: the log is another's now."""
        self._is_stale = True
        self._closed.set()
        self._wake.set()

    def _fitting(self, lines: Sequence[str]) -> int:
        """How many of the lines belong to the head; their size is counted as waiting."""
        if self._tail:  # what comes later never overtakes
            return 0
        room = self._head - self._written - self._size
        total = _size(lines)
        fitting = len(lines)
        while total > room and fitting:
            fitting -= 1
            total -= len(lines[fitting]) + 1
        self._size += total
        return fitting

    def _keep_last(self, origin: Origin, lines: Sequence[str]) -> None:
        """Past the head only the newest lines are kept, within the tail's size."""
        self._tail.extend(zip(repeat(origin), lines))
        self._tail_size += _size(lines) + _LINE * len(lines)
        while self._tail_size > self._caps.tail:
            self._tail_size -= len(self._tail.popleft()[1]) + 1 + _LINE
            self._dropped += 1

    def _release_tail(self) -> None:
        if not self._tail:
            return
        if self._dropped:
            origin = Origin(None, None, "manent", "warning", self._shop.identity.executor)
            words = f"{self._dropped} lines are left out here: the log reached its limit"
            self._pending.append((origin, words))
            self._shop.metrics.log_lines_dropped(self._dropped)
        self._pending.extend(self._tail)
        self._tail.clear()
        self._tail_size = self._dropped = 0

    def _loop(self) -> None:
        while not self._closed.is_set():
            self._wake.wait(_EVERY.total_seconds())
            self._wake.clear()
            self._store()

    def _store(self) -> None:
        with self._writing:
            while not self._is_stale:
                with self._lock:
                    batch = self._next_batch()
                if not batch:
                    return
                self._store_batch(batch)

    def _next_batch(self) -> list[Entry]:
        batch, size = [], 0
        while self._pending and size < _BATCH:
            entry = self._pending.popleft()
            batch.append(entry)
            size += len(entry[1]) + 1
        self._size = max(0, self._size - size)
        self._written += size
        return batch

    def _store_batch(self, batch: list[Entry]) -> None:
        first: list[int] = []

        def work(tx: Transaction) -> bool:
            row = deploys.read(tx, self._deploy.id)
            if first and row is not None and row.log_next > first[0]:
                return True  # the answer to an earlier COMMIT was lost
            chunks = _chunks(batch, tx)
            if not first and row is not None:
                first.append(row.log_next)
            given = logs.append(tx, self._deploy.id, self._deploy.epoch, chunks)
            if given is not None:
                self._forget_middle(tx, given)
            return given is not None

        owned = self._shop.store.repeat(work, stop=self._shop.lifeline.lost.is_set)
        if not owned:
            self._is_stale = True
            self._shop.metrics.stale_write()

    def _forget_middle(self, tx: Transaction, given: tuple[int, int]) -> None:
        """Past the limit older tails go, so that a deploy's log never exceeds it by much."""
        if self._written <= self._caps.deploy + _ROW:
            return
        if self._gap is None:
            self._gap = given[0]
            return
        logs.drop(tx, self._deploy.id, since=self._gap, before=given[0])


def _chunks(batch: list[Entry], tx: Transaction) -> list[Chunk]:
    at = tx.now()
    chunks: list[Chunk] = []
    lines: list[str] = []
    origin: Origin | None = None
    size = 0
    for source, text in batch:
        if origin is not None and (source != origin or size > _ROW):
            chunks.append(Chunk(at, origin, lines))
            lines, size = [], 0
        origin = source
        lines.append(text)
        size += len(text) + 1
    if origin is not None:
        chunks.append(Chunk(at, origin, lines))
    return chunks


def _size(lines: Sequence[str]) -> int:
    """Characters with a newline each."""
    return sum(map(len, lines)) + len(lines)
