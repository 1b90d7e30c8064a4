import json
import sys
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from manent_server.plugins import lockfile
from manent_server.sdk.conformance import Trial, check
from tests.plugins.runs import Hooks, hooks

PYTHON = str(getattr(sys, "_base_executable", sys.executable))


def python(code: str) -> list[str]:
    return [PYTHON, "-S", "-E", "-c", code]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hooks]:
    with hooks(tmp_path_factory.mktemp("runner")) as started:
        yield started


def wait_for(path: Path) -> str:
    deadline = time.monotonic() + 60
    while not path.exists() or not path.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return path.read_text()


def test_a_program_runs_under_the_guard_with_output_and_checkpoints(run: Hooks) -> None:
    code = (
        "import os, sys; print('out', os.getcwd()); print('err', file=sys.stderr)\n"
        "os.write(int(os.environ['MANENT_CHECKPOINT_FD']), b'checkpoint=half\\n')"
    )
    ran = run.call("command", "deploy", {"deploy": python(code)})
    assert ran.end.result == "succeeded"
    assert ran.end.is_dead
    assert ran.lines("out")[0].startswith("out ")
    assert "/hooks/" in ran.lines("out")[0]
    assert ran.lines("err") == ["err"]
    assert ran.checkpoints == ["half"]


def test_nothing_of_the_server_reaches_the_program(
    run: Hooks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DB_PASSWORD", "hidden-value")
    code = (
        "import os, json; print(json.dumps([sorted(os.environ),"
        "sorted(os.listdir('/proc/self/fd'))]))"
    )
    ran = run.call("command", "deploy", {"deploy": python(code), "environment": {"A": "1"}})
    names, descriptors = json.loads(ran.lines("out")[0])
    assert [name for name in names if not name.startswith("MANENT_")] == [
        "A",
        "HOME",
        "LANG",
        "PATH",
    ]
    assert "MANENT_PROTOCOL_OUT" not in names
    # 0, 1, 2, the attempt's lock, the checkpoint pipe, and the one listing this.
    assert len(descriptors) == 6


def test_a_program_keeps_the_lock_of_its_attempt(run: Hooks, tmp_path: Path) -> None:
    go = tmp_path / "go"
    code = (
        "import os, pathlib, time\n"
        "pathlib.Path(os.environ['PIDFILE']).write_text(str(os.getpid()))\n"
        f"while not pathlib.Path({str(go)!r}).exists(): time.sleep(0.01)"
    )
    call = run.prepare(
        "command",
        "deploy",
        {"deploy": python(code), "environment": {"PIDFILE": str(tmp_path / "pid")}},
    )
    running = threading.Thread(target=run.runner.call, args=(call,))
    running.start()
    pid = int(wait_for(tmp_path / "pid"))
    assert not lockfile.is_free(call.lock_file)
    held = {str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()}
    assert str(call.lock_file.resolve()) in held
    go.touch()
    running.join()
    assert lockfile.is_free(call.lock_file)


@pytest.mark.parametrize(
    ("code", "end"),
    [
        ("raise SystemExit(65)", ("failed", False, None)),
        ("print('retry_after=2m'); raise SystemExit(75)", ("failed", True, timedelta(minutes=2))),
        ("raise SystemExit(1)", ("failed", True, None)),
    ],
)
def test_exit_codes_become_ends(run: Hooks, code: str, end: tuple[object, ...]) -> None:
    ran = run.call("command", "deploy", {"deploy": python(code)})
    assert (ran.end.result, ran.end.retryable, ran.end.retry_after) == end


def test_sigterm_reaches_the_program_and_its_end_is_waited_for(run: Hooks, tmp_path: Path) -> None:
    code = (
        "import os, pathlib, signal, sys, time\n"
        f"mark = pathlib.Path({str(tmp_path)!r})\n"
        "def stop(*_):\n"
        "    time.sleep(0.5); (mark / 'tidied').write_text('yes'); sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, stop)\n"
        "(mark / 'ready').write_text('yes')\n"
        "time.sleep(60)"
    )
    call = run.prepare("command", "deploy", {"deploy": python(code)})
    ends = []
    running = threading.Thread(target=lambda: ends.append(run.runner.call(call)))
    running.start()
    wait_for(tmp_path / "ready")
    run.runner.cancel(call.attempt_id, reason="cancelled", grace=timedelta(seconds=5))
    running.join()
    assert (tmp_path / "tidied").exists()
    assert [(end.result, end.is_dead) for end in ends] == [("cancelled", True)]


def test_the_whole_tree_is_gone_after_a_cancel(run: Hooks, tmp_path: Path) -> None:
    """B63: a grandchild in a session of its own too."""
    code = (
        "import os, pathlib, subprocess, sys, time\n"
        "args = [sys.executable, '-S', '-c', 'import time; time.sleep(600)']\n"
        "a, b = subprocess.Popen(args), subprocess.Popen(args, start_new_session=True)\n"
        "pids = f'{a.pid} {b.pid} {os.getpid()}'\n"
        f"pathlib.Path({str(tmp_path / 'pids')!r}).write_text(pids)\n"
        "time.sleep(600)"
    )
    call = run.prepare("command", "deploy", {"deploy": python(code)})
    running = threading.Thread(target=run.runner.call, args=(call,))
    running.start()
    pids = wait_for(tmp_path / "pids").split()
    run.runner.cancel(call.attempt_id, reason="cancelled", grace=timedelta(seconds=0.2))
    running.join()
    for pid in pids:
        assert not Path(f"/proc/{pid}/exe").exists()


def test_a_relative_program_lies_in_the_servers_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bin").mkdir()
    for name in ("deploy", "bin/deploy"):
        script = tmp_path / name
        script.write_text(f"#!/bin/sh\necho {name}\n")
        script.chmod(0o755)
    with hooks(tmp_path / "runner") as own:
        ran = own.call("command", "deploy", {"deploy": ["./deploy"]})
        assert ran.lines("out") == ["deploy"]
        ran = own.call("command", "deploy", {"deploy": ["./deploy"], "directory": "bin"})
        assert ran.lines("out") == ["bin/deploy"]
        ran = own.call("command", "deploy", {"deploy": ["./absent"]})
    assert ran.end.error is not None
    assert str(tmp_path) in ran.end.error["message"]
    assert not ran.end.retryable


def test_observe_answers_what_its_program_prints(run: Hooks) -> None:
    code = 'print(\'{"version": "v2", "in_place": true}\')'
    ran = run.call("command", "observe", {"deploy": ["true"], "observe": python(code)})
    assert ran.end.outputs == {"version": "v2", "in_place": True}


def test_a_million_lines_do_not_take_much_longer_than_discarding_them(run: Hooks) -> None:
    """B102: the output of a program does not hold the program up."""
    code = "import sys\nfor n in range(200_000): sys.stdout.write('a line of output %d\\n' % n)"
    began = time.monotonic()
    ran = run.call("command", "deploy", {"deploy": python(code)})
    assert ran.end.result == "succeeded"
    assert time.monotonic() - began < 15


def test_command_keeps_the_rules_of_a_target(tmp_path: Path) -> None:
    place = tmp_path / "place"
    write = (
        "import os, pathlib; print('writing', flush=True)\n"
        f"pathlib.Path({str(place)!r}).write_text(os.environ['MANENT_VERSION'])"
    )
    look = (
        "import json, os, pathlib\n"
        f"found = pathlib.Path({str(place)!r}).read_text()\n"
        "there = found == os.environ['MANENT_VERSION']\n"
        "print(json.dumps({'version': found, 'in_place': there}))"
    )
    options = {"deploy": python(write), "verify": ["true"], "observe": python(look)}
    with Trial(tmp_path / "trial") as trial:
        check(trial, "command", options=options, state=place.read_text)
