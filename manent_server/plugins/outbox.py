"""A guard's ways out and in: never blocking, bounded."""

import contextlib
import os
from collections import deque

from manent_server.plugins import protocol

_CHUNK = 65536


class Outbox:
    """Lines waiting to be written to a pipe that may be slow, full or gone.

    Args:
        descriptor: The writing end; it is made non-blocking.
        limit: Bytes from which on `is_full` asks to offer nothing that can be missed.
    """

    def __init__(self, descriptor: int, *, limit: int) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.is_broken = False
        self._limit = limit
        self._waiting: deque[bytes] = deque()
        self._size = 0

    @property
    def is_full(self) -> bool:
        """Whether what can be missed should not be put now."""
        return self._size >= self._limit

    @property
    def is_empty(self) -> bool:
        """Whether everything was written."""
        return not self._waiting

    def put(self, line: bytes) -> None:
        """Add a line and write what the pipe takes."""
        if self.is_broken:
            return
        self._waiting.append(line)
        self._size += len(line)
        self.flush()

    def flush(self) -> None:
        """Write what the pipe takes now."""
        with contextlib.suppress(BlockingIOError):
            while self._waiting:
                self._write(self._waiting.popleft())

    def close(self) -> None:
        """Give the pipe up."""
        self.is_broken = True
        self._waiting.clear()
        with contextlib.suppress(OSError):
            os.close(self.descriptor)

    def _write(self, line: bytes) -> None:
        written = 0
        try:
            written = os.write(self.descriptor, line)
        except BlockingIOError:
            raise
        except OSError:
            self.is_broken = True
            self._waiting.clear()
            return
        finally:
            self._size -= written
            if written < len(line) and not self.is_broken:
                self._waiting.appendleft(line[written:])


class Inbox:
    """Bytes of a pipe to lines.

    Args:
        descriptor: The reading end; it is made non-blocking.
        limit: Bytes an unfinished line may have.
    """

    def __init__(self, descriptor: int, *, limit: int | None = None) -> None:
        os.set_blocking(descriptor, False)
        self.descriptor = descriptor
        self.is_ended = False
        self._limit = limit
        self._rest: list[bytes] = []
        self._size = 0

    def read(self) -> list[bytes]:
        """The lines completed by what is there now; sets `is_ended` at the end.

        Raises:
            protocol.Nonsense: A line is longer than any message may be.
        """
        try:
            chunk = os.read(self.descriptor, _CHUNK)
        except BlockingIOError:
            return []
        except OSError:
            chunk = b""
        if not chunk:
            self.is_ended = True
            return []
        return self._lines(chunk)

    def close(self) -> None:
        """Give the pipe up."""
        self.is_ended = True
        with contextlib.suppress(OSError):
            os.close(self.descriptor)

    def _lines(self, chunk: bytes) -> list[bytes]:
        *complete, rest = chunk.split(b"\n")
        if complete:
            complete[0] = b"".join([*self._rest, complete[0]])
            self._rest, self._size = [], 0
        self._rest.append(rest)
        self._size += len(rest)
        longest = max(self._size, *map(len, complete)) if complete else self._size
        if self._limit is not None and longest > self._limit:
            raise protocol.Nonsense(f"a line of more than {self._limit} bytes")
        return [line for line in complete if line]
