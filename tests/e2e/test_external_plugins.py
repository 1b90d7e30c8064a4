"""External plugins at the door: two that work, and those that harm only their own attempt."""

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.rig.ledger import Ledger
from tests.rig.process import left_behind, until
from tests.rig.serve import Config, Rig

pytestmark = pytest.mark.e2e

EXAMPLES = Path(__file__).parents[2] / "examples" / "plugins"
NODE = shutil.which("node") or "node"
PYTHON = str(getattr(sys, "_base_executable", sys.executable))

PREAMBLE = """\
import json, os, signal, sys, time
calls = os.fdopen(int(os.environ["MANENT_PROTOCOL_IN"]), "rb")
answers = os.fdopen(int(os.environ["MANENT_PROTOCOL_OUT"]), "wb", buffering=0)
message = json.loads(calls.readline())
if message["type"] == "describe":
    answers.write(b'{"type": "description", "hooks": ["deploy"]}\\n')
    sys.exit()
context = message["context"]
"""
WELL = """answers.write(b'{"type": "result"}\\n')\n"""
# What each does wrong while version 1 is deployed, and the code of the error it must end with.
MISBEHAVING = {
    "nonsense": ("answers.write(b'what? {not json}\\n')", "protocol_broken"),
    "list": ("answers.write(b'[1, 2]\\n')", "protocol_broken"),
    "endless": ("answers.write(b'x' * 4_000_000)", "protocol_broken"),
    "mute": ("sys.exit(0)", "no_result"),
    "signal": ("os.kill(os.getpid(), signal.SIGSEGV)", "no_result"),
    "hangs": ("signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)", "timed_out"),
    "forks": (
        "[os.setsid() or time.sleep(60) for _ in range(5) if os.fork() == 0]; sys.exit(1)",
        "no_result",
    ),
    "large": (
        "answers.write(json.dumps({'type': 'result', 'outputs': {'a': 'x' * 70000}}).encode()"
        " + b'\\n')",
        "protocol_broken",
    ),
}
HARMLESS = {
    "floods": "for _ in range(2000): os.write(1, b'f' * 10000 + b'\\n')",
    "beats": 'for n in range(20000): answers.write(b\'{"type": "heartbeat"}\\n\')',
    "unknown": 'answers.write(b\'{"type": "weather", "sun": true}\\n\')',
    "twice": WELL.strip() + "; " + WELL.strip(),
}


def config(ledger: Ledger) -> Config:
    folder = ledger.folder
    commands: dict[str, list[str]] = {
        "page": [NODE, str(EXAMPLES / "page.mjs")],
        "announce": [PYTHON, str(EXAMPLES / "announce.py")],
    }
    told = {**{name: wrong for name, (wrong, _) in MISBEHAVING.items()}, **HARMLESS}
    for name, wrong in told.items():
        script = folder / f"plugin_{name}.py"
        script.write_text(f"{PREAMBLE}if context['version'] == '1':\n    {wrong}\n{WELL}")
        commands[name] = [PYTHON, str(script)]
    return {
        "plugins": {"external": {name: {"command": words} for name, words in commands.items()}},
        "logs": {"deploy_limit": "1MiB", "tail": "128KiB"},
        "environments": {"staging": {"concurrency": 20}},
        "applications": {
            "page": application("page", path=str(folder / "page.html"), text="{version} is up"),
            "news": application("announce", file=str(folder / "news.txt")),
            # Eight of them start at once; one takes all the time it has.
            **{name: application(name) for name in told},
            "hangs": {**application("hangs"), "timeout": "3s"},
            "cancelled": application("hangs"),
        },
    }


def application(plugin: str, **options: str) -> dict[str, Any]:
    return {
        "plugin": plugin,
        "options": options,
        "timeout": "40s",
        "retry": {"attempts": 1},
        "environments": {"staging": {"targets": {"host": {}}}},
    }


