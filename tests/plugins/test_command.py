import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from manent_plugins import command
from manent_plugins.command.schema import CommandOptions
from manent_server.sdk import (
    Artifact,
    HookFailure,
    Observation,
    PermanentFailure,
    RetryLater,
)
from manent_server.sdk.options import template_paths
from tests.plugins.contexts import Heard, context

PYTHON = str(getattr(sys, "_base_executable", sys.executable))


def python(code: str) -> list[str]:
    return [PYTHON, "-S", "-E", "-c", code]


def options(**values: Any) -> CommandOptions:
    return CommandOptions.model_validate({"deploy": [PYTHON, "-c", ""], **values})


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    return tmp_path / "work"


def test_the_values_arrive_as_variables_and_the_rest_stays_out(
    workdir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = "import os, json; print(json.dumps(dict(os.environ)))"
    artifact = Artifact(Path("/cache/abc"), "abc")
    given = options(deploy=python(code), environment={"MODE": "fast", "REGION": "eu"})
    command.deploy(
        context(
            workdir,
            given,
            artifact=artifact,
            checkpoint="step 3",
            attempt=2,
        )
    )
    seen = json.loads(capfd.readouterr().out)
    assert int(seen.pop("MANENT_CHECKPOINT_FD")) > 2
    wanted = {
        "MANENT_DEPLOY_ID": "d-0123456789",
        "MANENT_KIND": "deploy",
        "MANENT_APPLICATION": "shop",
        "MANENT_ENVIRONMENT": "staging",
        "MANENT_TARGET": "web-1",
        "MANENT_VERSION": "v2",
        "MANENT_PREVIOUS_VERSION": "v1",
        "MANENT_ARTIFACT": "/cache/abc",
        "MANENT_ATTEMPT": "2",
        "MANENT_EPOCH": "7",
        "MANENT_IDEMPOTENCY_KEY": "d-0123456789/deploy:web-1/1",
        "MANENT_CHECKPOINT": "step 3",
        "MANENT_WORKDIR": str(workdir),
    }
    assert {name: seen[name] for name in seen if name.startswith("MANENT_")} == wanted
    assert (seen["MODE"], seen["REGION"]) == ("fast", "eu")


def test_a_variable_without_a_value_is_there_and_empty(
    workdir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = (
        "import os; print([os.environ[n] for n in "
        "('MANENT_PREVIOUS_VERSION', 'MANENT_ARTIFACT', 'MANENT_CHECKPOINT')])"
    )
    command.deploy(context(workdir, options(deploy=python(code)), from_version=None))
    assert capfd.readouterr().out == "['', '', '']\n"


@pytest.mark.parametrize(
    "version",
    ["1;touch pwned", "$(touch pwned)", "`touch pwned`", "-rf", "--upload-pack=x", "a\nb"],
)
def test_a_version_is_handed_over_as_data(
    workdir: Path, capfd: pytest.CaptureFixture[str], version: str
) -> None:
    """B113: nothing in a version is run or becomes an option by itself."""
    code = "import os, sys; print(repr(os.environ['MANENT_VERSION']), sys.argv[1:])"
    command.deploy(context(workdir, options(deploy=[*python(code), version]), version=version))
    assert capfd.readouterr().out == f"{version!r} {[version]!r}\n"
    assert list(workdir.iterdir()) == []


@pytest.mark.parametrize(
    ("ending", "kind", "words"),
    [
        ("sys.exit(65)", PermanentFailure, "exit code 65"),
        ("sys.exit(75)", RetryLater, "exit code 75"),
        ("sys.exit(1)", HookFailure, "exit code 1"),
        ("sys.exit(255)", HookFailure, "exit code 255"),
        ("os.kill(os.getpid(), 9)", HookFailure, "killed by SIGKILL"),
        ("os.kill(os.getpid(), 40)", HookFailure, "killed by signal 40"),
    ],
)
def test_the_exit_code_says_what_happens_next(
    workdir: Path, ending: str, kind: type[HookFailure], words: str
) -> None:
    with pytest.raises(HookFailure) as raised:
        command.deploy(context(workdir, options(deploy=python(f"import os, sys; {ending}"))))
    assert type(raised.value) is kind
    assert words in raised.value.message


@pytest.mark.parametrize(
    ("printed", "after"),
    [
        ("working\nretry_after=30s\n", timedelta(seconds=30)),
        ("retry_after=1h30m", timedelta(hours=1, minutes=30)),
        ("retry_after=1.5s\r\n\n", timedelta(seconds=1.5)),
        ("retry_after=250ms\n", timedelta(milliseconds=250)),
        ("retry_after=30s\nbye\n", None),
        ("retry_after=soon\n", None),
        ("retry_after=30\n", None),
        ("", None),
    ],
)
def test_the_last_line_may_say_when_to_try_again(
    workdir: Path, printed: str, after: timedelta | None
) -> None:
    code = f"import sys; sys.stdout.write({printed!r}); sys.exit(75)"
    with pytest.raises(RetryLater) as raised:
        command.deploy(context(workdir, options(deploy=python(code))))
    assert raised.value.after == after


def test_output_reaches_the_log_byte_for_byte(
    workdir: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """B99: bytes that are no text do not stop the output."""
    code = (
        "import sys, os; os.write(1, b'\\xb2\\xff\\xfe\\n'); os.write(2, b'err\\n');"
        "os.write(1, b'x' * 1_000_000)"
    )
    command.deploy(context(workdir, options(deploy=python(code))))
    seen = capfdbinary.readouterr()
    assert seen.out == b"\xb2\xff\xfe\n" + b"x" * 1_000_000
    assert seen.err == b"err\n"


def test_checkpoints_arrive_while_the_program_runs_and_without_a_last_newline(
    workdir: Path,
) -> None:
    code = (
        "import os, pathlib, time; fd = int(os.environ['MANENT_CHECKPOINT_FD'])\n"
        "os.write(fd, b'checkpoint=one\\nnonsense\\ncheck')\n"
        "os.write(fd, b'point=a=b {\"n\": 2}\\n')\n"
        "while not pathlib.Path('go').exists(): time.sleep(0.01)\n"
        "os.write(fd, b'checkpoint=last')"
    )
    heard = Heard()
    given = context(workdir, options(deploy=python(code)), heard)
    running = threading.Thread(target=command.deploy, args=(given,))
    running.start()
    deadline = time.monotonic() + 60
    while len(heard.checkpoints) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert heard.checkpoints == ["one", 'a=b {"n": 2}']
    (workdir / "go").touch()
    running.join()
    assert heard.checkpoints[2:] == ["last"]
    assert "not understood on MANENT_CHECKPOINT_FD: 'nonsense'" in heard.text


def test_a_checkpoint_that_is_too_large_is_named_and_the_program_goes_on(workdir: Path) -> None:
    code = (
        "import os; fd = int(os.environ['MANENT_CHECKPOINT_FD'])\n"
        "for text in (b'x' * 70_000, b'small'):\n"
        "    with open(fd, 'wb', closefd=False) as f: f.write(b'checkpoint=' + text + b'\\n')"
    )
    heard = Heard()
    command.deploy(context(workdir, options(deploy=python(code)), heard))
    assert heard.checkpoints == ["small"]
    assert "more than 64 KiB" in heard.text


def test_a_child_left_behind_with_the_output_open_is_not_waited_for(
    workdir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = (
        "import subprocess, sys; p = subprocess.Popen([sys.executable, '-S', '-c',"
        "'import time; time.sleep(20)']); print(p.pid)"
    )
    began = time.monotonic()
    command.deploy(context(workdir, options(deploy=python(code))))
    os.kill(int(capfd.readouterr().out), signal.SIGKILL)
    assert time.monotonic() - began < 15  # the child takes twenty


def test_rollback_verify_and_observe_run_what_is_configured(
    workdir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    named = {
        hook: python(f"print({hook!r})") for hook in ("deploy", "rollback", "verify", "observe")
    }
    given = context(workdir, options(**named))
    command.rollback(given)
    command.verify(given)
    assert capfd.readouterr().out == "rollback\nverify\n"
    bare = context(workdir, options(deploy=python("print('deploy')")))
    command.rollback(bare)
    command.verify(bare)
    assert command.observe(bare) is None
    assert capfd.readouterr().out == "deploy\n"


@pytest.mark.parametrize(
    ("printed", "seen"),
    [
        ({"version": "v2", "in_place": True}, Observation("v2", in_place=True)),
        ({"version": None, "in_place": False}, Observation(None, in_place=False)),
        ({"version": "v1", "in_place": None, "more": 1}, Observation("v1", in_place=None)),
        ({}, Observation(None, in_place=None)),
    ],
)
def test_observe_reads_what_its_program_prints(
    workdir: Path,
    capfd: pytest.CaptureFixture[str],
    printed: Mapping[str, Any],
    seen: Observation,
) -> None:
    code = f"print({json.dumps(printed)!r})"
    assert command.observe(context(workdir, options(observe=python(code)))) == seen
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("printed", ["", "v2", "[1]", '{"version": 1}', '{"in_place": "yes"}'])
def test_an_observation_that_cannot_be_read_is_a_failure(workdir: Path, printed: str) -> None:
    with pytest.raises(HookFailure, match="observe"):
        command.observe(context(workdir, options(observe=python(f"print({printed!r})"))))


def test_the_program_runs_in_the_fresh_working_folder_with_no_input(
    workdir: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """B62: what an attempt writes there does not meet the next one."""
    code = "import os, sys; print(os.getcwd(), repr(sys.stdin.read()))"
    command.deploy(context(workdir, options(deploy=python(code))))
    assert capfd.readouterr().out == f"{workdir} ''\n"


def test_a_relative_program_lies_in_the_configured_folder(
    workdir: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "scripts" / "bin" / "deploy"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\npwd\n")
    script.chmod(0o755)
    given = options(deploy=["./bin/deploy"], directory=str(tmp_path / "scripts"))
    command.deploy(context(workdir, given))
    assert capfd.readouterr().out == f"{workdir}\n"


def test_a_relative_program_lies_in_the_artifact_when_that_is_a_folder(
    workdir: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "unpacked" / "deploy"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\necho from the artifact\n")
    script.chmod(0o755)
    artifact = Artifact(script.parent, "abc")
    given = options(deploy=["./deploy"], directory="/elsewhere")
    command.deploy(context(workdir, given, artifact=artifact))
    assert capfd.readouterr().out == "from the artifact\n"


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("./absent", ["./absent cannot be run", "not found", "the folder {folder}", "{workdir}"]),
        ("no-such-program", ["no-such-program cannot be run", "not found", "PATH"]),
        ("./plain", ["./plain cannot be run", "not executable"]),
        ("./empty", ["./empty cannot be run", "neither a binary nor a script"]),
        ("./orphan", ["./orphan cannot be run", "interpreter"]),
    ],
)
def test_a_program_that_cannot_be_run_fails_for_good_with_its_name_and_place(
    workdir: Path, tmp_path: Path, written: str, words: list[str]
) -> None:
    (tmp_path / "plain").write_text("#!/bin/sh\n")
    for name, content in (("empty", "just text\n"), ("orphan", "#!/no/such/shell\n")):
        (tmp_path / name).write_text(content)
        (tmp_path / name).chmod(0o755)
    before = set(Path("/proc/self/fd").iterdir())
    with pytest.raises(PermanentFailure) as raised:
        command.deploy(context(workdir, options(deploy=[written], directory=str(tmp_path))))
    for word in words:
        assert word.format(folder=tmp_path, workdir=workdir) in raised.value.message
    assert set(Path("/proc/self/fd").iterdir()) == before


def test_a_variable_of_manent_cannot_be_replaced(
    workdir: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MANENT_VERSION", "stale")
    monkeypatch.setenv("MANENT_PROTOCOL_OUT", "4")
    code = "import os; print(os.environ['MANENT_VERSION'], 'MANENT_PROTOCOL_OUT' in os.environ)"
    command.deploy(context(workdir, options(deploy=python(code))))
    assert capfd.readouterr().out == "v2 False\n"


@pytest.mark.parametrize(
    ("wrong", "path", "words"),
    [
        ({"deploy": "./deploy --fast"}, ("deploy",), "no shell: write a list"),
        ({"deploy": []}, ("deploy",), "names no program"),
        ({"deploy": [""]}, ("deploy",), "names no program"),
        ({"deploy": ["a", 1.1]}, ("deploy", 1), "1.1 is not a text; quote it"),
        ({"deploy": ["a", True]}, ("deploy", 1), "quote it"),
        ({"deploy": ["a", "b\0c"]}, ("deploy", 1), "NUL"),
        ({"deploy": ["a", "secret://env/X"]}, ("deploy", 1), "under environment"),
        ({"deploy": ["a"], "environment": {"A": 1}}, ("environment", "A"), "quote it"),
        ({"deploy": ["a"], "environment": {"A-B": "1"}}, ("environment",), "'A-B' is not the name"),
        ({"deploy": ["a"], "environment": {"MANENT_X": "1"}}, ("environment",), "set by manent"),
        ({"deploy": ["a"], "effects": "twice"}, ("effects",), "once"),
        ({"deploy": ["a"], "verfy": ["b"]}, ("verfy",), "Extra inputs"),
        ({}, ("deploy",), "required"),
    ],
)
def test_options_that_would_not_work_are_refused_at_load(
    wrong: dict[str, Any], path: tuple[str | int, ...], words: str
) -> None:
    with pytest.raises(ValidationError) as raised:
        CommandOptions.model_validate(wrong)
    found = raised.value.errors()[0]
    assert found["loc"] == path
    assert words in found["msg"]


def test_templates_are_filled_in_every_option_that_is_text() -> None:
    assert template_paths(CommandOptions) == {
        "deploy",
        "rollback",
        "verify",
        "observe",
        "environment",
        "directory",
    }


def test_effects_are_what_the_target_says() -> None:
    assert command.options() is CommandOptions
    assert command.effects(None) == "idempotent"
    assert command.effects(options()) == "idempotent"
    assert command.effects(options(effects="once")) == "once"


def test_nothing_of_a_run_stays_open(workdir: Path) -> None:
    before = set(Path("/proc/self/fd").iterdir())
    for _ in range(5):
        command.deploy(context(workdir, options()))
    assert set(Path("/proc/self/fd").iterdir()) == before
