"""The rules of a run: a skip without an allowed reason is a failure in the gate."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.rig import rules

ROOT = Path(__file__).parents[2]
SAMPLE = """
import pytest

@pytest.mark.skip(reason="{reason}")
def test_skipped(): ...

@pytest.mark.xfail(reason="known", strict=True)
def test_expected_to_fail():
    assert False

def test_passes(): ...
"""


def run(folder: Path, text: str, *options: str) -> tuple[int, str]:
    (folder / "test_sample.py").write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "tests.rig.rules", "-c", "/dev/null"]
    ended = subprocess.run(
        [*command, "--rootdir", folder, "-p", "no:cacheprovider", *options, folder],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},  # noqa: TID251 - a child of ours
        cwd=ROOT, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    return ended.returncode, ended.stdout.splitlines()[-1]


def test_a_skip_without_an_allowed_reason_fails_the_gate(tmp_path):
    code, summary = run(tmp_path, SAMPLE.format(reason="no time"), "--gate")
    assert (code, "1 failed, 1 passed, 1 error" in summary) == (1, True)


def test_a_skip_is_only_shown_without_the_option(tmp_path):
    code, summary = run(tmp_path, SAMPLE.format(reason="no time"))
    assert (code, "1 passed, 1 skipped, 1 xfailed" in summary) == (0, True)


def test_a_module_that_skips_itself_fails_the_gate(tmp_path):
    module = "import pytest\npytest.skip('later', allow_module_level=True)"
    code, summary = run(tmp_path, module, "--gate")
    assert (code != 0, "1 error" in summary) == (True, True)


def test_an_allowed_reason_passes_the_gate(tmp_path):
    module = "import pytest\ndef test(): pytest.skip('no Python 3.13 here: pyenv has none')"
    assert run(tmp_path, module, "--gate")[0] == 0


@pytest.mark.parametrize("reason", ["", "no Python 3.13 here", "x no Python 3.13 here: y"])
def test_a_reason_is_allowed_as_a_whole_only(reason):
    assert not rules.is_allowed(reason)
