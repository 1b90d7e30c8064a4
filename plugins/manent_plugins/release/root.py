"""The folder of an application on a target: its releases, the current one, one holder at a time."""

import fcntl
import json
import os
import secrets
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from manent_plugins.release.archive import Manifest, describe, unpack
from manent_plugins.release.entries import ArchiveRefused
from manent_server.sdk import Artifact, Context, HookFailure, PermanentFailure, RetryLater

MARKER = ".manent-release.json"
_LOCK_SECONDS = 30.0
_PAUSE = 0.1


class Root:
    """`releases/<version>`, `current` and, under `.manent`, what is remembered of them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.memory = path / ".manent"
        self._releases = path / "releases"
        self._current = path / "current"

    def release(self, version: str) -> Path:
        """The folder of a version."""
        return self._releases / version

    @property
    def version(self) -> str | None:
        """The version `current` leads to."""
        try:
            target = self._current.readlink()
        except OSError:
            return None
        return target.name if target.parent == Path("releases") else None

    @contextmanager
    def held(self, context: Context) -> Iterator[None]:
        """Keep every other process of this root away, and every deploy of a lower epoch."""
        for folder in (self._releases, self.memory):
            folder.mkdir(parents=True, exist_ok=True)
        with (self.memory / "lock").open("ab") as file:
            _lock(file.fileno(), context)
            self._claim(context)
            self._sweep()
            yield

    def put(self, context: Context) -> bool:
        """Make the release folder hold exactly the artifact; whether that took a change."""
        version, artifact = context.version, context.artifact
        marker = self._marker(version)
        if marker is not None and (artifact is None or marker["sha256"] == artifact.sha256):
            drifted = self._drifted(version, marker["files"])
            if not drifted:
                return False
            said = f"{drifted[0]} of release {version} is not as it was unpacked: unpacking again"
            context.log.warning(said)
        if artifact is None:
            raise PermanentFailure(
                f"release {version} is not (or no longer whole) on {context.target}, and there is "
                "no artifact to unpack: set artifact.url",
                code="artifact_missing",
            )
        self._unpack(context, artifact)
        return True

    def digest(self, version: str) -> str | None:
        """The digest of the artifact a release was unpacked from."""
        marker = self._marker(version)
        return None if marker is None else str(marker["sha256"])

    def is_whole(self, version: str) -> bool:
        """Whether the release folder holds what was unpacked."""
        marker = self._marker(version)
        return marker is not None and not self._drifted(version, marker["files"])

    def switch(self, version: str) -> bool:
        """Let `current` lead to a release, in one step; whether it led elsewhere before."""
        target = Path("releases") / version
        if self._current.is_symlink() and self._current.readlink() == target:
            return False
        if self._current.exists() and not self._current.is_symlink():
            raise PermanentFailure(
                f"{self._current} is not a link of manent's: move it away first",
                code="current_occupied",
            )
        fresh = self.path / f".current-{secrets.token_hex(4)}"
        fresh.symlink_to(target)
        fresh.replace(self._current)
        _fsync(self.path)
        return True

    def remember(self, name: str, value: Mapping[str, Any]) -> None:
        """Keep a value under a name, whole or not at all."""
        path = self.memory / f"{name}.json"
        _write(path.with_suffix(".fresh"), value)
        path.with_suffix(".fresh").replace(path)
        _fsync(self.memory)

    def recall(self, name: str) -> dict[str, Any]:
        """The value kept under a name; empty when there is none."""
        return _read(self.memory / f"{name}.json") or {}

    def forget(self, name: str) -> None:
        """Keep nothing under a name."""
        (self.memory / f"{name}.json").unlink(missing_ok=True)

    def tidy(self, *, keep: int, spared: Collection[str], order: list[str]) -> list[str]:
        """Remove all releases but the first `keep` in `order` and the spared ones."""
        found = [entry.name for entry in self._releases.iterdir() if not entry.name.startswith(".")]
        ranks = {version: rank for rank, version in enumerate(order)}
        found.sort(key=lambda version: ranks.get(version, len(ranks)))
        spared = {*spared, *found[:keep]}
        removed = [version for version in found if version not in spared]
        for version in removed:
            self._set_aside(version)
        self._sweep()
        return removed

    def _claim(self, context: Context) -> None:
        """Note who comes; refuse who comes late."""
        known = self.recall("epoch")
        seen = known.get("epoch", 0)
        if seen > context.epoch:
            raise PermanentFailure(
                f"{self.path} was last changed under epoch {seen}, this attempt has "
                f"{context.epoch}: a newer one has taken over (if manent's database was set up "
                f"anew, remove {self.memory / 'epoch.json'})",
                code="epoch_outdated",
            )
        place = f"{context.application}/{context.environment}/{context.target}"
        if known.get("place", place) != place:
            said = f"{self.path} is also the root of {known['place']}: each needs one of its own"
            context.log.warning(said)
        if seen < context.epoch:
            self.remember("epoch", {"epoch": context.epoch, "place": place})

    def _unpack(self, context: Context, artifact: Artifact) -> None:
        fresh = self._releases / f".unpacking-{secrets.token_hex(4)}"
        fresh.mkdir(mode=0o755)
        try:
            files = unpack(artifact.path, fresh, on_entry=_stopper(context))
            if MARKER in files:
                raise ArchiveRefused(f"{MARKER} is manent's own name")  # noqa: TRY301 - one place
            _write(fresh / MARKER, _marker(context, artifact, files))
            _fsync(fresh)
            self._set_aside(context.version)
            fresh.rename(self.release(context.version))
            _fsync(self._releases)
            said = f"unpacked {len(files)} files of {context.version}"
            context.log.info(said)
        except ArchiveRefused as error:
            raise PermanentFailure(
                f"the artifact of {context.application} {context.version}: {error}",
                code="archive_refused",
            ) from error
        except OSError as error:
            raise HookFailure(f"could not unpack into {fresh}: {error.strerror}") from error
        finally:
            self._sweep()

    def _set_aside(self, version: str) -> None:
        folder = self.release(version)
        if folder.is_symlink() or folder.exists():
            folder.rename(self._releases / f".removing-{secrets.token_hex(4)}")

    def _sweep(self) -> None:
        """Remove what was left half-unpacked or half-removed."""
        for entry in self._releases.iterdir():
            if not entry.name.startswith("."):
                continue
            if entry.is_symlink() or not entry.is_dir():
                entry.unlink(missing_ok=True)
            else:
                shutil.rmtree(entry, ignore_errors=True)
        for link in self.path.glob(".current-*"):
            link.unlink(missing_ok=True)

    def _marker(self, version: str) -> dict[str, Any] | None:
        folder = self.release(version)
        marker = None if folder.is_symlink() else _read(folder / MARKER)
        if marker is None or not isinstance(marker.get("files"), dict) or "sha256" not in marker:
            return None
        return marker

    def _drifted(self, version: str, files: Manifest) -> list[str]:
        folder = self.release(version)
        return [name for name, what in files.items() if describe(folder / name) != what]


def _marker(context: Context, artifact: Artifact, files: Manifest) -> dict[str, Any]:
    return {
        "version": context.version,
        "sha256": artifact.sha256,
        "deploy": context.deploy,
        "files": files,
    }


def _stopper(context: Context) -> Callable[[], None]:
    def stop() -> None:
        if context.cancelled or not context.still_owner():
            raise HookFailure("stopped while unpacking", code="stopped")

    return stop


def _lock(descriptor: int, context: Context) -> None:
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if context.cancelled or time.monotonic() > deadline:
                raise RetryLater(
                    f"another process is at work in {context.options.root}", code="root_busy"
                ) from None
            time.sleep(_PAUSE)
        else:
            return


def _read(path: Path) -> dict[str, Any] | None:
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def _write(path: Path, value: Mapping[str, Any]) -> None:
    with path.open("w") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())


def _fsync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
