import os
import signal
import subprocess
import sys
from pathlib import Path

from manent_server.plugins import lockfile, processes
from manent_server.plugins.processes import Mark, Process


def test_descendants_are_found_through_every_generation() -> None:
    parents = {2: 1, 3: 2, 4: 3, 5: 1, 6: 99}
    table = {pid: Process(pid, "S", parent, pid, pid) for pid, parent in parents.items()}
    assert processes.descendants(table, 2) == {3, 4}
    assert processes.descendants(table, 7) == set()


def test_a_process_is_known_by_its_attempt_or_its_lock_file(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = lockfile.take(str(path))
    wait = [sys.executable, "-c", "input()"]
    children = [
        subprocess.Popen(wait, stdin=subprocess.PIPE, env={"MANENT_ATTEMPT_ID": "a1"}),
        subprocess.Popen(wait, stdin=subprocess.PIPE, env={}, pass_fds=[lock]),
        subprocess.Popen(wait, stdin=subprocess.PIPE, env={"MANENT_ATTEMPT_ID": "a11"}),
    ]
    try:
        mark = Mark(session=-1, attempt="a1", lock_file=str(path))
        assert set(processes.marked(mark)) == {child.pid for child in children[:2]}
        assert processes.marked(mark, but=[children[0].pid]) == [children[1].pid]
    finally:
        os.close(lock)
        for child in children:
            child.communicate(b"\n")


def test_a_zombie_is_dead() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""], start_new_session=True)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert child.pid not in processes.snapshot()
    assert processes.group(child.pid) == []
    child.wait()


def test_who_is_gone_already_is_killed_without_complaint() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    processes.kill([child.pid], signal.SIGKILL)
    assert processes.group(child.pid) == []
