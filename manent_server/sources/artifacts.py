"""Artifacts on local disk, kept by digest: what every attempt and every target is given."""

import errno
import fcntl
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import IO

from manent_server.sources.files import open_regular
from manent_server.sources.locations import (
    ArtifactLimits,
    ArtifactRefused,
    ArtifactUnavailable,
    Location,
    digest_of,
)

__all__ = [
    "ArtifactLimits",
    "ArtifactRefused",
    "ArtifactUnavailable",
    "Artifacts",
    "FetchedArtifact",
]

_CHUNK = 1024 * 1024
_KNOWN_AT_MOST = 1024
_LOOK = 0.02
_FINAL = {errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.ELOOP, errno.EINVAL}


@dataclass(frozen=True)
class FetchedArtifact:
    """A whole artifact in the cache, its digest checked."""

    path: Path
    sha256: str
    size: int


class Artifacts:
    """Fetches artifacts into a folder where a file's name is its digest.

    Several threads and processes may share the folder: a partial file is held by a lock,
    a whole one appears by one rename, and what a killed process left is removed.
    """

    def __init__(self, cache: Path, limits: ArtifactLimits | None = None) -> None:
        self._limits = limits or ArtifactLimits()
        self._whole = cache / "sha256"
        self._partial = cache / "partial"
        self._checked: dict[tuple[str, int, int, int], None] = {}

    def digest(self, url: str, sha256: str | None = None) -> str:
        """The SHA-256 of the artifact at `url`: the pinned one once it is checked."""
        return self.fetch(url, sha256=sha256).sha256

    def fetch(self, url: str, *, sha256: str | None = None) -> FetchedArtifact:
        """The artifact at `url`, from the cache where `sha256` names one that is there.

        Raises:
            ArtifactRefused: It can never be used as named.
            ArtifactUnavailable: It could not be had just now.
        """
        location = Location.parse(url)
        pinned = digest_of(sha256) if sha256 else None
        try:
            self._whole.mkdir(parents=True, exist_ok=True)
            self._partial.mkdir(parents=True, exist_ok=True)
            self._sweep()
            return self._cached(pinned) or self._fetch(location, pinned)
        except OSError as error:
            raise ArtifactUnavailable(
                f"artifact {location.shown}: {error.strerror or error}",
                next="check the disk and the rights of the worker's folder",
            ) from error

    def _fetch(self, location: Location, pinned: str | None) -> FetchedArtifact:
        key = hashlib.sha256(f"{location.parts.geturl()} {pinned}".encode()).hexdigest()
        with self._claimed(self._partial / key) as file:
            # Whoever held the claim before may just have fetched it.
            found = self._cached(pinned)
            if found is not None:
                return found
            if location.scheme == "file":
                self._copy(location, file)
            else:
                # Its library takes a tenth of a second to load.
                from manent_server.sources.download import Download  # noqa: PLC0415

                Download(location, self._limits).into(file)
            return self._keep(location, pinned, file)

    def _copy(self, location: Location, file: IO[bytes]) -> None:
        try:
            source = open_regular(location.path)
        except OSError as error:
            if error.errno not in _FINAL:
                raise
            raise ArtifactRefused(
                f"artifact {location.shown}: {error.strerror}",
                next="check that this version was published there and may be read",
            ) from error
        with source:
            if os.fstat(source.fileno()).st_size > self._limits.size:
                raise ArtifactRefused(
                    f"artifact {location.shown}: larger than {self._limits.size} bytes"
                )
            shutil.copyfileobj(source, file, _CHUNK)

    def _keep(self, location: Location, pinned: str | None, file: IO[bytes]) -> FetchedArtifact:
        file.flush()
        digest = _digest(Path(file.name))
        if pinned is not None and digest != pinned:
            raise ArtifactRefused(
                f"artifact {location.shown}: its SHA-256 is {digest}, not {pinned}",
                next="someone changed what was published, or the pinned digest is of another file",
            )
        os.fchmod(file.fileno(), 0o444)
        os.fsync(file.fileno())
        path = self._whole / digest
        Path(file.name).replace(path)
        _fsync(self._whole)
        self._remember(digest, path)
        return FetchedArtifact(path, digest, path.stat().st_size)

    def _cached(self, digest: str | None) -> FetchedArtifact | None:
        if digest is None:
            return None
        path = self._whole / digest
        try:
            size = path.stat().st_size
            if self._seal(digest, path) not in self._checked:
                if _digest(path) != digest:  # a disk that lost or changed bytes: fetch it again
                    return None
                self._remember(digest, path)
            # By it `tidy` knows that somebody has just been given it.
            os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))
        except FileNotFoundError:
            return None
        return FetchedArtifact(path, digest, size)

    def tidy(self, keep: Collection[str], *, idle: timedelta) -> int:
        """Remove artifacts nobody needs; how many.

        Args:
            keep: Digests that stay.
            idle: How long ago the others must have been asked for at least: whoever resolves
                one just now has not yet told anybody that it needs it.
        """
        oldest = time.time() - idle.total_seconds()
        gone = 0
        for path in self._whole.iterdir() if self._whole.is_dir() else ():
            with suppress(FileNotFoundError):
                found = path.stat()
                if path.name not in keep and max(found.st_atime, found.st_mtime) < oldest:
                    path.unlink()
                    gone += 1
        return gone

    def _remember(self, digest: str, path: Path) -> None:
        while len(self._checked) >= _KNOWN_AT_MOST:
            self._checked.pop(next(iter(self._checked)), None)
        self._checked[self._seal(digest, path)] = None

    @staticmethod
    def _seal(digest: str, path: Path) -> tuple[str, int, int, int]:
        found = path.stat()
        return digest, found.st_ino, found.st_size, found.st_mtime_ns

    @contextmanager
    def _claimed(self, path: Path) -> Iterator[IO[bytes]]:
        """An empty file, ours alone until it is renamed or removed."""
        with self._claim(path) as file:
            file.truncate(0)
            try:
                yield file
            finally:
                if _is_at(file, Path(file.name)):
                    Path(file.name).unlink()

    def _claim(self, path: Path) -> IO[bytes]:
        """The file at `path` once nobody holds it, or one beside it.

        Beside it where whoever holds that one gets no further: a frozen process keeps its locks.
        """
        size, since = -1, time.monotonic()
        while True:
            file = path.open("a+b")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                with file:
                    size, before = os.fstat(file.fileno()).st_size, size
                if size != before:
                    since = time.monotonic()
                if time.monotonic() - since > self._limits.read.total_seconds():
                    path = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
                time.sleep(_LOOK)
                continue
            except BaseException:
                file.close()
                raise
            if _is_at(file, path):
                return file
            file.close()  # renamed or swept while we waited for it

    def _sweep(self) -> None:
        """Remove the partial files no living process holds."""
        for path in self._partial.iterdir():
            with suppress(FileNotFoundError, BlockingIOError), path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if _is_at(file, path):
                    path.unlink()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_at(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False


def _fsync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
