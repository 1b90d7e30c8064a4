"""Unpacking an archive somebody else packed, so that nothing but its own folder is touched.

Nothing is written through a link the archive made; every link has to lead to something inside
the folder, looked at once all is unpacked. Modes lose setuid, setgid, sticky and the right of
others to write; owners and times are not taken over.
"""

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import IO

from manent_plugins.release.entries import (
    ArchiveRefused,
    Entry,
    Kind,
    Limits,
    entries,
    refusing_nonsense,
)

_CHUNK = 256 * 1024
_NAME_LIMIT = 255
_PATH_LIMIT = 1024
_OWNER_READS_AND_WRITES = 0o600
_KEPT = 0o755

Manifest = dict[str, str]
"""What every path holds: `sha256 <mode> <digest>` of a file, `link <target>` of a link."""


def unpack(
    path: Path, into: Path, *, limits: Limits | None = None, on_entry: Callable[[], None]
) -> Manifest:
    """Unpack the archive at `path` into the empty folder `into`; return what it holds.

    Args:
        path: A tar, tar.gz or zip file.
        into: An existing folder; after a refusal it holds a part and should be removed.
        limits: What the archive may cost.
        on_entry: Called before each entry; it may raise to stop.

    Raises:
        ArchiveRefused: With the entry that is to blame.
    """
    limits = limits or Limits()
    unpacking = _Unpacking(into, limits)
    with refusing_nonsense():
        for entry in entries(path, limits):
            on_entry()
            unpacking.add(entry)
    unpacking.look_at_links()
    if not unpacking.manifest:
        raise ArchiveRefused("holds no file")
    return unpacking.manifest


def describe(path: Path) -> str | None:
    """What `path` holds, in the words of a manifest; None when it is not there."""
    try:
        if path.is_symlink():
            return _link(str(path.readlink()))
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode & 0o777
            return _file(mode, hashlib.file_digest(file, "sha256").hexdigest())
    except OSError:
        return None


def _file(mode: int, digest: str) -> str:
    return f"sha256 {mode:o} {digest}"


def _link(target: str) -> str:
    return f"link {target}"


@dataclass
class _Unpacking:
    into: Path
    limits: Limits
    manifest: Manifest = field(default_factory=dict)
    _folders: set[str] = field(default_factory=lambda: {"."})
    _links: set[str] = field(default_factory=set)
    _count: int = 0
    _size: int = 0

    def add(self, entry: Entry) -> None:
        """Put one entry on disk."""
        self._count += 1
        if self._count > self.limits.entries:
            raise ArchiveRefused(f"holds more than {self.limits.entries} entries")
        name = _name(entry.name)
        try:
            self._place(name, entry)
        except FileExistsError:
            raise ArchiveRefused(f"{_shown(entry.name)} is in it twice") from None

    def look_at_links(self) -> None:
        """Each link must end inside: asked at the end, when all it passes through is there."""
        root = os.path.realpath(self.into)
        for name in self._links:
            try:
                # Strict: a path too long to resolve must not count as resolved.
                end = os.path.realpath(self.into / name, strict=True)
            except OSError as error:
                raise ArchiveRefused(
                    f"{_shown(name)} is a link that leads nowhere in it ({error.strerror})"
                ) from error
            if end != root and not end.startswith(root + os.sep):
                raise ArchiveRefused(f"{_shown(name)} is a link that leads out of it")

    def _place(self, name: str, entry: Entry) -> None:
        if entry.kind is Kind.FOLDER:
            self._make_folder(name)
            return
        if name == ".":
            raise ArchiveRefused(f"{_shown(entry.name)} names the folder itself")
        self._make_folder(str(PurePosixPath(name).parent))
        if entry.kind is Kind.FILE and entry.content is not None:
            self._write(name, entry.mode, entry.content)
        elif entry.kind is Kind.LINK:
            self._make_link(name, entry.target)
        elif entry.kind is Kind.HARD_LINK:
            self._make_hard_link(name, _name(entry.target))
        else:
            raise ArchiveRefused(f"{_shown(entry.name)} is a device, a pipe or unknown")

    def _make_folder(self, name: str) -> None:
        """Make a folder and those above it; none of them may be a link or a file."""
        if name in self._folders:
            return
        self._make_folder(str(PurePosixPath(name).parent))
        if name in self._links or name in self.manifest:
            raise ArchiveRefused(f"{_shown(name)} is a file or a link, and a folder as well")
        (self.into / name).mkdir(mode=_KEPT)
        self._folders.add(name)

    def _write(self, name: str, mode: int, content: IO[bytes]) -> None:
        mode = mode & _KEPT | _OWNER_READS_AND_WRITES
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        digest = hashlib.sha256()
        with os.fdopen(os.open(self.into / name, flags, mode), "wb") as file:
            os.fchmod(file.fileno(), mode)
            while chunk := content.read(_CHUNK):
                self._size += len(chunk)
                if self._size > self.limits.size:
                    raise ArchiveRefused(f"unpacks to more than {self.limits.size} bytes")
                digest.update(chunk)
                file.write(chunk)
        self.manifest[name] = _file(mode, digest.hexdigest())

    def _make_link(self, name: str, target: str) -> None:
        if not target or target.startswith("/") or "\0" in target or len(target) > _PATH_LIMIT:
            raise ArchiveRefused(f"{_shown(name)} is a link to an absolute or unusable path")
        (self.into / name).symlink_to(target)
        self._links.add(name)
        self.manifest[name] = _link(target)

    def _make_hard_link(self, name: str, target: str) -> None:
        found = self.manifest.get(target)
        if found is None or target in self._links:
            raise ArchiveRefused(f"{_shown(name)} is a hard link to no file before it")
        os.link(self.into / target, self.into / name, follow_symlinks=False)
        self.manifest[name] = found


def _name(written: str) -> str:
    """The name without `./` and doubled slashes, if it can only lie inside."""
    if written.startswith("/"):
        raise ArchiveRefused(f"{_shown(written)} is an absolute path")
    parts = [part for part in written.split("/") if part not in {"", "."}]
    if ".." in parts:
        raise ArchiveRefused(f"{_shown(written)} leads out of the folder")
    name = "/".join(parts) or "."
    if "\0" in name or any(len(os.fsencode(part)) > _NAME_LIMIT for part in parts):
        raise ArchiveRefused(f"{_shown(written)} is no usable name")
    if len(os.fsencode(name)) > _PATH_LIMIT:
        raise ArchiveRefused(f"{_shown(written)} is longer than {_PATH_LIMIT} bytes")
    return name


def _shown(name: str) -> str:
    return ascii(name if len(name) <= 200 else f"{name[:200]}...")  # noqa: PLR2004 - enough to see
