"""What an archive holds, read one entry at a time: tar, tar.gz and zip alike.

The kind of archive is told by its first bytes, not by a name: artifacts are kept by digest.
"""

import gzip
import lzma
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import IO, cast

_GZIP = b"\x1f\x8b"
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_HEADER_LIMIT = 16 * 1024 * 1024
_LINK_LIMIT = 4096
_CHUNK = 256 * 1024
_ENCRYPTED = 0x1


class ArchiveRefused(Exception):
    """The archive is broken, or holds what must not be unpacked."""


# What the libraries let through when a header is nonsense, not only what they document.
_BROKEN = (
    tarfile.TarError,
    zipfile.BadZipFile,
    gzip.BadGzipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    ArithmeticError,
    LookupError,
    NotImplementedError,
    ValueError,
)


class Kind(Enum):
    """What an entry becomes on disk."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "symbolic link"
    HARD_LINK = "hard link"
    OTHER = "device or pipe"


@dataclass(frozen=True)
class Limits:
    """What an archive may cost.

    Args:
        entries: How many files, folders and links.
        size: Bytes once unpacked, headers included.
        ratio: Unpacked by packed size, asked once `ratio_from` bytes are unpacked.
        ratio_from: Small archives of zeros are harmless and common in tests.
    """

    entries: int = 100_000
    size: int = 4 * 1024**3
    ratio: int = 200
    ratio_from: int = 16 * 1024**2


@dataclass(frozen=True)
class Entry:
    """One entry; `content` is readable until the next one is asked for."""

    name: str
    kind: Kind
    mode: int
    target: str = ""
    content: IO[bytes] | None = None


@contextmanager
def refusing_nonsense() -> Iterator[None]:
    """Turn what a broken archive makes the libraries raise into one kind of refusal."""
    try:
        yield
    except tarfile.ReadError as error:
        raise ArchiveRefused(f"no tar, tar.gz or zip archive, or cut off: {error}") from error
    except _BROKEN as error:
        raise ArchiveRefused(f"broken: {str(error) or type(error).__name__}") from error


def entries(path: Path, limits: Limits) -> Iterator[Entry]:
    """The entries of the archive at `path`, in its order; read under `refusing_nonsense`."""
    with path.open("rb") as raw:
        start = raw.read(4)
        raw.seek(0)
        packed = path.stat().st_size
        if start in _ZIP:
            yield from _zip_entries(_Bounded(raw, packed, packed))
        elif start.startswith(_GZIP):
            with gzip.GzipFile(fileobj=raw) as unpacked:
                yield from _tar_entries(_Bounded(unpacked, packed, limits=limits))
        else:
            yield from _tar_entries(_Bounded(raw, packed, limits=limits))


class _Bounded:
    """A readable file that refuses to go on past the limits.

    It also refuses one read of many megabytes: contents are read in small pieces, so a large
    one is a header that claims a size to make the reader take memory.
    """

    def __init__(
        self,
        inner: IO[bytes] | gzip.GzipFile,
        packed: int,
        size: int = 0,
        limits: Limits | None = None,
    ) -> None:
        self._inner = inner
        limits = limits or Limits(size=size, ratio=1, ratio_from=size)
        self._end = min(limits.size, max(limits.ratio_from, packed * limits.ratio))

    def read(self, size: int = -1) -> bytes:
        if size < 0:
            size = self._end + 1 - self._inner.tell()
        if size > _HEADER_LIMIT:
            raise ArchiveRefused("a header claims more than 16 MiB")
        data = self._inner.read(size)
        self._demand(self._inner.tell())
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence == 0:
            if offset < 0:
                raise ArchiveRefused("broken: it points before its own beginning")
            self._demand(offset)
        return self._inner.seek(offset, whence)

    def tell(self) -> int:
        return self._inner.tell()

    def seekable(self) -> bool:
        return True

    def _demand(self, position: int) -> None:
        if position > self._end:
            raise ArchiveRefused(f"unpacks to more than {self._end} bytes")


def _tar_entries(source: _Bounded) -> Iterator[Entry]:
    with tarfile.open(fileobj=cast("IO[bytes]", source), mode="r:") as archive:
        while (member := archive.next()) is not None:
            content = archive.extractfile(member) if member.isreg() else None
            yield Entry(member.name, _tar_kind(member), member.mode, member.linkname, content)
            # Else the list of all seen grows with the archive.
            archive.members.clear()  # type: ignore[attr-defined]
        # The library takes a damaged header, or a missing end, for the end.
        source.seek(archive.offset)
        if source.read(tarfile.BLOCKSIZE) != tarfile.NUL * tarfile.BLOCKSIZE:
            raise ArchiveRefused("damaged or cut off: no end of the archive where it should be")
    while source.read(_CHUNK):
        pass  # to the checksum at the end of a compressed archive


def _tar_kind(member: tarfile.TarInfo) -> Kind:
    if member.isreg():
        return Kind.FILE
    if member.isdir():
        return Kind.FOLDER
    if member.issym():
        return Kind.LINK
    if member.islnk():
        return Kind.HARD_LINK
    return Kind.OTHER


def _zip_entries(source: _Bounded) -> Iterator[Entry]:
    with zipfile.ZipFile(cast("IO[bytes]", source)) as archive:
        for member in archive.infolist():
            if member.flag_bits & _ENCRYPTED:
                raise ArchiveRefused(f"{member.filename!r} is encrypted")
            kind, mode = _zip_kind(member)
            with archive.open(member) as content:
                target = ""
                if kind is Kind.LINK:
                    target = content.read(_LINK_LIMIT + 1).decode()
                yield Entry(member.filename, kind, mode, target, content)


def _zip_kind(member: zipfile.ZipInfo) -> tuple[Kind, int]:
    mode = member.external_attr >> 16
    if member.is_dir():
        return Kind.FOLDER, mode or 0o755
    if not stat.S_IFMT(mode):
        return Kind.FILE, mode or 0o644
    if stat.S_ISREG(mode):
        return Kind.FILE, mode
    if stat.S_ISLNK(mode):
        return Kind.LINK, mode
    return Kind.OTHER, mode
