"""What a runner promises to the worker: results, log, places, limits."""

import json
import os
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from manent_server.plugins import lockfile
from manent_server.plugins.events import Heartbeat, LogLine
from manent_server.plugins.nursery import NoGuard
from tests.plugins.bench import PROBE, Bench, until


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(PROBE))
        bench = Bench(tmp_path_factory.mktemp("bench"), line_limit=1000)
        yield bench
        bench.runner.close()


def test_a_hook_answers_with_outputs(bench: Bench) -> None:
    end = bench.run("nothing")
    assert end.result == "succeeded"
    assert end.outputs is not None
    assert end.outputs["version"] == "v1"
    assert end.is_dead


def test_what_a_hook_says_reaches_the_worker_in_its_stream(bench: Bench) -> None:
    running = bench.start("say")
    assert running.end().outputs is None
    lines = {
        (event.stream, event.level, event.text)
        for event in running.events
        if isinstance(event, LogLine)
    }
    assert lines == {
        ("out", "info", "printed"),
        ("err", "info", "complained"),
        ("log", "warning", "said"),
    }
    assert running.heartbeats == [Heartbeat({"at": 3}, {"done": 1})]


def test_a_hook_sees_only_what_it_is_given(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    end = bench.run("surroundings", attempt="seen")
    assert end.outputs is not None, end
    assert end.outputs["environment"].keys() == {
        "PATH",
        "HOME",
        "LANG",
        "MANENT_PROTOCOL_IN",
        "MANENT_PROTOCOL_OUT",
        "MANENT_ATTEMPT_ID",
    }
    assert end.outputs["environment"]["MANENT_ATTEMPT_ID"] == "seen"
    # Beside the six there is the one that lists them; a program inherits 0, 1, 2 and the lock.
    assert end.outputs["descriptors"] == [0, 1, 2, 3, 4, 5, 6]
    assert end.outputs["child"] == [0, 1, 2, 3, 5]
    assert end.outputs["stdin"] == ""
    assert end.outputs["folder"] == str(bench.folder / "seen")
    assert end.outputs["group"] == end.outputs["pid"]
    assert end.outputs["session"] == end.outputs["parent"]


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("permanent", ("never", False, None)),
        ("later", ("retry_later", True, timedelta(seconds=7))),
        ("other", ("hook_failed", True, None)),
        ("exit", ("hook_failed", True, None)),
        ("signal", ("no_result", True, None)),
        ("vanish", ("no_result", True, None)),
    ],
)
def test_a_failure_says_whether_and_when_to_try_again(
    bench: Bench, how: str, expected: tuple[str, bool, timedelta | None]
) -> None:
    end = bench.run("fail", how=how)
    assert end.result == "failed"
    assert end.error is not None
    assert (end.error["code"], end.retryable, end.retry_after) == expected
    assert end.is_dead


def test_an_unexpected_exception_leaves_its_trace_in_the_log(bench: Bench) -> None:
    running = bench.start("fail", how="other")
    end = running.end()
    assert end.error is not None
    assert end.error["message"] == "ValueError: wrong value"
    assert any("in do_fail" in line for line in running.lines)


def test_a_hook_that_died_by_a_signal_is_told_by_its_name(bench: Bench) -> None:
    end = bench.run("fail", how="signal")
    assert end.error is not None
    assert "by signal 11 (SIGSEGV)" in end.error["message"]


@pytest.mark.parametrize("kind", ["list", "large", "set", "nan"])
def test_outputs_that_are_none_fail_for_good(bench: Bench, kind: str) -> None:
    end = bench.run("return", kind=kind)
    assert end.result == "failed"
    assert end.error is not None
    assert end.error["code"] == "outputs_invalid"
    assert not end.retryable


def test_outputs_have_nothing_no_database_stores(bench: Bench) -> None:
    end = bench.run("return", kind="nul")
    assert end.outputs == {"value": "a\ufffdb\ufffd"}


def test_verify_may_say_no(bench: Bench) -> None:
    assert bench.run(hook="verify", healthy=True).result == "succeeded"
    assert bench.run(hook="verify", healthy=None).result == "succeeded"
    end = bench.run(hook="verify", healthy=False)
    assert end.error is not None
    assert end.error["code"] == "unhealthy"


def test_a_plugin_without_rollback_gets_deploy(bench: Bench) -> None:
    end = bench.run(hook="rollback")
    assert end.outputs is not None
    assert end.outputs["version"] == "v1"


@pytest.mark.parametrize(
    "settings", [{"plugin": "nobody"}, {"plugin": "probe-crash"}, {"hook": "observe"}]
)
def test_a_plugin_or_hook_that_is_not_here_was_not_started(
    bench: Bench, settings: dict[str, str]
) -> None:
    end = bench.run(**settings)
    assert end.result == "not_started"
    assert end.error is not None
    assert end.error["code"] == "plugin_missing"
    assert end.is_dead


