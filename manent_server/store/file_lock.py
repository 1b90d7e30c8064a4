"""Locks between processes of one machine, by flock on a file beside the database.

The kernel gives a lock up when its process ends, however it ends. The file stays: its
text names the holder and means nothing while nobody holds the lock.
"""

import fcntl
import os
import socket
from pathlib import Path
from types import TracebackType
from typing import Self

from manent_server.domain.errors import StartRefused


class FileLock:
    """One flock; held between `acquire` and `release`.

    The descriptor is closed on exec, so programs this process starts do not keep it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def acquire(self) -> bool:
        """Take the lock if it is free; False if another holds it."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Give the lock up; nothing happens without one."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def holder(self) -> str:
        """Who wrote the file last, as text for a person."""
        try:
            written = self._path.read_text(errors="replace").strip()
        except OSError:
            written = ""
        return written or "another process"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def serving(file: Path) -> FileLock:
    """The lock of the one `serve` on the SQLite database `file`, taken.

    Raises:
        StartRefused: Another `serve` runs on it.
    """
    lock = _beside(file, "lock")
    if not lock.acquire():
        raise StartRefused(
            f"{file} is served by {lock.holder()}",
            next="Stop that one first, or use Postgres for more than one process.",
        )
    return lock


def migrating(file: Path) -> FileLock:
    """The lock of who changes the tables of the SQLite database `file`, not yet taken."""
    return _beside(file, "migrate.lock")


def _beside(file: Path, kind: str) -> FileLock:
    # Resolved: two names of one file share its lock.
    real = file.resolve()
    return FileLock(real.with_name(f"{real.name}.{kind}"))
