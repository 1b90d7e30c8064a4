"""The log of one run: blocks of lines come from hooks, leave redacted and in batches.

Up to a limit everything is kept; past it the newest lines are kept in memory and written
when their attempt ends, so that head and tail of a flood stay and the gap is named.
"""

import threading
from collections import deque
from collections.abc import Iterator
from contextvars import copy_context
from datetime import timedelta
from functools import partial
from itertools import groupby
from typing import Final

from manent_server.engine.shop import Caps, Shop
from manent_server.store import logs
from manent_server.store.deploys import Deploy
from manent_server.store.logs import Chunk, Origin
from manent_server.store.transaction import Transaction

_EVERY = timedelta(milliseconds=200)
_ROW: Final = 32 * 1024
_BATCH: Final = 1024 * 1024
MOST_WAITING: Final = 32 * 1024 * 1024
# What a kept block costs beside its characters.
_BLOCK: Final = 128


# Redacted lines, joined by newlines, and where they came from.
Entry = tuple[Origin, str]


class Logbook:
    """Collects the lines of one run and writes them in order under its epoch.

    Lines stay joined all the way: nothing here is done for each of them.
    """

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
        # What it says in the log of the process is about this deploy too.
        loop = partial(copy_context().run, self._loop)
        self._thread = threading.Thread(target=loop, name=f"log {deploy.id}", daemon=True)
        self._thread.start()

    def write(self, origin: Origin, text: str) -> None:
        """Take lines, joined by newlines; they are stored within a second."""
        block = self._shop.redactor.redact(text)
        self._wait_for_room()
        with self._lock:
            head, rest = self._divided(block)
            if head is not None:
                self._pending.extend((origin, piece) for piece in _pieces(head))
                self._size += len(head) + 1
            if rest is not None:
                self._keep_last(origin, rest)
            is_full = self._size > _BATCH
        if is_full:
            self._wake.set()

    def _wait_for_room(self) -> None:
        """Hold a flood back while the database does not keep up: lines cost memory here."""
        while self._waiting() > MOST_WAITING and not self._closed.is_set():
            self._wake.set()
            if self._closed.wait(_EVERY.total_seconds()) or self._is_stale:
                return

    def _waiting(self) -> int:
        return self._size + _BLOCK * len(self._pending)

    def say(self, text: str, *, step: str | None = None) -> None:
        """A line of manent's own."""
        executor = self._shop.identity.executor
        self.write(Origin(step, None, "manent", None, executor), text)

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

    def _divided(self, block: str) -> tuple[str | None, str | None]:
        """The lines of a block that belong to the head, and those that do not."""
        if self._tail or self._dropped:  # what comes later never overtakes
            return None, block
        room = self._head - self._written - self._size
        if len(block) < room:
            return block, None
        end = block.rfind("\n", 0, max(0, room))
        return (block[:end], block[end + 1 :]) if end >= 0 else (None, block)

    def _keep_last(self, origin: Origin, block: str) -> None:
        """Past the head only the newest lines are kept, within the tail's size."""
        self._tail.append((origin, block))
        self._tail_size += len(block) + _BLOCK
        while self._tail_size > self._caps.tail:
            source, oldest = self._tail.popleft()
            excess = self._tail_size - self._caps.tail
            self._tail_size -= len(oldest) + _BLOCK
            cut = oldest.find("\n", excess) if excess < len(oldest) else -1
            if cut < 0:
                self._dropped += _count(oldest)
                continue
            left = oldest[cut + 1 :]
            self._dropped += oldest.count("\n", 0, cut + 1)
            self._tail.appendleft((source, left))
            self._tail_size += len(left) + _BLOCK

    def _release_tail(self) -> None:
        if self._dropped:
            origin = Origin(None, None, "manent", "warning", self._shop.identity.executor)
            words = f"{self._dropped} lines are left out here: the log reached its limit"
            self._pending.append((origin, words))
            self._shop.metrics.log_lines_dropped(self._dropped)
        for origin, block in self._tail:
            self._pending.extend((origin, piece) for piece in _pieces(block))
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
        chunks = _chunks(batch)
        first: list[int] = []

        def work(tx: Transaction) -> bool:
            if first and (logs.next_number(tx, self._deploy.id) or 0) > first[0]:
                return True  # the answer to an earlier COMMIT was lost
            given = logs.append(tx, self._deploy.id, self._deploy.epoch, chunks)
            if given is not None:
                first[:] = first or given[:1]
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


def _chunks(batch: list[Entry]) -> list[Chunk]:
    """A row for each block; small ones of one origin that follow each other share it."""
    chunks: list[Chunk] = []
    for origin, entries in groupby(batch, key=lambda entry: entry[0]):
        row, size = list[str](), 0
        for _, text in entries:
            if row and size + len(text) > _ROW:
                chunks.append(Chunk(None, origin, "\n".join(row)))
                row, size = [], 0
            row.append(text)
            size += len(text) + 1
        chunks.append(Chunk(None, origin, "\n".join(row)))
    return chunks


def _pieces(block: str) -> Iterator[str]:
    """The block in parts of about a row, cut between its lines."""
    parts = max(1, round(len(block) / _ROW))
    step = len(block) // parts
    begin = 0
    while parts > 1 and (end := block.find("\n", begin + step)) >= 0:
        yield block[begin:end]
        begin = end + 1
    yield block[begin:]


def _count(block: str) -> int:
    """How many lines it has."""
    return block.count("\n") + 1