def test_each_attempt_has_a_work_directory_of_its_own(bench: Bench) -> None:
    """B62: what one attempt left does not stand in the way of the next."""
    first, second = bench.run("surroundings"), bench.run("surroundings")
    assert first.outputs is not None
    assert second.outputs is not None
    assert first.outputs["folder"] != second.outputs["folder"]


def test_bytes_that_are_no_text_cost_no_line(bench: Bench) -> None:
    """B99: bad bytes are shown replaced, every later line is there."""
    running = bench.start("bytes")
    assert running.end().result == "succeeded"
    assert running.lines[:2] == ["\ufffd\ufffd\ufffd", "é\ufffdü"]
    assert running.lines[2:] == [f"line {number} {'x' * 50}" for number in range(20000)]


def test_a_line_is_cut_at_its_limit_and_says_so(bench: Bench) -> None:
    running = bench.start("long")
    assert running.end().result == "succeeded"
    assert running.lines == ["ä" * 500 + " [1047576 more bytes of this line were cut]"]


def test_a_million_lines_go_through_at_once(bench: Bench) -> None:
    """B102: a flood is taken in seconds, in order, and every gap is named."""
    seen: list[int] = []
    begun = time.monotonic()
    running = bench.start("flood", lines=1_000_000)
    assert running.end(60).result == "succeeded"
    assert time.monotonic() - begun < 45  # some 3 s on an idle machine
    seen = [int(line) for line in running.lines if line.isdigit()]
    gaps = [int(line.split()[0][1:]) for line in running.lines if line.startswith("[")]
    assert seen == sorted(seen)
    assert len(seen) + sum(gaps) == 1_000_000
    assert running.lines[-1] == "last"


def test_a_worker_that_does_not_listen_loses_lines_but_not_the_result(bench: Bench) -> None:
    """B102: what cannot be taken is dropped, counted, and named where it is missing."""
    heard: list[str] = []

    def hear(event: object) -> None:
        if isinstance(event, LogLine):
            if not heard:
                time.sleep(4)  # the thing under test: a reader that is too slow
            heard.append(event.text)

    running = bench.start("flood", lines=4_000_000, on_event=hear)
    end = running.end(60)
    assert end.result == "succeeded", end
    gaps = [int(line.split()[0][1:]) for line in heard if line.startswith("[")]
    assert gaps
    assert sum(gaps) + sum(line.isdigit() for line in heard) == 4_000_000
    assert heard[-1] == "last"


def test_no_more_hooks_run_than_there_are_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(PROBE))
    bench = Bench(tmp_path, processes=2)
    try:
        hooks = [bench.start("polite") for _ in range(3)]
        until(lambda: sum("ready" in hook.lines for hook in hooks) == 2)
        assert len(bench.runner.running()) == 2
        first = next(hook for hook in hooks if hook.lines)
        bench.runner.kill(first.id)
        first.end()
        until(lambda: sum("ready" in hook.lines for hook in hooks) == 3)
    finally:
        bench.runner.close()
    assert {hook.end().result for hook in hooks} == {"interrupted"}


def test_a_call_can_be_large(bench: Bench) -> None:
    end = bench.run("nothing", context={"configuration": {"blob": "x" * 3_000_000}})
    assert end.result == "succeeded"


def test_the_lock_file_is_free_when_the_hook_is_over(bench: Bench) -> None:
    running = bench.start("polite", attempt="locked")
    running.says("ready")
    assert not lockfile.is_free(bench.lock_file("locked"))
    bench.runner.kill("locked")
    running.end()
    assert lockfile.is_free(bench.lock_file("locked"))
    assert lockfile.is_free(bench.lock_file("never made"))


def test_an_attempt_whose_processes_live_is_not_started_again(bench: Bench) -> None:
    held = lockfile.take(str(bench.lock_file("held")))
    end = bench.run(attempt="held")
    os.close(held)
    assert end.result == "not_started"
    assert end.error is not None
    assert end.error["code"] == "still_alive"
    assert bench.run(attempt="held").result == "succeeded"


def test_json_is_what_crosses(bench: Bench) -> None:
    end = bench.run("nothing")
    assert json.loads(json.dumps(end.outputs)) == end.outputs


def test_a_zygote_that_cannot_start_says_so(tmp_path: Path) -> None:
    with pytest.raises(NoGuard, match="the zygote"):
        Bench(tmp_path, python="/bin/false")


def test_a_closed_runner_starts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PROBE))
    bench = Bench(tmp_path)
    bench.runner.close()
    end = bench.run()
    assert (end.result, end.is_dead) == ("not_started", True)
    bench.runner.close()
