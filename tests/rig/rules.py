"""Rules of a run, as a pytest plugin.

`--gate` is for the gate: there a skipped (or expected to fail) test is a failure unless its
reason is one of `ALLOWED`, and the unit tests have a budget. A run that repeats failing tests says
which were unsteady. In any run some tests keep to one
pytest-xdist worker: those that measure time, and those of one module that share a fixture of it,
which each worker would make anew. And of the two databases a test of a whole server runs on, one
is for `make soak`. So is the exact number of seconds in which something is promised (`--exact`).
"""

import re
import time
import zlib
from collections.abc import Generator
from pathlib import Path
from typing import Protocol

import pytest

from tests.rig.unsteady import Unsteady

# Reasons a test may be skipped for in the gate: what cannot be had on every machine. Each is a
# regular expression for the whole reason.
ALLOWED: tuple[str, ...] = (r"no Python 3\.13 here: .*", r"no kube-apiserver here: .*")
# Processor seconds, not those on the wall: a busy machine must not fail a run. Beside servers that
# share the caches and threads of a core the same work takes up to three times as many of them:
# the budget of `make unit` is the one that is meant.
UNIT_BUDGET = 10.0
BESIDE_OTHERS = 3.0
_COST = "processor seconds"

_UNIT = Path(__file__).parents[1] / "unit"
_WHOLE = Path(__file__).parents[1] / "e2e"
_DATABASES = ("postgres", "sqlite")
_began = pytest.StashKey[float]()

_Report = pytest.TestReport | pytest.CollectReport


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the gate's option."""
    parser.addoption("--gate", action="store_true", help="skips fail; unit tests have a budget")
    parser.addoption("--exact", action="store_true", help="no slack for what is promised in time")


def pytest_configure(config: pytest.Config) -> None:
    """Watch the unit tests' time, and tests that run again, where the whole run is seen."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Unsteady(), "manent-unsteady")
        config.pluginmanager.register(UnitClock(), "manent-unit-clock")


class AtMost(Protocol):
    """How many seconds something may take."""

    def __call__(self, promised: float, *, beside: float) -> float:
        """As promised on a quiet machine; `beside` other tests it may take longer."""


@pytest.fixture
def at_most(pytestconfig: pytest.Config) -> AtMost:
    """For tests marked `promise`: `at_most(3, beside=15)`."""
    is_exact = bool(pytestconfig.getoption("--exact"))

    def seconds(promised: float, *, beside: float) -> float:
        return promised if is_exact else beside

    return seconds


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests that belong on one worker a group, and leave half of the pairs to the soak.

    First: pytest-xdist reads the groups in the same hook, and what comes after it is not seen.
    """
    for item in items:
        if isinstance(item, pytest.Function) and _is_second(item):
            item.add_marker(pytest.mark.soak)
        if item.get_closest_marker("xdist_group"):
            continue
        if item.get_closest_marker("timed"):
            item.add_marker(pytest.mark.xdist_group("timed"))
        elif isinstance(item, pytest.Function) and (fixtures := _of_module(item)):
            item.add_marker(pytest.mark.xdist_group(f"{item.path.stem}-{fixtures}"))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Look at the report of each test, and note what its unit test has cost."""
    report = yield
    _refuse_skip(report, item.config)
    if item.path.is_relative_to(_UNIT) and report.when == "teardown":
        report.user_properties.append((_COST, str(time.process_time() - item.stash[_began])))
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Read the processor's clock."""
    item.stash[_began] = time.process_time()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Look at the report of each module, which may skip itself."""
    report = yield
    _refuse_skip(report, collector.config)
    return report


class UnitClock:
    """Adds up what the unit tests take and fails a gate run that is over the budget."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._budget = UNIT_BUDGET

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add what one test has cost."""
        if not report.nodeid.startswith("tests/unit/"):
            self._budget = UNIT_BUDGET * BESIDE_OTHERS
        found = dict(report.user_properties)
        self._seconds += float(str(found.get(_COST, 0)))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the run, whatever its tests say."""
        if self._is_over(session.config) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter, config: pytest.Config
    ) -> None:
        """Say so."""
        if config.getoption("--gate") and self._seconds:
            terminalreporter.line(f"unit tests: {self._seconds:.1f} s of {self._budget:.0f} s")
        if self._is_over(config):
            terminalreporter.section("Unit tests are too slow", red=True)
            terminalreporter.line("processor time; --durations=20 shows where it goes")

    def _is_over(self, config: pytest.Config) -> bool:
        return bool(config.getoption("--gate")) and self._seconds > self._budget


def _is_second(item: pytest.Function) -> bool:
    """Whether a test of a whole server runs on its other database in every run.

    What differs between the two is proven below, by tests of the core, all of which run on both.
    Which one a module has is drawn by its name: its tests may rest on what those before them
    left. One that chooses (see `tests/rig/matrix.py`) has what it chose.
    """
    if not item.path.is_relative_to(_WHOLE) or item.get_closest_marker("each_database"):
        return False
    chosen = {name for mark in item.iter_markers("parametrize") for name in _named(mark)}
    params = item.callspec.params if hasattr(item, "callspec") else {}
    mine = params.get("database_url", params.get("shared"))
    if mine not in _DATABASES or chosen & {"database_url", "shared"}:
        return False
    return mine != _DATABASES[zlib.crc32(item.path.stem.encode()) % len(_DATABASES)]


def _named(mark: pytest.Mark) -> list[str]:
    """The arguments that a mark gives values to."""
    names = mark.args[0]
    return [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)


def _of_module(item: pytest.Function) -> str:
    """The fixtures of module scope that a test uses, each with its parameter."""
    found = item._fixtureinfo.name2fixturedefs
    names = sorted(name for name, made in found.items() if made and made[-1].scope == "module")
    params = item.callspec.params if hasattr(item, "callspec") else {}
    return "-".join(f"{name}-{params[name]}" if name in params else name for name in names)


def is_allowed(reason: str) -> bool:
    """Whether a test may be skipped for this reason in the gate."""
    return any(re.fullmatch(pattern, reason) for pattern in ALLOWED)


def _refuse_skip(report: _Report, config: pytest.Config) -> None:
    if not report.skipped or not config.getoption("--gate"):
        return
    reason = _reason(report)
    if not is_allowed(reason):
        report.outcome = "failed"
        report.longrepr = f"skipped for a reason that is not allowed: {reason}"
        vars(report).pop("wasxfail", None)


def _reason(report: _Report) -> str:
    if hasattr(report, "wasxfail"):
        return f"expected to fail: {report.wasxfail}"
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")
