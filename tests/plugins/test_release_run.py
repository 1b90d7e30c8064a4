import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from manent_plugins.release.root import Root
from manent_plugins.release.service import Service
from tests.plugins.runs import Hooks, Ran, hooks

PYTHON = str(getattr(sys, "_base_executable", sys.executable))
PACKAGE = Path(__file__).parents[2] / "examples" / "hello" / "package.py"


class Site:
    """One target of the hello service, deployed to through a real runner."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "srv"
        self.packed = folder / "packed"
        subprocess.run([sys.executable, PACKAGE, self.packed], check=True, capture_output=True)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    @property
    def options(self) -> dict[str, Any]:
        return {
            "root": str(self.root),
            "service": [PYTHON, "-S", "-E", "hello.py"],
            "environment": {"PORT": str(self.port)},
            "health": f"http://127.0.0.1:{self.port}/healthz",
            "health_timeout": "20s",
            "health_interval": "50ms",
        }

    def artifact(self, version: str) -> dict[str, str]:
        path = self.packed / f"{version}.tar.gz"
        return {"path": str(path), "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}

    def call(self, run: Hooks, hook: str, version: str, **values: Any) -> Ran:
        given = {"artifact": self.artifact(version), "version": version, "from_version": None}
        options = {**self.options, **values.pop("options", {})}
        return run.call("release", hook, options, **{**given, **values})

    def answer(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=5) as answer:
            found: dict[str, Any] = json.load(answer)
        return found


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    site = Site(tmp_path)
    yield site
    Service(Root(site.root)).stop(timeout=timedelta(seconds=2))


def test_a_service_outlives_its_hook_its_guard_and_the_worker(site: Site) -> None:
    with hooks(site.folder / "first") as run:
        assert site.call(run, "deploy", "v1").end.result == "succeeded"
        assert site.call(run, "verify", "v1").end.result == "succeeded"
        pid = site.answer()["pid"]
    assert site.answer()["pid"] == pid
    with hooks(site.folder / "second") as run:
        assert site.call(run, "deploy", "v1").end.result == "succeeded"
        assert site.answer()["pid"] == pid
        ran = site.call(run, "observe", "v1")
        assert ran.end.outputs == {"version": "v1", "in_place": True}
        assert site.call(run, "deploy", "v2", from_version="v1").end.result == "succeeded"
        assert site.call(run, "verify", "v2").end.result == "succeeded"
    assert site.answer()["version"] == "v2"


def test_a_service_carries_nothing_of_the_attempt(site: Site) -> None:
    with hooks(site.folder / "runner") as run:
        site.call(run, "deploy", "v1")
        site.call(run, "verify", "v1")
        pid = site.answer()["pid"]
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        names = {variable.partition(b"=")[0].decode() for variable in variables if variable}
        assert names == {"HOME", "LANG", "PATH", "PORT"}
        opened = {str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()}
        assert not any("attempts" in path for path in opened)
        assert os.getsid(pid) != os.getsid(0)


def test_a_broken_version_fails_and_going_back_makes_it_well(site: Site) -> None:
    with hooks(site.folder / "runner") as run:
        site.call(run, "deploy", "v2")
        assert site.call(run, "verify", "v2").end.result == "succeeded"
        assert site.call(run, "deploy", "v3", from_version="v2").end.result == "succeeded"
        ran = site.call(run, "verify", "v3", options={"health_timeout": "3s"})
        assert ran.end.result == "failed"
        assert "was not healthy" in str(ran.end.error)
        back = site.call(run, "rollback", "v2", from_version="v3", kind="deploy", epoch=8)
        assert back.end.result == "succeeded"
        assert site.answer()["version"] == "v2"


def test_a_cancelled_restart_is_made_good_by_the_next_attempt(site: Site) -> None:
    options = {
        **site.options,
        "service": None,
        "restart": [PYTHON, "-c", "import time; open('begun', 'w').close(); time.sleep(60)"],
    }
    given = {"artifact": site.artifact("v1"), "version": "v1"}
    with hooks(site.folder / "runner") as run:
        call = run.prepare("release", "deploy", options, **given)
        ends = []
        running = threading.Thread(target=lambda: ends.append(run.runner.call(call)))
        running.start()
        deadline = time.monotonic() + 60
        while not (site.root / "current" / "begun").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        run.runner.cancel(call.attempt_id, reason="cancelled", grace=timedelta(seconds=1))
        running.join()
        assert [(end.result, end.is_dead) for end in ends] == [("cancelled", True)]
        # What was half done is completed by the next attempt.
        assert site.call(run, "deploy", "v1", epoch=8).end.result == "succeeded"
        assert site.call(run, "verify", "v1").end.result == "succeeded"


def test_a_hook_killed_anywhere_leaves_what_the_next_attempt_completes(site: Site) -> None:
    """B62: leftovers of a killed attempt do not block or spoil the next one."""
    with hooks(site.folder / "runner") as run:
        for number, seconds in enumerate((0.0, 0.005, 0.01, 0.02, 0.04, 0.08)):
            version = ("v1", "v2")[number % 2]
            given = {"artifact": site.artifact(version), "version": version, "epoch": 10 + number}
            call = run.prepare("release", "deploy", site.options, **given)
            running = threading.Thread(target=run.runner.call, args=(call,))
            running.start()
            time.sleep(seconds)
            run.runner.kill(call.attempt_id)
            running.join()
            again = site.call(run, "deploy", version, epoch=10 + number, attempt=2)
            assert again.end.result == "succeeded"
            assert site.call(run, "verify", version).end.result == "succeeded"
            assert site.answer()["version"] == version
            assert not list((site.root / "releases").glob(".*"))


def test_a_lower_epoch_fails_for_good(site: Site) -> None:
    with hooks(site.folder / "runner") as run:
        site.call(run, "deploy", "v2", epoch=9)
        ran = site.call(run, "deploy", "v1", epoch=8)
        assert (ran.end.result, ran.end.retryable) == ("failed", False)
        assert ran.end.error is not None
        assert ran.end.error["code"] == "epoch_outdated"
