"""Whatever dies, nothing of an attempt acts on: real workers, zygotes, guards and hooks."""

import os
import signal
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from manent_server.plugins import lockfile, processes, protocol
from manent_server.plugins.leash import Leash
from tests.plugins.bench import PROBE, Bench, Running, Worker, alive, pids_in, until

GRACE = timedelta(seconds=10)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PROBE))
        bench = Bench(tmp_path_factory.mktemp("bench"))
        yield bench
        bench.runner.close()


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    worker = Worker(tmp_path)
    yield worker
    worker.close()


def tree(bench: Bench, pids: Path, **options: object) -> tuple[Running, list[int]]:
    """A running hook with a child, a grandchild, and two that left its session."""
    running = bench.start("tree", pids=str(pids), **options)
    running.says("ready")
    return running, pids_in(pids)


def guard_of(pids: list[int]) -> int:
    """The leader of the session that most of a tree is in."""
    living = processes.snapshot()
    sessions = [living[pid].session for pid in pids]
    return max(sessions, key=sessions.count)


def test_a_killed_worker_takes_every_tree_with_it(worker: Worker, tmp_path: Path) -> None:
    """B145: kill -9 of the worker alone; a setsid grandchild is dead within a second."""
    worker.start("a", "tree", pids=str(tmp_path / "pids"))
    worker.says("ready")
    pids = pids_in(tmp_path / "pids")
    assert len(alive(pids)) == 5
    worker.signal(signal.SIGKILL)
    until(lambda: not alive(pids), seconds=1)
    until(lambda: lockfile.is_free(tmp_path / "locks" / "a"), seconds=1)
    until(lambda: not alive([worker.zygote]), seconds=2)


def test_a_killed_worker_takes_a_hook_that_ignores_term_with_it(
    worker: Worker, tmp_path: Path
) -> None:
    worker.start("a", "tree", pids=str(tmp_path / "pids"), stubborn=True)
    worker.says("deaf")
    worker.signal(signal.SIGKILL)
    until(lambda: not alive(pids_in(tmp_path / "pids")), seconds=1)


def test_the_lock_file_stays_taken_while_a_grandchild_lives(worker: Worker, tmp_path: Path) -> None:
    """Without guard and zygote nobody kills; the file alone tells that the attempt lives."""
    worker.start("a", "tree", pids=str(tmp_path / "pids"))
    worker.says("ready")
    pids = pids_in(tmp_path / "pids")
    os.kill(worker.zygote, signal.SIGSTOP)
    os.kill(guard_of(pids), signal.SIGKILL)
    left = until(lambda: 0 < len(alive(pids)) < 5 and alive(pids))
    try:
        assert not lockfile.is_free(tmp_path / "locks" / "a")
    finally:
        processes.kill(left)
        os.kill(worker.zygote, signal.SIGCONT)
    until(lambda: lockfile.is_free(tmp_path / "locks" / "a"))


def test_the_lease_ends_the_tree_of_a_stopped_worker(worker: Worker, tmp_path: Path) -> None:
    lease_until = protocol.boottime() + 2.5
    worker.start("a", "tree", lease_until=lease_until, pids=str(tmp_path / "pids"))
    worker.says("ready")
    pids = pids_in(tmp_path / "pids")
    worker.signal(signal.SIGSTOP)
    try:
        while alive(pids):
            assert protocol.boottime() < lease_until + 0.5
            time.sleep(0.005)
        assert protocol.boottime() >= lease_until
    finally:
        worker.signal(signal.SIGCONT)
    end = worker.hears(lambda message: message["type"] == "end")
    assert (end["result"], end["error"]["code"]) == ("interrupted", "lease_ended")
    assert end["is_dead"]


def test_a_guard_that_dies_alone_leaves_the_attempt_open_but_nothing_alive(
    bench: Bench, tmp_path: Path
) -> None:
    running, pids = tree(bench, tmp_path / "pids")
    os.kill(guard_of(pids), signal.SIGKILL)
    end = running.end()
    assert (end.result, end.is_dead) == ("interrupted", False)
    assert end.error is not None
    assert end.error["code"] == "guard_lost"
    until(lambda: not alive(pids), seconds=1)
    assert running.id not in bench.runner.running()


def test_a_zygote_that_dies_costs_no_running_hook_and_comes_again(bench: Bench) -> None:
    running = bench.start("polite")
    running.says("ready")
    before = bench.runner.zygote
    assert before is not None
    os.kill(before, signal.SIGKILL)
    until(lambda: bench.runner.zygote != before)
    assert [bench.run().result for _ in range(4)] == ["succeeded"] * 4
    bench.runner.cancel(running.id, reason="cancelled", grace=GRACE)
    assert running.end().result == "cancelled"


