"""The rig itself: what the tests believe in must be true."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.rig.ledger import Ledger
from tests.rig.ports import free_port
from tests.rig.process import until


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path)


def context(**facts: str) -> dict[str, str]:
    usual = {"deploy_id": "d1", "epoch": "1", "environment": "staging", "application": "shop"}
    return {f"MANENT_{name.upper()}": value for name, value in {**usual, **facts}.items()}


def start(ledger: Ledger, hook: str = "deploy", **facts: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ledger.command(hook), env=context(**facts), stdout=subprocess.PIPE, start_new_session=True
    )


def finish(process: subprocess.Popen[bytes]) -> tuple[int, bytes]:
    output, _ = process.communicate(timeout=60)
    return process.returncode, output


def until_started(ledger: Ledger, count: int = 1) -> None:
    until(lambda: len(ledger.runs()) >= count, what=f"{count} runs")


def test_a_run_leaves_its_start_and_its_end(ledger):
    assert finish(start(ledger, version="v1", attempt="2")) == (0, b"")
    (run,) = ledger.runs()
    assert (run.hook, run.version, run.attempt, run.epoch, run.exit) == ("deploy", "v1", 2, 1, 0)
    assert run.started < run.until


def test_a_run_does_what_it_was_told(ledger):
    ledger.tell({"print": "hello", "exit": 3})
    ledger.tell({"exit": 65, "last": "bye"}, hook="deploy", version="v2")
    assert finish(start(ledger, version="v1")) == (3, b"hello\n")
    assert finish(start(ledger, version="v2")) == (65, b"hello\nbye\n")
    ledger.tell()
    assert finish(start(ledger, version="v2")) == (0, b"")


def test_runs_of_two_deploys_in_one_place_that_meet_are_found(ledger, tmp_path):
    ledger.tell({"wait_for": str(tmp_path / "go")})
    both = [start(ledger, deploy_id="d1"), start(ledger, deploy_id="d2")]
    elsewhere = start(ledger, deploy_id="d3", application="billing")
    until_started(ledger, 3)
    (tmp_path / "go").touch()
    assert [finish(process)[0] for process in (*both, elsewhere)] == [0, 0, 0]
    assert [{one.deploy, other.deploy} for one, other in ledger.overlaps()] == [{"d1", "d2"}]
    assert ledger.peak("staging") == 3


def test_targets_of_one_deploy_may_meet(ledger, tmp_path):
    ledger.tell({"wait_for": str(tmp_path / "go")})
    both = [start(ledger, target="web-1"), start(ledger, target="web-2")]
    until_started(ledger, 2)
    (tmp_path / "go").touch()
    assert [finish(process)[0] for process in both] == [0, 0]
    assert not ledger.overlaps()
    assert ledger.peak("staging") == 1


def test_a_killed_run_has_no_end_and_lasts_as_long_as_it_was_seen(ledger):
    ledger.tell({"sleep": 30, "tick": 0.02})
    process = start(ledger)
    until(lambda: any(run.until > run.started for run in ledger.runs()), what="a tick")
    process.kill()
    finish(process)
    (run,) = ledger.runs()
    assert run.ended is None
    assert run.started < run.until < run.started + 25


def test_a_detached_grandchild_is_seen_to_outlive_its_run(ledger):
    ledger.tell({"child": 0.4, "tick": 0.05})
    process = start(ledger)
    process.wait(60)
    (run,) = ledger.runs()
    found = until(ledger.children, what="the grandchild")
    assert found[0].session != run.session
    finish(process)
    assert ledger.children()[0].until > run.until


def test_a_run_can_die_by_a_signal(ledger):
    ledger.tell({"signal": int(signal.SIGKILL)})
    assert finish(start(ledger))[0] == -signal.SIGKILL


def test_a_run_can_wait_for_a_file(ledger, tmp_path):
    ledger.tell({"wait_for": str(tmp_path / "go")})
    process = start(ledger)
    until_started(ledger)
    assert process.poll() is None
    (tmp_path / "go").touch()
    assert finish(process)[0] == 0


def test_a_checkpoint_goes_to_its_own_descriptor(ledger):
    ledger.tell({"checkpoint": {"done": 3}})
    reader, writer = os.pipe()
    process = subprocess.Popen(
        ledger.command("deploy"), env=context(checkpoint_fd=str(writer)), pass_fds=[writer]
    )
    os.close(writer)
    assert process.wait(60) == 0
    assert os.read(reader, 100) == b'checkpoint={"done": 3}\n'
    os.close(reader)


def test_a_hook_starts_fast(ledger):
    finish(start(ledger))
    began = time.monotonic()
    for _ in range(5):
        finish(start(ledger))
    assert (time.monotonic() - began) / 5 < 0.5


def test_ports_given_out_are_free_and_different():
    ports = [free_port() for _ in range(50)]
    assert len(set(ports)) == 50
    for port in ports:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", port))


def test_no_other_process_of_tests_is_given_a_port_of_this_one():
    port = free_port()
    ask = (
        "import itertools\n"
        "from tests.rig import ports\n"
        f"ports._turn = itertools.count({port} - ports.FIRST)\n"
        "print(ports.free_port())"
    )
    other = subprocess.run(
        [sys.executable, "-c", ask],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert int(other.stdout) > port
