"""A service is started with nothing of the one who starts it."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from manent_server.sdk import start_service


@pytest.fixture
def started() -> Iterator[list[int]]:
    pids: list[int] = []
    yield pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


def wait_for(path: Path, text: str) -> str:
    until = time.monotonic() + 60
    while not (path.exists() and text in path.read_text()):
        assert time.monotonic() < until
        time.sleep(0.01)
    return path.read_text()


def test_a_service_has_a_session_and_descriptors_of_its_own(
    tmp_path: Path, started: list[int]
) -> None:
    os.environ["MANENT_ATTEMPT_ID"] = "a1"  # noqa: TID251 - what a hook's process has
    try:
        script = "env; ls /proc/self/fd; echo up >&2; exec sleep 600"
        log = tmp_path / "log"
        argv = ["sh", "-c", script]
        started.append(start_service(argv, workdir=tmp_path, environment=None, log=log))
    finally:
        del os.environ["MANENT_ATTEMPT_ID"]  # noqa: TID251 - as above
    said = wait_for(log, "up")
    assert "MANENT_" not in said
    assert said.splitlines()[-5:] == ["0", "1", "2", "3", "up"]
    assert os.getsid(started[0]) not in (os.getsid(0), started[0])
    assert Path(f"/proc/{started[0]}/cwd").readlink() == tmp_path
    assert Path(f"/proc/{started[0]}/fd/0").readlink() == Path(os.devnull)


def test_a_service_has_the_environment_it_is_given(tmp_path: Path, started: list[int]) -> None:
    script = "env; echo up; exec sleep 600"
    log = tmp_path / "log"
    log.write_text("before\n")
    environment = {"ONE": "1", "PATH": os.defpath}
    argv = ["sh", "-c", script]
    started.append(start_service(argv, workdir=tmp_path, environment=environment, log=log))
    said = wait_for(log, "up")
    assert said.startswith("before\n")
    assert {line.partition("=")[0] for line in said.splitlines()} <= {
        "before", "ONE", "PATH", "PWD", "SHLVL", "_", "OLDPWD", "up",
    }  # fmt: skip


def children() -> set[str]:
    """Process ids of this process's children, which other tests may have of their own."""
    tasks = Path(f"/proc/{os.getpid()}/task").iterdir()
    return {pid for task in tasks for pid in (task / "children").read_text().split()}


@pytest.mark.parametrize(
    ("program", "folder", "log"),
    [("no-such-program", ".", "log"), ("true", "no-such-folder", "log"), ("true", ".", "no/log")],
)
def test_a_service_that_cannot_be_started_is_an_error(
    tmp_path: Path, program: str, folder: str, log: str
) -> None:
    before = children()
    with pytest.raises(FileNotFoundError):
        start_service([program], workdir=tmp_path / folder, environment=None, log=tmp_path / log)
    assert children() <= before