def test_a_worker_killed_after_its_zygote_still_takes_the_tree_with_it(
    worker: Worker, tmp_path: Path
) -> None:
    worker.start("a", "tree", pids=str(tmp_path / "pids"))
    worker.says("ready")
    os.kill(worker.zygote, signal.SIGKILL)
    worker.signal(signal.SIGKILL)
    until(lambda: not alive(pids_in(tmp_path / "pids")), seconds=1)


def test_waiting_guards_that_died_cost_nothing(bench: Bench) -> None:
    """A call whose guard was gone before it could begin is made to another guard."""

    def waiting() -> list[int]:
        found = processes.snapshot().values()
        return [p.pid for p in found if p.parent == bench.runner.zygote and p.pid == p.session]

    for pid in until(waiting):
        os.kill(pid, signal.SIGKILL)
    assert bench.run().result == "succeeded"


def test_the_zygote_keeps_no_descriptor_of_a_call(bench: Bench) -> None:
    folder = Path(f"/proc/{bench.runner.zygote}/fd")
    # 0, 1, 2, the worker's socket, and two pipes it talks to itself and is told marks with.
    own = 3 + 1 + 4
    hooks = [bench.start("polite") for _ in range(5)]
    for hook in hooks:
        hook.says("ready")
    until(lambda: _count(folder) == own)
    for hook in hooks:
        bench.runner.kill(hook.id)
    assert {hook.end().result for hook in hooks} == {"interrupted"}
    until(lambda: _count(folder) == own)


def test_cancel_ends_the_whole_tree(bench: Bench, tmp_path: Path) -> None:
    """B63: child, grandchild and setsid child are gone after TERM, grace and KILL."""
    running, pids = tree(bench, tmp_path / "pids")
    bench.runner.cancel(running.id, reason="cancelled", grace=timedelta(seconds=1))
    end = running.end()
    assert (end.result, end.is_dead) == ("cancelled", True)
    assert not alive(pids)


def test_a_hook_that_ignores_term_is_killed_when_its_grace_is_over(
    bench: Bench, tmp_path: Path
) -> None:
    """B60, B69: until then it is alive, and nobody is told otherwise."""
    running, pids = tree(bench, tmp_path / "pids", stubborn=True)
    running.says("deaf")
    begun = time.monotonic()
    bench.runner.cancel(running.id, reason="cancelled", grace=timedelta(seconds=1))
    end = running.end()
    assert 0.9 < time.monotonic() - begun < 15
    assert (end.result, end.is_dead) == ("cancelled", True)
    assert not alive(pids)


def test_a_hook_that_is_asked_to_end_may_end_in_peace(bench: Bench) -> None:
    """B69: the hook is told at once."""
    running = bench.start("polite")
    running.says("ready")
    begun = time.monotonic()
    bench.runner.cancel(running.id, reason="interrupted", grace=GRACE)
    end = running.end()
    assert time.monotonic() - begun < 15
    assert end.result == "interrupted"
    assert "ending" in running.lines


def test_a_timeout_is_kept_by_the_guard(bench: Bench, tmp_path: Path) -> None:
    begun = time.monotonic()
    running = bench.start(
        "tree",
        pids=str(tmp_path / "pids"),
        stubborn=True,
        timeout=timedelta(seconds=1.5),
        kill_grace=timedelta(seconds=0.5),
    )
    end = running.end()
    assert end.result == "timed_out"
    assert 1.9 < time.monotonic() - begun < 15
    assert not alive(pids_in(tmp_path / "pids"))


def test_kill_is_at_once(bench: Bench, tmp_path: Path) -> None:
    running, pids = tree(bench, tmp_path / "pids", stubborn=True)
    begun = time.monotonic()
    bench.runner.kill(running.id)
    assert running.end().result == "interrupted"
    assert time.monotonic() - begun < 15
    assert not alive(pids)


def test_a_call_whose_lease_is_over_does_not_begin(bench: Bench) -> None:
    end = bench.run(lease_until=protocol.boottime() - 1)
    assert (end.result, end.is_dead) == ("not_started", True)
    assert end.error is not None
    assert end.error["code"] == "lease_ended"


