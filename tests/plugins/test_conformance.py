"""The kit for plugin authors: it passes those that keep the rules, and names the rule broken."""

import os
import re
import shutil
import signal
import sys
from pathlib import Path

import pytest

from manent_server.sdk.conformance import NotConforming, Trial, check
from tests.plugins.bench import PROBE, alive, until

PAGE = Path(__file__).parents[2] / "docs/reference/plugin-protocol.md"


@pytest.fixture(autouse=True)
def probe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PROBE))


def sample(language: str, begins: str) -> str:
    """A code block of the reference."""
    blocks = re.findall(
        rf"^```{language}.*?\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE
    )
    [found] = [block for block in blocks if block.startswith(begins)]
    return str(found)


def run(folder: Path, breaks: str = "", plugin: str = "keeper") -> None:
    kept = folder / "version"
    options = {"file": str(kept), "breaks": breaks}
    with Trial(folder / "trial") as trial:
        check(trial, plugin, options=options, state=kept.read_text)


def test_a_plugin_that_keeps_the_rules_passes(tmp_path: Path) -> None:
    run(tmp_path)
    assert (tmp_path / "version").read_text() == "v2"


@pytest.mark.parametrize(
    ("breaks", "rule"),
    [
        ("twice", "deploy ran twice with one idempotency key, and the state changed"),
        ("observe", "observe says that v1 is not in place"),
        ("verify", "verify of v1 failed"),
        ("crash", "somebody else is at it"),
    ],
)
def test_a_rule_that_is_broken_is_named(tmp_path: Path, breaks: str, rule: str) -> None:
    with pytest.raises(NotConforming, match=rule):
        run(tmp_path, breaks)


def test_a_plugin_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    with pytest.raises(NotConforming, match="no such luck"):
        run(tmp_path, plugin="probe-crash")
    with pytest.raises(NotConforming, match="not found"):
        run(tmp_path, plugin="nobody")


def test_a_single_hook_can_be_tried(tmp_path: Path) -> None:
    with Trial(tmp_path) as trial:
        ended = trial.run("probe", "deploy", options={"do": "say"})
        assert (ended.result, ended.is_dead, ended.error) == ("succeeded", True, None)
        assert set(ended.lines) == {"printed", "complained", "said"}
        assert ended.heartbeats[0]["checkpoint"] == {"at": 3}
        assert trial.run("probe", "deploy").outputs["version"] == "v1"


def test_the_plugin_of_the_reference_works(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text(sample("sh", "#!/bin/sh"))
    plugin.chmod(0o755)
    with Trial(tmp_path / "trial", {"mine": [str(plugin)]}) as trial:
        assert trial.plugins["mine"] == ["deploy"]
        ended = trial.run("mine", "deploy")
        assert (ended.result, list(ended.lines)) == ("succeeded", ["this is a line of the log"])


SHELL = """#!/bin/sh
read -r call <&"$MANENT_PROTOCOL_IN"
case $call in
  *describe*) ;;
  *) {service} ;;
esac
echo '{{"type": "description", "hooks": ["deploy"]}}' >&"$MANENT_PROTOCOL_OUT"
echo '{{"type": "result"}}' >&"$MANENT_PROTOCOL_OUT"
"""
NODE = """#!/usr/bin/env node
const fs = require('fs')
const {{spawn}} = require('child_process')
const line = Buffer.alloc(65536)
fs.readSync(3, line)
if (!line.toString().includes('"describe"')) {{
{service}
}}
fs.writeSync(4, '{{"type": "description", "hooks": ["deploy"]}}\\n{{"type": "result"}}\\n')
"""
SERVICES = [(SHELL, "sh", "env -u")] + [(NODE, "js", "const {")] * bool(shutil.which("node"))


@pytest.mark.parametrize(("program", "language", "begins"), SERVICES)
def test_the_services_of_the_reference_outlive_their_hook(
    tmp_path: Path, program: str, language: str, begins: str
) -> None:
    server = tmp_path / "server"
    server.write_text("#!/bin/sh\necho $$ up\nls /proc/self/fd\nenv\necho end\nexec sleep 600\n")
    server.chmod(0o755)
    service = sample(language, begins).replace("./server", str(server))
    plugin = tmp_path / "plugin"
    log = tmp_path / "log"
    plugin.write_text(program.format(service=service.replace("server.log", str(log))))
    plugin.chmod(0o755)
    with Trial(tmp_path / "trial", {"mine": [str(plugin)]}) as trial:
        assert trial.run("mine", "deploy").result == "succeeded"
        said = until(lambda: log.exists() and "end" in log.read_text() and log.read_text())
    pid = int(said.split()[0])
    assert alive([pid])
    os.kill(pid, signal.SIGKILL)
    assert "MANENT_ATTEMPT_ID" not in said
    assert said.splitlines()[1:5] == ["0", "1", "2", "3"]


def test_a_worker_that_cannot_start_says_so(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RuntimeError, match="its stderr says why"):
        Trial(tmp_path / "file")
    assert "FileExistsError" in capfd.readouterr().err


def test_a_plugin_with_nothing_but_deploy_can_keep_the_rules(tmp_path: Path) -> None:
    plugin = tmp_path / "plugin"
    plugin.write_text(
        f"""#!{sys.executable}
import json, os, pathlib
answers = os.fdopen(int(os.environ["MANENT_PROTOCOL_OUT"]), "w")
call = json.loads(os.fdopen(int(os.environ["MANENT_PROTOCOL_IN"])).readline())
answer = {{"type": "description", "hooks": ["deploy"]}}
if call["type"] == "call":
    context = call["context"]
    print("writing", flush=True)
    pathlib.Path(context["options"]["file"]).write_text(context["version"])
    answer = {{"type": "result"}}
answers.write(json.dumps(answer) + "\\n")
"""
    )
    plugin.chmod(0o755)
    kept = tmp_path / "version"
    with Trial(tmp_path / "trial", {"mine": [str(plugin)]}) as trial:
        check(trial, "mine", options={"file": str(kept)}, state=kept.read_text)
