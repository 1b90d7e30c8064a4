"""`make demo` as a newcomer runs it: what it shows, what it writes, and that nothing stays."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.rig.process import Process, left_behind, until
from tests.rig.serve import path_environment

DEMO = Path(__file__).parents[2] / "examples" / "demo.py"
LIMIT = 120

pytestmark = pytest.mark.e2e


@dataclass(frozen=True)
class Played:
    """One demo that ran to its end."""

    folder: Path
    exit_code: int
    said: str
    seconds: float

    @property
    def json(self):
        return json.loads((self.folder / "demo.json").read_text())

    @property
    def broken(self):
        """The deploy of v3."""
        return self.json["deploys"][-1]


def environ(folder):
    """Its temporary folder is ours to look into; MANENT_URL is a trap it must not fall into."""
    own = {"TMPDIR": str(folder), "DEMO_JSON": "demo.json", "MANENT_URL": "http://127.0.0.1:1"}
    return {**path_environment(folder), **own}


def play(demo, folder):
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, demo], cwd=folder, env=environ(folder), text=True, check=False,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT,
    )  # fmt: skip
    return Played(folder, ended.returncode, ended.stdout, time.monotonic() - began)


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """The demo is the same for every test that reads what it did."""
    return play(DEMO, tmp_path_factory.mktemp("demo"))


# Not the limit of a single test alone: the fixture plays the whole demo.
@pytest.mark.timeout(LIMIT + 60)
def test_it_ends_well_within_two_minutes(played):
    assert played.exit_code == 0, played.said
    assert played.seconds < LIMIT


def test_two_versions_arrive_and_the_broken_one_is_rolled_back(played):
    ends = [(one["environment"], one["version"], one["outcome"]) for one in played.json["deploys"]]
    assert ends == [
        ("staging", "v1", "deployed"),
        ("production", "v1", "deployed"),
        ("staging", "v2", "deployed"),
        ("production", "v2", "deployed"),
        ("production", "v3", "rolled_back"),
    ]
    assert played.broken["error"]["step"] == "verify:web-1"


def test_every_target_is_visited_by_the_good_versions(played):
    visited = [
        sorted({attempt["target"] for attempt in played.json["attempts"][deploy["id"]]})
        for deploy in played.json["deploys"]
    ]
    all_three = ["web-1", "web-2", "web-3"]
    assert visited == [["web-1"], all_three, ["web-1"], all_three, ["web-1"]]


def test_the_touched_target_is_taken_back(played):
    attempts = played.json["attempts"][played.broken["id"]]
    hooks = [(attempt["hook"], attempt["result"]) for attempt in attempts]
    assert hooks[0] == ("deploy", "succeeded")
    assert hooks[1:-1] == [("verify", "failed")] * 2
    assert hooks[-1] == ("rollback", "succeeded")


def test_the_services_answer_with_the_good_version(played):
    assert list(played.json["answers"].values()) == ["v2"] * 4


def test_it_is_shown_live_and_summed_up(played):
    for shown in (
        "$ manent deploy hello production v3",
        "SUCCESS deployed",
        "ERROR rolled_back",
        "web-2   nothing",
        "$ manent inventory",
        "All is as it should be",
        *played.json["answers"],
    ):
        assert shown in played.said


def test_nothing_of_it_is_left(played):
    assert list(left_behind(played.folder)) == []
    assert [path.name for path in played.folder.iterdir()] == ["demo.json"]
    for url in played.json["answers"]:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", urlsplit(url).port), timeout=5)


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.soak)]
)
def test_an_interrupted_demo_stops_what_it_has_started(tmp_path, number):
    demo = Process([sys.executable, DEMO], log=tmp_path / "said.log", environ=environ(tmp_path))
    try:
        # One service runs by then, and the next deploy is under way.
        until(lambda: "hello production v1\n" in demo.output(), what="second deploy", limit=90)
        os.killpg(demo.pid, number)
        assert demo.wait(limit=60) == 130, demo.output()
    finally:
        demo.end()
    assert "Interrupted" in demo.output()
    assert list(left_behind(tmp_path)) == []
    assert [path.name for path in tmp_path.iterdir()] == ["said.log"]


# What is a fault is tested in tests/unit/test_demo_verdict.py.
@pytest.mark.soak
@pytest.mark.timeout(LIMIT + 60)
def test_a_demo_that_goes_otherwise_says_so_and_fails(tmp_path):
    """Here v3 is not broken."""
    examples, folder = tmp_path / "examples", tmp_path / "demo"
    shutil.copytree(DEMO.parent, examples)
    (examples / "hello" / "greetings" / "v3.txt").write_text("Hello from the third version\n")
    folder.mkdir()
    played = play(examples / "demo.py", folder)
    assert played.exit_code == 1
    assert "v3 to production ended deployed with exit code 0, not rolled_back" in played.said
    assert "production/web-3 says it is v3, not v2" in played.said
    assert "The server's last words" in played.said
    assert list(left_behind(folder)) == []
