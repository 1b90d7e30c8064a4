"""The record as lines of JSON: a file that is put aside when it is large, or stdout."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from manent_server.domain.audit import Entry

_STDOUT: Final = 1
_PRIVATE: Final = 0o600


def sync_folder(folder: Path) -> None:
    """Have the names in a folder on the disk.

    Raises:
        OSError: They cannot be.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class AuditFile:
    """Appends to a file and has every batch on the disk before it is confirmed.

    The file is opened for each batch, so that other programs may move it away.

    Args:
        path: Where.
        limit: The size at which it is put aside, as PATH.NUMBER after its first record.
        sync: Has the names in a folder on the disk.
    """

    def __init__(
        self, path: Path, limit: int, *, sync: Callable[[Path], None] = sync_folder
    ) -> None:
        self._path = path
        self._limit = limit
        self._sync = sync
        self._confirmed = 0
        # One that is there may have been made by a process that crashed before its name was kept.
        self._is_kept = False

    def give(self, entries: Sequence[Entry]) -> None:
        """Append; a line that a crash cut off is ended first.

        Raises:
            OSError: The disk is full, or the file cannot be written.
        """
        data = "".join(entry.line() for entry in entries).encode()
        if self._put_aside(entries[0].number):
            self._is_kept = False
        handle = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, _PRIVATE)
        try:
            if _is_torn(handle):
                data = b"\n" + data
            _write(handle, data)
            os.fsync(handle)
        finally:
            os.close(handle)
        if not self._is_kept:
            self._sync(self._path.parent)
            self._is_kept = True
        self._confirmed = entries[-1].number

    def confirmed(self) -> int:
        """What was given is on the disk."""
        return self._confirmed

    def close(self) -> None:
        """Nothing is kept open."""

    def _put_aside(self, number: int) -> bool:
        """Whether the file begins anew."""
        try:
            size = self._path.stat().st_size
        except FileNotFoundError:
            return True
        if size < self._limit:
            return False
        # Up to which number it goes: the names sort like what is in them.
        aside = self._path.with_name(f"{self._path.name}.{number - 1:012d}")
        while aside.exists():
            aside = aside.with_name(f"{aside.name}.again")
        self._path.rename(aside)
        return True


class AuditStdout:
    """Writes to stdout, for a collector to take up."""

    def __init__(self) -> None:
        self._confirmed = 0

    def give(self, entries: Sequence[Entry]) -> None:
        """Write; waits for whoever reads.

        Raises:
            OSError: Nobody reads any more.
        """
        _write(_STDOUT, "".join(entry.line() for entry in entries).encode())
        self._confirmed = entries[-1].number

    def confirmed(self) -> int:
        """What was written is the reader's."""
        return self._confirmed

    def close(self) -> None:
        """It stays open."""


def read_from(path: Path, number: int) -> Iterator[dict[str, Any]]:
    """Lines of the file and of those put aside, from a number on; a torn one is left out.

    Args:
        path: As it was written.
        number: Of the first record that is wanted.

    Raises:
        OSError: It cannot be read.
    """
    aside = sorted(path.parent.glob(f"{path.name}.*"))
    for file in (*aside, path):
        if not file.exists():
            continue
        with file.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if _number(line) >= number:
                    with suppress(ValueError):
                        yield json.loads(line)


def _number(line: str) -> int:
    """Of the record in a line, without reading all of it."""
    found = line.removeprefix('{"number":').partition(",")[0]
    return int(found) if found.isdecimal() else 0


def _write(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


def _is_torn(handle: int) -> bool:
    size = os.fstat(handle).st_size
    return size > 0 and os.pread(handle, 1, size - 1) != b"\n"
