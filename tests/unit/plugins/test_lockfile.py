import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from manent_server.plugins import lockfile


def test_a_file_nobody_made_is_free(tmp_path: Path) -> None:
    assert lockfile.is_free(tmp_path / "none" / "a")


def test_a_taken_file_is_not_free_until_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "a"
    descriptor = lockfile.take(str(path))
    assert not lockfile.is_free(path)
    with pytest.raises(BlockingIOError):
        lockfile.take(str(path))
    os.close(descriptor)
    assert lockfile.is_free(path)
    os.close(lockfile.take(str(path)))


def test_asking_does_not_take(tmp_path: Path) -> None:
    path = tmp_path / "a"
    os.close(lockfile.take(str(path)))
    assert lockfile.is_free(path)
    assert lockfile.is_free(path)


def test_a_process_that_inherited_it_keeps_it_taken(tmp_path: Path) -> None:
    path = tmp_path / "a"
    descriptor = lockfile.take(str(path))
    wait = [sys.executable, "-c", "input()"]
    with subprocess.Popen(wait, stdin=subprocess.PIPE, pass_fds=[descriptor]) as child:
        os.close(descriptor)
        assert not lockfile.is_free(path)
        child.communicate(b"\n")
    assert lockfile.is_free(path)


def test_it_is_never_there_without_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I19: found free, the attempt would be taken for dead and its successor begun beside it."""
    path = tmp_path / "locks" / "a"
    seen: list[bool] = []
    lock = fcntl.flock

    def flock(descriptor: int, how: int) -> None:
        seen.append(path.exists())
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    descriptor = lockfile.take(str(path))
    assert seen == [False]
    assert not lockfile.is_free(path)
    assert Path(f"/proc/self/fd/{descriptor}").readlink() == path
    os.close(descriptor)
    assert [found.name for found in path.parent.iterdir()] == ["a"]
