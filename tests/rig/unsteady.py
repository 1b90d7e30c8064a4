"""What a run says of tests that failed once and passed when they ran again, as a pytest plugin.

A test of real processes may fail on a busy machine for a reason that is not the code's. It runs
once more, and the run shows it all the same; a run with more than `MAX_UNSTEADY` of them fails:
then it is not the machine.
"""

import pytest

MAX_UNSTEADY = 2
# A check of the text of files, and a function of values, say the same each time.
STEADY = ("tests/shape", "tests/unit")
OPTIONS = ("--reruns=1", *(f"--rerun-exclude-path={place}" for place in STEADY))
"""How pytest is called for it."""


class Unsteady:
    """Notes the first failure of every test that runs again."""

    def __init__(self) -> None:
        self._first: dict[str, str] = {}
        self._failed: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Look at each report; the outcome is `rerun` where another one of the test follows."""
        if vars(report)["outcome"] == "rerun":
            self._first.setdefault(report.nodeid, f"in {report.when}\n{report.longreprtext}")
        elif report.failed:
            self._failed.add(report.nodeid)

    @property
    def found(self) -> dict[str, str]:
        """Name and first failure of each test that passed in the end."""
        return {name: said for name, said in self._first.items() if name not in self._failed}

    @property
    def are_too_many(self) -> bool:
        """Whether they fail the run."""
        return len(self.found) > MAX_UNSTEADY

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Fail the run, though each of its tests has passed."""
        if self.are_too_many and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show them."""
        if not self.found:
            return
        terminalreporter.section("UNSTEADY", yellow=True, bold=True)
        for name, said in self.found.items():
            terminalreporter.line(f"{name} failed {said}\n", yellow=True)
        terminalreporter.line(
            f"{len(self.found)} failed once and passed when run again; "
            f"more than {MAX_UNSTEADY} fail the run",
            red=self.are_too_many,
        )
