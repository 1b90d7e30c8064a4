"""A failing test runs once more in the whole run, and the run says so."""

import os
import subprocess
import sys
from pathlib import Path

from tests import gate
from tests.rig import unsteady

ROOT = Path(__file__).parents[2]
HEAD = """
import pytest

@pytest.fixture(scope="module")
def server():
    made = {"asked": 0}
    yield made
    print("the server ends after", made["asked"])
    made["asked"] = -100
"""
ONCE = """
def test_{name}(server, tmp_path):
    server["asked"] += 1
    assert not list(tmp_path.iterdir())
    (tmp_path / "left").touch()
    assert server["asked"] > {after}, "too early"
"""
NEVER = "def test_never(): assert not 'ever'\n"


ONE, TWO, THREE = (ONCE.format(name=f"n{at}", after=2 * at + 1) for at in range(3))


def run(folder: Path, *texts: str, workers: int = 0) -> tuple[int, list[str]]:
    (folder / "test_sample.py").write_text("".join((HEAD, *texts)))
    plugins = ("tests.rig.rules", "xdist", "pytest_rerunfailures")
    command = [
        sys.executable,
        "-m",
        "pytest",
        *(f"-p{name}" for name in plugins),
        "-c",
        "/dev/null",
    ]
    options = [
        *gate.everything(),
        "-n",
        str(workers),
        "-p",
        "no:cacheprovider",
        "--rootdir",
        folder,
    ]
    ended = subprocess.run(
        [*command, *options, folder],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "CI": ""},  # noqa: TID251 - a child of ours
        cwd=ROOT, capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    return ended.returncode, ended.stdout.splitlines()


def test_a_test_that_fails_once_passes_and_is_shown(tmp_path):
    """A fixture of its module outlives the first failure, its own folder does not."""
    after = "def test_after(server): assert server['asked'] == 4\n"
    code, said = run(tmp_path, ONE, TWO, after, workers=1)
    assert (code, "3 passed, 2 rerun" in said[-1]) == (0, True), said
    begins = next(at for at, line in enumerate(said) if " UNSTEADY " in line)
    shown = "\n".join(said[begins:])
    assert "test_sample.py::test_n0@" in shown
    assert "failed in call" in shown
    assert "AssertionError: too early" in shown


def test_more_than_two_unsteady_tests_fail_the_run(tmp_path):
    code, said = run(tmp_path, ONE, TWO, THREE)
    assert (code, "3 passed, 3 rerun" in said[-1]) == (1, True), said


def test_what_fails_again_or_is_never_unsteady_fails_the_run(tmp_path):
    for place in unsteady.STEADY:
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / f"test_in_{Path(place).name}.py").write_text(NEVER)
    code, said = run(tmp_path, ONE, NEVER)
    assert (code, "3 failed, 1 passed, 2 rerun" in said[-1]) == (1, True), said
    assert any(line.startswith("1 failed once and passed") for line in said), said
