"""The worker's end of one guard."""

import contextlib
import os
import select
import threading
from collections.abc import Iterator
from typing import Any

from manent_server.plugins import protocol
from manent_server.plugins.outbox import Inbox

_LOOK_MS = 1000
_PIPE_SIZE = 1024 * 1024


class Leash:
    """Both pipes of a guard; closing it ends everything the guard keeps.

    Args:
        writer: Descriptor on which the guard is told things.
        reader: Descriptor on which it answers.
    """

    def __init__(self, writer: int, reader: int) -> None:
        os.set_blocking(writer, False)
        self._writer = writer
        self._inbox = Inbox(reader)
        self._lock = threading.Lock()
        self._waiting = bytearray()
        self._is_closed = False

    @property
    def is_behind(self) -> bool:
        """Whether the guard has not taken everything yet."""
        return bool(self._waiting)

    def send(self, *lines: bytes) -> None:
        """Tell the guard something, without ever waiting for it; from any thread."""
        with self._lock:
            if self._is_closed:
                return
            self._waiting += b"".join(lines)
            self._flush()

    def messages(self) -> Iterator[dict[str, Any]]:
        """What the guard says, until its pipe ends."""
        while not self._inbox.is_ended:
            self._await()
            for line in self._inbox.read():
                yield protocol.decode_with_text(line)

    def close(self) -> None:
        """Let go: a guard that runs a hook kills it."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            os.close(self._writer)
            self._inbox.close()

    def _await(self) -> None:
        poll = select.poll()
        poll.register(self._inbox.descriptor, select.POLLIN)
        if self._waiting:
            poll.register(self._writer, select.POLLOUT)
        poll.poll(_LOOK_MS)
        with self._lock:
            self._flush()

    def _flush(self) -> None:
        """Write what the pipe takes. A guard that is gone is noticed by its other pipe."""
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            while self._waiting:
                written = os.write(self._writer, self._waiting)
                del self._waiting[:written]
            return
        if len(self._waiting) > 0 and self._is_gone():
            self._waiting.clear()

    def _is_gone(self) -> bool:
        poll = select.poll()
        poll.register(self._writer, select.POLLOUT)
        return any(events & select.POLLERR for _, events in poll.poll(0))
