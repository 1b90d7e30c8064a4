"""The one way to check the project: `python -m tests.gate [check|unit|soak]`.

Without an argument everything runs: the static checks stand as tests in `tests/shape`, so
pytest's summary is the last word and the whole truth. With the variable CI set, a skipped test
fails (see `tests/rig/rules.py`).
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from tests import audit
from tests.rig import tools, unsteady

ROOT = Path(__file__).parents[1]
BIN = Path(sys.executable).parent

CHECKS: dict[str, list[str]] = {
    "ruff": ["ruff", "check", "--quiet"],
    "format": ["ruff", "format", "--check", "--quiet"],
    "mypy": ["mypy", "--no-error-summary"],
    "contracts": ["lint-imports", "--no-logo"],
}
_PYTEST = [sys.executable, "-m", "pytest"]
_UNIT = ["tests/unit", "-q", "--gate", "-n", "2"]
_OF_THE_CHART = {
    "the chart": lambda: tools.helm("v37"),
    "the chart against the schemas of Kubernetes": tools.schemas,
    "the chart in a real API server": tools.apiserver,
}
_LONG = ["-m", "soak or hypothesis or promise", "--exact"]
_SOAK = [*_LONG, "--hypothesis-profile", "soak", "--timeout", "0"]


def check(name: str) -> tuple[int, str]:
    """Run one static check; its exit code and what it says."""
    program, *arguments = CHECKS[name]
    ended = subprocess.run(
        [BIN / program, *arguments],
        cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, check=False,
    )  # fmt: skip
    return ended.returncode, ended.stdout


def check_all() -> int:
    """Run all static checks, each to its end."""
    failed = 0
    for name in CHECKS:
        began = time.monotonic()
        code, said = check(name)
        failed += code != 0
        _say(f"{'ok  ' if code == 0 else 'FAIL'} {name} ({time.monotonic() - began:.1f} s)")
        if code != 0:
            _say(said)
    return int(failed > 0)


def run_tests(arguments: Sequence[str]) -> int:
    """Run pytest in the project's folder."""
    return subprocess.run([*_PYTEST, *arguments], cwd=ROOT, check=False).returncode


def everything() -> list[str]:
    """How pytest is called for the whole run."""
    # Most of a test's time is spent waiting for other processes: two more than processors.
    workers = min(8, (os.cpu_count() or 2) + 2)
    is_ci = bool(os.environ.get("CI"))  # noqa: TID251 - the convention of CI systems
    rules = [*unsteady.OPTIONS, *(["--gate"] if is_ci else [])]
    return ["-n", str(workers), "--dist", "loadgroup", "-q", *rules]


def main(arguments: Sequence[str]) -> int:
    """Do what was asked for."""
    match list(arguments):
        case ["check"]:
            return check_all()
        case ["unit"]:
            return run_tests(_UNIT)
        case ["soak"]:
            return run_tests(_SOAK)
        case []:
            _mention_missing()
            return _audited(lambda: run_tests(everything()))
        case other:
            _say(f"unknown: {' '.join(other)}; one of check, unit, soak or nothing")
            return 2


def _audited(run: Callable[[], int]) -> int:
    """Ask for weaknesses of the dependencies meanwhile: the answer may take long, or not come."""
    asked = audit.begin()
    code = run()
    verdict = audit.end(asked)
    _say(verdict.words)
    return code or int(verdict.is_bad)


def _mention_missing() -> None:
    if shutil.which("node") is None:
        _say("NOTE: no node here: the plugin in JavaScript is not tested (install nodejs)")
    for what, find in _OF_THE_CHART.items():
        try:
            find()
        except tools.Missing as missing:
            _say(f"NOTE: {what} is not tested: {missing}")


def _say(text: str) -> None:
    sys.stdout.write(text.rstrip() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
