"""The rig's processes: ended whatever happens, found when they are left behind."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.rig.process import Process, files, is_alive, left_behind, sweep, until
from tests.rig.serve import merged


@pytest.fixture
def start(tmp_path):
    started = []

    def run(script: str) -> Process:
        command = [sys.executable, "-S", "-E", "-c", script, str(tmp_path)]
        started.append(Process(command, log=tmp_path / "log", environ={}))
        return started[-1]

    yield run
    for process in started:
        process.end()


def test_a_process_ends_with_its_exit_code_and_its_output(start):
    process = start("print('hello'); raise SystemExit(7)")
    assert (process.wait(), process.output()) == (7, "hello\n")


def test_a_second_start_shows_its_own_output_only(start):
    start("print('first')").wait()
    second = start("print('second')")
    second.wait()
    assert second.output() == "second\n"


def test_a_process_that_ignores_its_stop_is_ended_all_the_same(start, tmp_path):
    process = start(
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "print('ready', flush=True); time.sleep(60)"
    )
    until(process.output, what="ready")
    process.end()
    assert process.exit_code == -signal.SIGKILL


def test_a_stopped_process_is_ended_too(start):
    process = start("import time; time.sleep(60)")
    process.send(signal.SIGSTOP)
    process.end()
    assert not process.is_running()


def test_a_detached_child_is_found_and_swept(start, tmp_path):
    script = "import os, time; os.fork() and os._exit(0); os.setsid(); time.sleep(60)"
    start(script).wait()
    (child,) = until(lambda: list(left_behind(tmp_path)), what="the child")
    assert sweep(tmp_path) == [child]
    until(lambda: not is_alive(child), what="its end")
    assert os.getpid() not in left_behind(tmp_path.parent)


def test_a_process_dies_with_the_tests(tmp_path):
    script = (
        "import pathlib, sys, time; from tests.rig.process import Process;"
        f"p = Process([sys.executable, '-c', 'import time; time.sleep(60)'],"
        f" log=pathlib.Path({str(tmp_path / 'log')!r}), environ={{}});"
        "print(p.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    with parent, parent.stdout as output:
        child = int(output.readline())
        assert is_alive(child)
        # Until then it has not yet asked to die with its parent.
        words = Path(f"/proc/{child}/cmdline")
        until(lambda: words.read_bytes().startswith(sys.executable.encode()), what="its program")
        parent.kill()
    until(lambda: not is_alive(child), what="the child's end")


def test_waiting_ends_with_what_was_waited_for():
    began = time.monotonic()
    with pytest.raises(TimeoutError, match=r"not within 0\.1 s: the sun"):
        until(lambda: False, what="the sun", limit=0.1)
    assert time.monotonic() - began < 10


def test_configuration_merges_maps_and_replaces_the_rest():
    base = {"a": {"b": 1, "c": [1]}, "d": 1}
    assert merged(base, {"a": {"c": [2]}, "d": None}) == {"a": {"b": 1, "c": [2]}}
    assert base == {"a": {"b": 1, "c": [1]}, "d": 1}


def test_files_are_found_while_others_delete_their_folders(tmp_path, monkeypatch):
    """The work of a server goes on while a test looks for a file below it."""
    for name in ("a", "b", "c"):
        (tmp_path / name / "below").mkdir(parents=True)
        (tmp_path / name / "below" / "wanted").touch()
    walk = os.walk

    def deleting(folder):
        for place, folders, found in walk(folder):
            shutil.rmtree(tmp_path / "b", ignore_errors=True)
            yield place, folders, found

    monkeypatch.setattr(os, "walk", deleting)
    found = files(tmp_path, "wanted")
    assert sorted(found) == [tmp_path / name / "below" / "wanted" for name in ("a", "c")]
