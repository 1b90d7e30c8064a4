import errno
import fcntl
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from manent_plugins import release
from manent_plugins.release.root import MARKER, Root
from manent_plugins.release.schema import ReleaseOptions
from manent_plugins.release.service import Service
from manent_server.sdk import (
    Artifact,
    Context,
    HookFailure,
    Observation,
    PermanentFailure,
    Previous,
    RetryLater,
)
from manent_server.sdk.options import template_paths
from tests.plugins.contexts import Heard, context

PYTHON = str(getattr(sys, "_base_executable", sys.executable))
PACKAGE = Path(__file__).parents[2] / "examples" / "hello" / "package.py"


@pytest.fixture(scope="module")
def hello(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Artifact]:
    """The example service at its three versions."""
    folder = tmp_path_factory.mktemp("hello")
    subprocess.run([sys.executable, PACKAGE, folder], check=True, capture_output=True)
    return {path.name.split(".")[0]: artifact(path) for path in folder.iterdir()}


def artifact(path: Path) -> Artifact:
    return Artifact(path, hashlib.sha256(path.read_bytes()).hexdigest())


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Place:
    """One target with the hello service on it."""

    def __init__(self, folder: Path, hello: dict[str, Artifact]) -> None:
        self.root = folder / "srv" / "hello"
        self.port = free_port()
        self.hello = hello
        self.heard = Heard()
        self._workdir = folder / "work"
        self._epoch = 0

    def context(self, version: str, **values: Any) -> Context:
        self._epoch += 1
        given = {"artifact": self.hello.get(version), "from_version": None, "epoch": self._epoch}
        options = values.pop("options", {})
        return context(
            self._workdir,
            self.options(**options),
            self.heard,
            version=version,
            **{**given, **values},
        )

    def options(self, **values: Any) -> ReleaseOptions:
        given = {
            "root": str(self.root),
            "service": [PYTHON, "-S", "-E", "hello.py"],
            "environment": {"PORT": str(self.port)},
            "health": f"http://127.0.0.1:{self.port}/healthz",
            "health_field": "version",
            "health_timeout": "10s",
            "health_interval": "50ms",
        }
        chosen = {key: value for key, value in {**given, **values}.items() if value is not None}
        return ReleaseOptions.model_validate(chosen)

    def deploy(self, version: str, **values: Any) -> Context:
        given = self.context(version, **values)
        release.deploy(given)
        return given

    def answer(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/", timeout=5) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    @property
    def releases(self) -> list[str]:
        return sorted(path.name for path in (self.root / "releases").iterdir())

    def close(self) -> None:
        Service(Root(self.root)).stop(timeout=timedelta(seconds=5))


@pytest.fixture
def place(tmp_path: Path, hello: dict[str, Artifact]) -> Iterator[Place]:
    place = Place(tmp_path, hello)
    yield place
    place.close()


def test_a_version_is_unpacked_made_current_started_and_healthy(place: Place) -> None:
    given = place.deploy("v1")
    release.verify(given)
    assert place.answer()["version"] == "v1"
    assert (place.root / "current").readlink() == Path("releases/v1")
    marker = json.loads((place.root / "releases" / "v1" / MARKER).read_text())
    assert (marker["version"], marker["deploy"]) == ("v1", given.deploy)
    assert given.artifact is not None
    assert marker["sha256"] == given.artifact.sha256
    assert release.observe(given) == Observation("v1", in_place=True)


def test_the_next_version_takes_the_place_of_the_one_before(place: Place) -> None:
    place.deploy("v1")
    release.verify(place.context("v1"))
    first = place.answer()["pid"]
    release.verify(place.deploy("v2", from_version="v1"))
    assert place.answer()["version"] == "v2"
    assert place.answer()["pid"] != first
    assert not Path(f"/proc/{first}/exe").exists()
    assert place.releases == ["v1", "v2"]


def test_a_broken_version_fails_its_verify_and_going_back_works(place: Place) -> None:
    release.verify(place.deploy("v2"))
    given = place.deploy("v3", from_version="v2", options={"health_timeout": "300ms"})
    with pytest.raises(HookFailure, match="was not healthy within") as raised:
        release.verify(given)
    assert "it answered 503" in raised.value.message
    release.rollback(place.context("v2", from_version="v3", kind="rollback"))
    assert place.answer()["version"] == "v2"
    assert release.observe(place.context("v2")) == Observation("v2", in_place=True)


def test_the_failed_release_can_still_be_looked_at_after_going_back(place: Place) -> None:
    """B98: going back does not tidy the evidence away."""
    release.verify(place.deploy("v2", options={"keep": 1}))
    place.deploy("v3", from_version="v2", options={"keep": 1})
    release.rollback(place.context("v2", from_version="v3", options={"keep": 1}))
    assert place.releases == ["v2", "v3"]


def test_going_back_to_an_unhealthy_version_is_a_failure(place: Place) -> None:
    with pytest.raises(HookFailure, match="was not healthy"):
        release.rollback(place.context("v3", options={"health_timeout": "200ms"}))


def test_the_same_version_again_changes_nothing(place: Place) -> None:
    release.verify(place.deploy("v1"))
    pid = place.answer()["pid"]
    before = {
        path: path.lstat().st_ino for path in place.root.rglob("*") if "json" not in path.name
    }
    release.verify(place.deploy("v1", from_version="v1", previous=Previous("v1", {})))
    assert place.answer()["pid"] == pid
    after = {path: path.lstat().st_ino for path in place.root.rglob("*") if "json" not in path.name}
    assert after == before
    assert "nothing to do" in place.heard.text


@pytest.mark.parametrize("drift", ["changed", "removed", "mode", "linked", "folder", "marker"])
def test_a_file_altered_by_hand_is_put_right_by_the_same_version(place: Place, drift: str) -> None:
    """B53: what is current is looked at, not believed."""
    release.verify(place.deploy("v1"))
    folder = place.root / "releases" / "v1"
    greeting = folder / "greeting.txt"
    if drift == "changed":
        greeting.write_text("altered")
    elif drift == "removed":
        greeting.unlink()
    elif drift == "mode":
        greeting.chmod(0o777)
    elif drift == "linked":
        greeting.unlink()
        greeting.symlink_to("/etc/hostname")
    elif drift == "folder":
        shutil.rmtree(folder)
    else:
        (folder / MARKER).write_text("{")
    assert release.observe(place.context("v1")) == Observation("v1", in_place=False)
    release.verify(place.deploy("v1"))
    assert place.answer()["greeting"] == "Hello from the first version"
    assert not greeting.is_symlink()
    assert release.observe(place.context("v1")) == Observation("v1", in_place=True)


def test_a_current_led_elsewhere_by_hand_is_put_right(place: Place) -> None:
    """B53: also when the record says that the version is in place."""
    place.deploy("v1")
    release.verify(place.deploy("v2"))
    (place.root / "current").unlink()
    (place.root / "current").symlink_to("releases/v1")
    assert release.observe(place.context("v2")) == Observation("v1", in_place=False)
    release.verify(place.deploy("v2"))
    assert (place.root / "current").readlink() == Path("releases/v2")


def test_a_service_that_died_is_started_again_by_the_same_version(place: Place) -> None:
    """B53: a running process is part of what is in place."""
    release.verify(place.deploy("v1"))
    os.kill(place.answer()["pid"], signal.SIGKILL)
    deadline = time.monotonic() + 5
    while Service(Root(place.root)).is_alive and time.monotonic() < deadline:
        time.sleep(0.01)
    assert release.observe(place.context("v1")) == Observation("v1", in_place=False)
    release.verify(place.deploy("v1"))
    assert place.answer()["version"] == "v1"


def test_a_changed_environment_restarts_the_service(place: Place) -> None:
    release.verify(place.deploy("v1"))
    pid = place.answer()["pid"]
    variables = {"PORT": str(place.port), "MODE": "other"}
    release.verify(place.deploy("v1", options={"environment": variables}))
    assert place.answer()["pid"] != pid


def test_another_artifact_under_the_same_version_replaces_it(
    place: Place, hello: dict[str, Artifact]
) -> None:
    release.verify(place.deploy("v1"))
    given = place.deploy("v1", artifact=hello["v2"])
    assert (place.root / "releases" / "v1" / "VERSION").read_text() == "v2\n"
    assert release.observe(given).version == "v1"


def test_an_attempt_killed_before_the_start_is_completed_by_the_next(place: Place) -> None:
    release.verify(place.deploy("v1"))
    root = Root(place.root)
    with root.held(place.context("v2")):
        root.put(place.context("v2"))
        root.switch("v2")
    release.verify(place.deploy("v2"))
    assert place.answer()["version"] == "v2"


def test_what_was_left_half_unpacked_is_removed(place: Place) -> None:
    place.deploy("v1")
    left = place.root / "releases" / ".unpacking-abcd"
    left.mkdir()
    (left / "half").write_text("x")
    (place.root / "releases" / ".removing-link").symlink_to("/etc")
    (place.root / ".current-abcd").symlink_to("releases/v1")
    place.deploy("v1")
    assert place.releases == ["v1"]
    assert not (place.root / ".current-abcd").is_symlink()
    assert Path("/etc/hostname").exists()


def test_going_back_unpacks_again_what_was_removed(place: Place) -> None:
    place.deploy("v1")
    place.deploy("v2")
    shutil.rmtree(place.root / "releases" / "v1")
    release.rollback(place.context("v1"))
    assert place.answer()["version"] == "v1"


def test_going_back_without_an_artifact_needs_the_folder(place: Place) -> None:
    place.deploy("v1")
    place.deploy("v2")
    release.rollback(place.context("v1", artifact=None))
    assert place.answer()["version"] == "v1"
    with pytest.raises(PermanentFailure, match="there is no artifact to unpack"):
        release.rollback(place.context("v0", artifact=None))
    assert place.answer()["version"] == "v1"


def test_so_many_releases_are_kept_and_never_fewer_than_are_needed(place: Place) -> None:
    quiet = {"service": None, "health": None, "health_field": None}
    for number in range(1, 7):
        place.deploy(
            f"r{number}",
            artifact=place.hello["v1"],
            from_version=f"r{number - 1}" if number > 1 else None,
            options={**quiet, "keep": 3},
        )
    assert place.releases == ["r4", "r5", "r6"]
    place.deploy("r4", artifact=place.hello["v1"], from_version="r6", options={**quiet, "keep": 3})
    place.deploy("r7", artifact=place.hello["v1"], from_version="r4", options={**quiet, "keep": 3})
    assert place.releases == ["r4", "r6", "r7"]
    given = place.context(
        "r8",
        artifact=place.hello["v1"],
        from_version="r6",
        previous=Previous("r4", {}),
        options={**quiet, "keep": 1},
    )
    release.deploy(given)
    assert place.releases == ["r4", "r6", "r8"]


def test_a_lower_epoch_is_refused_and_changes_nothing(place: Place) -> None:
    release.verify(place.deploy("v2", epoch=50))
    with pytest.raises(PermanentFailure, match="last changed under epoch 50") as raised:
        place.deploy("v1", epoch=49)
    assert raised.value.code == "epoch_outdated"
    assert place.answer()["version"] == "v2"
    place.deploy("v1", epoch=50)


def test_a_root_somebody_else_works_in_is_tried_later(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("manent_plugins.release.root._LOCK_SECONDS", 0.3)
    place.deploy("v1")
    with (place.root / ".manent" / "lock").open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(RetryLater, match="another process is at work"):
            place.deploy("v2")
    place.deploy("v2")


def test_two_deploys_of_one_root_at_once_never_mix(place: Place) -> None:
    contexts = [place.context(version, epoch=1) for version in ("v1", "v2") * 3]
    failures: list[Exception] = []

    def run(given: Context) -> None:
        try:
            release.deploy(given)
        except Exception as error:  # noqa: BLE001 - looked at below
            failures.append(error)

    threads = [threading.Thread(target=run, args=(given,)) for given in contexts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    current = (place.root / "current").readlink().name
    release.verify(place.context(current))
    assert place.answer()["version"] == current


def test_current_always_leads_to_a_whole_release(place: Place) -> None:
    quiet = {"service": None, "health": None, "health_field": None}
    place.deploy("v1", options=quiet)
    stop = threading.Event()
    seen: set[str] = set()
    broken: list[str] = []

    def watch() -> None:
        while not stop.is_set():
            try:
                version = (place.root / "current" / "VERSION").read_text()
            except OSError as error:
                broken.append(errno.errorcode[error.errno or 0])
            else:
                seen.add(version)

    watcher = threading.Thread(target=watch)
    watcher.start()
    for _ in range(10):
        place.deploy("v2", options=quiet)
        place.deploy("v1", options=quiet)
    stop.set()
    watcher.join()
    assert broken == []
    assert seen == {"v1\n", "v2\n"}


def test_a_current_that_is_a_folder_is_not_touched(place: Place) -> None:
    (place.root / "current").mkdir(parents=True)
    with pytest.raises(PermanentFailure, match="is not a link of manent's"):
        place.deploy("v1")
    assert (place.root / "current").is_dir()


def test_a_release_folder_that_is_a_link_is_replaced_not_followed(
    place: Place, tmp_path: Path
) -> None:
    (place.root / "releases").mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    (place.root / "releases" / "v1").symlink_to(outside)
    release.verify(place.deploy("v1"))
    assert list(outside.iterdir()) == []
    assert not (place.root / "releases" / "v1").is_symlink()


def test_a_malicious_artifact_fails_for_good_and_leaves_nothing(
    place: Place, tmp_path: Path
) -> None:
    (tmp_path / "bad").write_bytes(b"no archive at all")
    with pytest.raises(PermanentFailure, match="the artifact of shop v1") as raised:
        place.deploy("v1", artifact=artifact(tmp_path / "bad"))
    assert raised.value.code == "archive_refused"
    assert place.releases == []


def test_a_cancel_stops_unpacking_and_leaves_the_old_release(place: Place) -> None:
    release.verify(place.deploy("v1"))
    place.heard.is_asked_to_stop = True
    with pytest.raises(HookFailure, match="stopped"):
        place.deploy("v2")
    place.heard.is_asked_to_stop = False
    assert place.releases == ["v1"]
    assert place.answer()["version"] == "v1"


def test_a_restart_command_runs_in_the_release_folder_and_its_failure_is_one(
    place: Place, capfd: pytest.CaptureFixture[str]
) -> None:
    show = "import os; print(os.getcwd(), os.environ['MODE'])"
    quiet = {"service": None, "health": None, "health_field": None}
    given = {**quiet, "restart": [PYTHON, "-c", show], "environment": {"MODE": "fast"}}
    place.deploy("v1", options=given)
    assert capfd.readouterr().out == f"{place.root}/releases/v1 fast\n"
    place.deploy("v1", options=given)
    assert capfd.readouterr().out == ""
    failing = {**quiet, "restart": [PYTHON, "-c", "raise SystemExit(3)"], "environment": {}}
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
    quiet = {"health": None, "health_field": None}
    place.deploy("v1", options={**quiet, "service": [PYTHON, "-c", code]})
    pids = place.root / "releases" / "v1" / "pids"
    deadline = time.monotonic() + 5
    while (not pids.exists() or pids.read_text().count("\n") < 2) and time.monotonic() < deadline:
        time.sleep(0.02)
    place.deploy("v2", options={**quiet, "stop_timeout": "200ms"})
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


class Health(BaseHTTPRequestHandler):
    answers: list[tuple[int, dict[str, str], bytes]] = []  # noqa: RUF012 - set by each test

    def do_GET(self) -> None:
        status, headers, body = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def health() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Health)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/healthz?full=1"
    server.shutdown()
    thread.join()
    server.server_close()


def test_health_is_asked_again_until_it_is_well(place: Place, health: str) -> None:
    Health.answers = [
        (503, {}, b""),
        (200, {}, b"not json"),
        (200, {}, b'{"version": "v1"}'),
        (200, {}, b'{"version": "v2"}'),
    ]
    release.verify(place.context("v2", options={"service": None, "health": health}))
    assert len(Health.answers) == 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((302, {"Location": "http://169.254.169.254/"}, b""), "redirects are not followed"),
        ((404, {}, b""), "it answered 404"),
        ((204, {}, b""), "it answered 204"),
        ((200, {}, b'{"version": "v1"}'), "its version is 'v1', not 'v2'"),
        ((200, {}, b"[]"), "its version is None, not 'v2'"),
        ((200, {}, b"x" * 200_000), "its version is None"),
    ],
)
def test_an_unhealthy_answer_is_told_in_words(
    place: Place, health: str, answer: tuple[int, dict[str, str], bytes], words: str
) -> None:
    Health.answers = [answer]
    given = place.context(
        "v2", options={"service": None, "health": health, "health_timeout": "100ms"}
    )
    with pytest.raises(HookFailure) as raised:
        release.verify(given)
    assert words in raised.value.message