@pytest.mark.skipif(shutil.which("node") is None, reason="no node here")
def test_a_plugin_in_javascript_deploys_and_goes_back(shared: Rig) -> None:
    page = shared.folder / "page.html"
    assert shared.deployed("1.0", application="page")["outcome"] == "deployed"
    assert "1.0 is up" in page.read_text()
    second = shared.deployed("2.0", application="page")
    assert second["outcome"] == "deployed"
    lines = [line["text"] for line in shared.get(f"/deploys/{second['id']}/logs")["items"]]
    assert any(line.startswith("published 2.0, from 1.0") for line in lines)
    body = {"application": "page", "environment": "staging", "reason": "back"}
    back = shared.ended(shared.http("POST", "/rollbacks", json=body).json()["id"])
    assert (back["outcome"], back["version"]) == ("deployed", "1.0")
    assert "1.0 is up" in page.read_text()


def test_a_plugin_in_python_announces_once(shared: Rig) -> None:
    ended = shared.deployed("1.0", application="news")
    assert ended["outcome"] == "deployed"
    (line,) = (shared.folder / "news.txt").read_text().splitlines()
    assert line.startswith("news 1.0 is out")
    steps = shared.get(f"/deploys/{ended['id']}/steps")["items"]
    (step,) = [step for step in steps if step["step"] == "deploy:host"]
    assert step["outputs"] == {"announced": "news 1.0 is out"}


def test_a_plugin_that_misbehaves_harms_its_own_attempt_alone(shared: Rig) -> None:
    """Nonsense, silence, a signal, hanging, forking: each ends as failed; others go on."""
    shared.ledger.tell({"sleep": 1})
    deploys = {name: shared.deploy("1", application=name)["id"] for name in MISBEHAVING}
    beside = shared.deploy("1")["id"]
    for name, deploy in deploys.items():
        ended = shared.ended(deploy, limit=60)
        assert ended["state"] == "ERROR", name
        assert ended["error"]["code"] == MISBEHAVING[name][1], (name, ended["error"])
        assert ended["error"]["message"], name
    assert shared.ended(beside)["outcome"] == "deployed"
    assert is_gone(shared, "plugin_hangs.py", "plugin_forks.py")
    for name in ("nonsense", "signal", "hangs"):
        assert shared.deployed("2", application=name)["outcome"] == "deployed"


def is_gone(rig: Rig, *scripts: str) -> bool:
    """No process of these plugins is left."""

    def none() -> bool:
        lines = []
        for pid in left_behind(rig.folder):
            try:
                lines.append(Path(f"/proc/{pid}/cmdline").read_text())
            except OSError:
                continue
        return not any(script in line for line in lines for script in scripts)

    return until(none, what="the plugins' processes to end")


@pytest.mark.parametrize("name", list(HARMLESS))
def test_a_plugin_that_says_too_much_still_deploys(shared: Rig, name: str) -> None:
    ended = shared.deployed("1", application=name)
    assert ended["outcome"] == "deployed", ended["error"]
    first = shared.get(f"/deploys/{ended['id']}/attempts")["items"]
    assert [attempt["result"] for attempt in first] == ["succeeded"]


def test_a_cancelled_plugin_is_ended_with_what_it_started(shared: Rig) -> None:
    """B69, B63: one that ignores SIGTERM is killed; its place is free only then."""
    deploy = shared.deploy("1", application="cancelled")["id"]
    until(lambda: not is_gone_now(shared, "plugin_hangs.py"), what="the plugin to run")
    shared.http("POST", f"/deploys/{deploy}/cancel", json={})
    ended = shared.ended(deploy)
    assert ended["state"] == "CANCELLED"
    assert is_gone(shared, "plugin_hangs.py")


def is_gone_now(rig: Rig, script: str) -> bool:
    for pid in left_behind(rig.folder):
        try:
            if script in Path(f"/proc/{pid}/cmdline").read_text():
                return False
        except OSError:
            continue
    return True