def test_a_lease_that_is_moved_lets_the_hook_live(bench: Bench) -> None:
    running = bench.start("ask", lease_until=protocol.boottime() + 1.5)
    running.says("ready")
    bench.runner.extend(running.id, protocol.boottime() + 60)
    end = running.end()
    assert end.outputs == {"answers": [True], "moved": True}


def test_a_lease_that_has_ended_is_moved_no_more(bench: Bench, tmp_path: Path) -> None:
    """A guard that was stopped over its lease's end kills first: others may act by then."""
    lease_until = protocol.boottime() + 3
    running, pids = tree(bench, tmp_path / "pids", lease_until=lease_until)
    guard = guard_of(pids)
    os.kill(guard, signal.SIGSTOP)
    until(lambda: protocol.boottime() > lease_until, seconds=10)
    bench.runner.extend(running.id, protocol.boottime() + 60)
    os.kill(guard, signal.SIGCONT)
    end = running.end(30)
    assert end.result == "interrupted"
    assert end.error is not None
    assert end.error["code"] == "lease_ended"
    assert not alive(pids)


def test_a_lease_may_lose_its_end(bench: Bench) -> None:
    running = bench.start("polite", lease_until=protocol.boottime() + 2)
    running.says("ready")
    bench.runner.extend(running.id, None)
    time.sleep(2.2)  # the thing under test: the first lease would have ended
    assert running.id in bench.runner.running()
    bench.runner.kill(running.id)
    running.end()


def test_a_service_outlives_the_hook_that_started_it(bench: Bench, tmp_path: Path) -> None:
    running = bench.start("service", folder=str(tmp_path))
    end = running.end()
    assert end.outputs is not None, end
    pid = end.outputs["pid"]
    try:
        seen = tmp_path / "seen"
        until(lambda: seen.exists() and "total" in seen.read_text())
        assert alive([pid])
        assert lockfile.is_free(bench.lock_file(running.id))
        assert "MANENT" not in seen.read_text()
        assert "locks" not in seen.read_text()
        assert until((tmp_path / "service.log").read_text) == "up\n"
    finally:
        processes.kill([pid])


def test_a_service_outlives_a_hook_that_fails_after_all(bench: Bench, tmp_path: Path) -> None:
    end = bench.run("service", folder=str(tmp_path), then="fail")
    assert end.result == "failed"
    assert end.is_dead
    left = _running_in(tmp_path)
    assert left
    processes.kill(left)


def test_a_service_of_a_hook_that_is_cancelled_goes_with_it(bench: Bench, tmp_path: Path) -> None:
    running = bench.start("service", folder=str(tmp_path), then="sleep")
    running.says("ready")
    assert until(lambda: _running_in(tmp_path))
    bench.runner.kill(running.id)
    assert running.end().is_dead
    assert not _running_in(tmp_path)


def test_after_a_result_what_is_left_of_the_group_is_killed(bench: Bench, tmp_path: Path) -> None:
    running, pids = tree(bench, tmp_path / "pids", returns=True)
    end = running.end()
    assert (end.result, end.is_dead) == ("succeeded", True)
    left = alive(pids)
    # The two that took sessions of their own live on, as a service would.
    assert len(left) == 2
    processes.kill(left)


def test_after_an_error_what_carries_the_mark_of_the_attempt_is_killed(
    bench: Bench, tmp_path: Path
) -> None:
    running, pids = tree(bench, tmp_path / "pids", fails=True)
    end = running.end()
    assert (end.result, end.is_dead) == ("failed", True)
    assert not alive(pids)


def test_what_was_told_before_its_guard_was_gone_is_told_the_next(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancel that comes while the call is on its way to another guard is not lost."""
    (reader, to_guard), (from_guard, writer) = os.pipe(), os.pipe()
    nursery, gone = bench.runner._nursery, [Leash(to_guard, from_guard)]
    take = nursery.take
    monkeypatch.setattr(nursery, "take", lambda: gone.pop() if gone else take())
    running = bench.start("polite", timeout=timedelta(seconds=5))
    until(lambda: running.id in bench.runner.running())
    bench.runner.cancel(running.id, reason="cancelled", grace=GRACE)
    os.close(reader)
    os.close(writer)
    assert running.end().result == "cancelled"


def _count(folder: Path) -> int:
    return len(list(folder.iterdir()))


def _running_in(folder: Path) -> list[int]:
    found = []
    for pid in processes.snapshot():
        try:
            if Path(f"/proc/{pid}/cwd").readlink() == folder:
                found.append(pid)
        except OSError:
            continue
    return found