def test_nobody_answering_is_unhealthy(place: Place) -> None:
    given = place.context("v2", options={"service": None, "health_timeout": "100ms"})
    with pytest.raises(HookFailure, match="no answer \\(Connection refused\\)"):
        release.verify(given)


def test_a_cancel_ends_the_wait_for_health(place: Place) -> None:
    given = place.context("v2", options={"service": None, "health_interval": "60s"})
    place.heard.is_asked_to_stop = True
    with pytest.raises(HookFailure, match="stopped while waiting"):
        release.verify(given)


@pytest.mark.parametrize(
    ("wrong", "path", "words"),
    [
        ({}, ("root",), "required"),
        ({"root": "srv/shop"}, ("root",), "absolute path"),
        ({"root": "/srv/../etc"}, ("root",), "absolute path"),
        ({"root": "/"}, ("root",), "below /"),
        ({"health": "ftp://host/"}, ("health",), "http:// or https://"),
        ({"health": "http:///x"}, ("health",), "http:// or https://"),
        ({"health": "http://u:p@host/"}, ("health",), "no user"),
        ({"health": "http://host:port/"}, ("health",), "ort"),
        ({"health": "http://host/a b"}, ("health",), "without blanks"),
        ({"keep": 0}, ("keep",), "greater than or equal to 1"),
        ({"keep": True}, ("keep",), "valid integer"),
        ({"keep": "5"}, ("keep",), "valid integer"),
        ({"health_timeout": 30}, ("health_timeout",), "not a duration"),
        ({"health_timeout": "0s"}, ("health_timeout",), "greater than"),
        ({"restart": "systemctl restart shop"}, ("restart",), "write a list"),
        ({"restart": ["a"], "service": ["b"]}, (), "exclude each other"),
        ({"environment": {"PORT": 8080}}, ("environment", "PORT"), "quote it"),
        ({"environment": {"A=B": "x"}}, ("environment",), "not the name"),
        ({"service": ["a", "secret://env/X"]}, ("service", 1), "under environment"),
        ({"kep": 3}, ("kep",), "Extra inputs"),
    ],
)
def test_options_that_would_not_work_are_refused_at_load(
    wrong: dict[str, Any], path: tuple[str | int, ...], words: str
) -> None:
    given = {"root": "/srv/{application}", **wrong} if wrong else {}
    with pytest.raises(ValidationError) as raised:
        ReleaseOptions.model_validate(given)
    found = raised.value.errors()[0]
    assert found["loc"] == path
    assert words in found["msg"]


def test_the_options_of_the_example_configuration_are_accepted() -> None:
    found = ReleaseOptions.model_validate(
        {
            "root": "/srv/{application}",
            "health": "http://{target}:9001/{application}/healthz",
            "restart": ["systemctl", "restart", "billing"],
            "keep": 3,
        }
    )
    assert (found.keep, found.health_timeout) == (3, timedelta(seconds=30))
    assert template_paths(ReleaseOptions) == {"root", "service", "restart", "environment", "health"}
    assert release.options() is ReleaseOptions


def test_an_outdated_owner_does_not_switch(place: Place) -> None:
    class Lost(Heard):
        def is_owner(self) -> bool:
            return False

    release.verify(place.deploy("v1"))
    place.deploy("v2")
    place.deploy("v1")
    given = replace(place.context("v2"), channel=Lost())
    with pytest.raises(HookFailure, match="stopped before the switch"):
        release.deploy(given)
    assert (place.root / "current").readlink() == Path("releases/v1")
