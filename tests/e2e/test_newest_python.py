"""The unit tests and one deploy on the newest Python that is supported."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NEWEST = "3.13"
# Postgres: the SQLite that a Python of this version is built with may be too old (see limits).
DEPLOY = "test_a_deploy_runs_from_the_call_to_the_inventory[postgres]"
TESTS = ["tests/unit", f"tests/e2e/test_main_job.py::{DEPLOY}"]

pytestmark = pytest.mark.e2e


def interpreter() -> Path | None:
    """The newest Python of this machine's pyenv, else the one on the path."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))  # noqa: TID251 - pyenv's own
    kept = sorted(root.glob(f"versions/{NEWEST}.*/bin/python"))
    found = shutil.which(f"python{NEWEST}")
    return kept[-1] if kept else Path(found) if found else None


def environment(python: Path) -> Path:
    """An environment of that Python, kept until what it is made of changes."""
    made_of = (ROOT / "pyproject.toml").read_bytes() + str(python).encode()
    folder = ROOT / "build" / f"venv-{NEWEST}-{hashlib.sha256(made_of).hexdigest()[:8]}"
    ready = folder / "ready"
    if not ready.exists():
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True, timeout=100)
        there = ["--python", folder / "bin" / "python", "--disable-pip-version-check", "--quiet"]
        pip = [sys.executable, "-m", "pip", *there]
        install = [*pip, "install", "--no-compile", "--editable", f"{ROOT}[test]"]
        subprocess.run(install, check=True, timeout=300, capture_output=True)
        ready.touch()
    return folder / "bin"


@pytest.mark.timeout(500)
def test_unit_tests_and_one_deploy_pass():
    if sys.version_info[:2] == tuple(map(int, NEWEST.split("."))):
        return
    if (python := interpreter()) is None:
        pytest.skip(f"no Python {NEWEST} here: neither pyenv nor the path has one")
    pytest_there = [environment(python) / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ended = subprocess.run(
        [*pytest_there, *TESTS], cwd=ROOT, capture_output=True, text=True, timeout=200, check=False
    )
    assert ended.returncode == 0, ended.stdout[-6000:] + ended.stderr[-2000:]
