"""Executables in any language under the same guards: what is wrong harms their attempt alone."""

import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.plugins.bench import Bench

PYTHON = f"""#!{sys.executable}
import json, os, sys, time
answers = os.fdopen(int(os.environ["MANENT_PROTOCOL_OUT"]), "w")
calls = os.fdopen(int(os.environ["MANENT_PROTOCOL_IN"]))
def say(**message):
    answers.write(json.dumps(message) + "\\n")
    answers.flush()
call = json.loads(calls.readline())
"""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    bench = Bench(tmp_path_factory.mktemp("bench"))
    yield bench
    bench.runner.close()


class Script:
    """Runs a script as an external plugin."""

    def __init__(self, bench: Bench, folder: Path) -> None:
        self._bench = bench
        self._path = folder / "plugin"

    def start(self, text: str, **more: object):  # type: ignore[no-untyped-def]
        self._path.write_text(text)
        self._path.chmod(0o755)
        return self._bench.start(
            external=(str(self._path),), attempt=self._path.parent.name, **more
        )

    def run(self, text: str, **more: object):  # type: ignore[no-untyped-def]
        return self.start(text, **more).end()


@pytest.fixture
def script(bench: Bench, tmp_path: Path) -> Script:
    return Script(bench, tmp_path)


def test_an_external_plugin_speaks_the_same_protocol(script: Script) -> None:
    running = script.start(
        PYTHON
        + """
print("printed")
say(type="log", level="warning", text="said")
say(type="heartbeat", checkpoint={"n": 1})
say(type="result", outputs={"hook": call["hook"], "version": call["context"]["version"]})
"""
    )
    end = running.end()
    assert end.result == "succeeded"
    assert end.outputs == {"hook": "deploy", "version": "v1"}
    assert sorted(running.lines) == ["printed", "said"]
    assert running.heartbeats[0].checkpoint == {"n": 1}


def test_a_shell_script_is_enough(script: Script) -> None:
    end = script.run(
        """#!/bin/sh
read -r call <&"$MANENT_PROTOCOL_IN"
echo '{"type": "result"}' >&"$MANENT_PROTOCOL_OUT"
"""
    )
    assert (end.result, end.outputs, end.is_dead) == ("succeeded", None, True)


def test_an_error_says_whether_and_when_to_try_again(script: Script) -> None:
    end = script.run(
        PYTHON
        + 'say(type="error", code="busy", message="too \\0 busy", retryable=True, retry_after=4.5)'
    )
    assert end.error == {"code": "busy", "message": "too \ufffd busy"}
    assert (end.retryable, end.retry_after) == (True, timedelta(seconds=4.5))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("answers.write('nonsense\\n')", "not JSON"),
        ("answers.write('[1]\\n')", "not an object with a type"),
        ("answers.write('[' * 100000 + '\\n')", "not JSON"),
        ('answers.write(\'{"type": "result", "outputs": {"x": NaN}}\\n\')', "NaN is not JSON"),
        ("answers.buffer.write(b'\\xff\\xfe\\n')", "not JSON"),
        ("answers.write('x' * 2000000)", "a line of more than"),
        ('say(type="result", outputs=[1])', "must be an object, not a list"),
        ('say(type="result", outputs={"x": "x" * 70000})', "65536 are allowed"),
    ],
)
def test_an_answer_that_is_nonsense_fails_the_attempt(script: Script, text: str, why: str) -> None:
    end = script.run(f"{PYTHON}{text}\nanswers.flush()\ntime.sleep(600)\n")
    assert end.result == "failed"
    assert end.error is not None
    assert end.error["code"] == "protocol_broken"
    assert why in end.error["message"]
    assert end.is_dead


def test_what_observe_and_plan_answer_is_checked(script: Script) -> None:
    text = PYTHON + 'say(type="result", outputs={"version": "v2", "in_place": True, "more": 1})'
    assert script.run(text, hook="observe").outputs == {"version": "v2", "in_place": True}
    wrong = PYTHON + 'say(type="result", outputs={"version": 2})'
    end = script.run(wrong, hook="observe")
    assert end.error is not None
    assert "version of observe must be text" in end.error["message"]
    wrong = PYTHON + 'say(type="result", outputs={"changes": [1]})'
    end = script.run(wrong, hook="plan")
    assert end.error is not None
    assert "must be a list of texts" in end.error["message"]


def test_messages_nobody_knows_are_read_past(script: Script) -> None:
    text = PYTHON + 'say(type="weather", text="fine"); say(type="result", outputs={"a": 1})'
    assert script.run(text).outputs == {"a": 1}


def test_a_plugin_that_ends_without_an_answer_failed(script: Script) -> None:
    end = script.run("#!/bin/sh\nexit 3\n")
    assert end.error is not None
    assert end.error["code"] == "no_result"
    assert "with exit code 3" in end.error["message"]


def test_a_plugin_that_dies_by_a_signal_failed(script: Script) -> None:
    end = script.run("#!/bin/sh\nkill -SEGV $$\n")
    assert end.error is not None
    assert "by signal 11 (SIGSEGV)" in end.error["message"]


def test_a_plugin_that_hangs_meets_its_timeout(script: Script) -> None:
    text = "#!/bin/sh\ntrap '' TERM\necho up\nwhile :; do sleep 1; done\n"
    begun = time.monotonic()
    end = script.run(text, timeout=timedelta(seconds=1), kill_grace=timedelta(seconds=0.5))
    assert end.result == "timed_out"
    assert time.monotonic() - begun < 15


def test_a_plugin_that_floods_its_protocol_still_answers(script: Script) -> None:
    running = script.start(
        PYTHON
        + """
for number in range(200000):
    answers.write('{"type": "log", "text": "line %d"}\\n' % number)
say(type="result", outputs={"done": True})
""",
        timeout=timedelta(seconds=60),
    )
    assert running.end(60).outputs == {"done": True}
    gaps = [int(line.split()[0][1:]) for line in running.lines if line.startswith("[")]
    assert sum(gaps) + sum(line.startswith("line") for line in running.lines) == 200000


def test_a_plugin_that_cannot_be_started_failed_for_good(bench: Bench, tmp_path: Path) -> None:
    end = bench.run(external=(str(tmp_path / "none"),), attempt="none")
    assert end.result == "failed"
    assert end.error is not None
    assert end.error["code"] == "plugin_not_startable"
    assert not end.retryable


def test_a_plugin_hears_the_lease_and_the_cancel(script: Script, bench: Bench) -> None:
    running = script.start(
        PYTHON
        + """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
print(json.loads(calls.readline())["type"], flush=True)
print(json.loads(calls.readline()), flush=True)
"""
    )
    running.says("ready")
    bench.runner.extend(running.id, None)
    running.says("lease")
    bench.runner.cancel(running.id, reason="cancelled", grace=timedelta(seconds=5))
    assert running.end().result == "cancelled"
    assert "{'type': 'cancel', 'reason': 'cancelled'}" in running.lines


def test_a_wrong_call_of_the_worker_harms_no_other(bench: Bench) -> None:
    """Arguments no exec takes end one attempt; the next is served."""
    end = bench.run(external=("sh", "-c", "exit 0\0"), attempt="nul")
    assert end.result == "failed"
    end = bench.run(external=("true",), attempt="after")
    assert end.error is not None
    assert end.error["code"] == "no_result"
