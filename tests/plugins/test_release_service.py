import subprocess
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from manent_plugins import release
from manent_plugins.release.root import Root
from manent_plugins.release.service import Service
from manent_server.sdk import HookFailure, PermanentFailure
from tests.plugins.places import PYTHON, QUIET, Place, a_place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with a_place(tmp_path) as place:
        yield place


def test_a_restart_command_runs_in_the_release_folder_and_its_failure_is_one(
    place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    show = "import os; print(os.getcwd(), os.environ['MODE'])"
    given = {**QUIET, "restart": [PYTHON, "-c", show], "environment": {"MODE": "fast"}}
    place.deploy("v1", options=given)
    assert capfd.readouterr().out == f"{place.root}/releases/v1 fast\n"
    place.deploy("v1", options=given)
    assert capfd.readouterr().out == ""
    failing = {**QUIET, "restart": [PYTHON, "-c", "raise SystemExit(3)"], "environment": {}}
    for _ in range(2):
        with pytest.raises(HookFailure, match="ended with exit code 3"):
            place.deploy("v2", options=failing)
    with pytest.raises(PermanentFailure, match="no-such-program cannot be run"):
        place.deploy("v2", options={**failing, "restart": ["no-such-program"]})


def test_a_service_that_cannot_be_started_or_ends_at_once_is_named(place: Place) -> None:
    with pytest.raises(PermanentFailure, match="no-such-program cannot be started"):
        place.deploy("v1", options={"service": ["no-such-program"]})
    given = place.deploy(
        "v1", options={"service": [PYTHON, "-c", "raise SystemExit('no licence')"]}
    )
    with pytest.raises(HookFailure, match="the service ended, its last words: no licence"):
        release.verify(given)


def test_a_service_deaf_to_sigterm_is_killed_with_its_children(place: Place) -> None:
    code = (
        "import os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.fork();"
        "open('pids', 'a').write(f'{os.getpid()}\\n'); time.sleep(60)"
    )
    place.deploy("v1", options={**QUIET, "service": [PYTHON, "-c", code]})
    pids = place.root / "releases" / "v1" / "pids"
    deadline = time.monotonic() + 30
    while (not pids.exists() or pids.read_text().count("\n") < 2) and time.monotonic() < deadline:
        time.sleep(0.02)
    place.deploy("v2", options={**QUIET, "stop_timeout": "200ms"})
    for pid in pids.read_text().split():
        assert not Path(f"/proc/{pid}/exe").exists()


def test_a_recycled_pid_is_never_taken_for_the_service(place: Place) -> None:
    release.verify(place.deploy("v1"))
    real = place.answer()["pid"]
    root = Root(place.root)
    known = root.recall("service")
    stranger = subprocess.Popen([PYTHON, "-c", "import time; time.sleep(60)"])
    try:
        root.remember("service", {**known, "pid": stranger.pid})
        assert not Service(root).is_alive
        Service(root).stop(timeout=timedelta(seconds=1))
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()
        root.remember("service", known)
    assert Service(root).is_alive
    assert place.answer()["pid"] == real
