"""How fast a waiting command asks, and what it takes for time."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from manent_cli.errors import Failure, Problem, Unreachable

T = TypeVar("T")
# A server that fails this often in a row, and answers nothing else, will not mend by waiting.
_FAILURES_IN_A_ROW = 6
_INTERNAL_ERROR = 500


@dataclass(eq=False, repr=False)  # each method it makes costs start time
class Pace:
    """The times a waiting command goes by, in seconds."""

    first: float = 0.25
    factor: float = 1.5
    longest: float = 2.0
    lively: float = 1.0
    heartbeat: float = 30.0
    settle: float = 3.0
    post: float = 20.0
    monotonic: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep

    def after(self, delay: float) -> float:
        """The delay that follows this one."""
        return min(delay * self.factor, self.longest)


class Deadline:
    """When waiting ends; without a limit, never."""

    def __init__(self, pace: Pace, limit: float | None) -> None:
        self._pace = pace
        self._at = None if limit is None else pace.monotonic() + limit

    @property
    def is_over(self) -> bool:
        """Whether there is no time left."""
        return self.left(1.0) <= 0

    def left(self, most: float) -> float:
        """The seconds left, but not more than `most`."""
        return most if self._at is None else min(most, self._at - self._pace.monotonic())


def insist(
    call: Callable[[float], T],
    *,
    pace: Pace,
    deadline: Deadline,
    trouble: Callable[[Failure], None],
) -> T:
    """Repeat a request while its failure may pass and there is time.

    Args:
        call: The request, given the seconds it may take.
        pace: How long to wait between tries.
        deadline: When to stop trying; the last failure is raised then.
        trouble: Told of each failure that is waited out.
    """
    delay, failures = pace.first, 0
    said: Problem | None = None
    while True:
        try:
            return call(max(deadline.left(30.0), 0.1))
        except Failure as failure:
            failures = failures + 1 if is_broken(failure) else 0
            may_pass = failure.is_passing or 0 < failures < _FAILURES_IN_A_ROW
            if not may_pass or deadline.is_over:
                raise _with(said, failure) from None
            said = failure if isinstance(failure, Problem) else said
            trouble(failure)
            pace.sleep(deadline.left(max(delay, _asked_for(failure))))
            delay = pace.after(delay)


def _with(said: Problem | None, last: Failure) -> Failure:
    """The last failure; where it was cut off by our own deadline, in the words before it.

    A server that has said what it lacks runs and was reached.
    """
    if said is not None and isinstance(last, Unreachable) and last.is_cut_off:
        last.what, last.next, last.code = said.what, said.next, said.code
        last.why = f"{said.why}; the last try got no answer in time"
    return last


def _asked_for(failure: Failure) -> float:
    asked = failure.retry_after if isinstance(failure, Problem) else None
    return min(asked or 0.0, 30.0)


def is_broken(failure: Failure) -> bool:
    """Whether the server itself failed: that may pass, or be a fault that stays."""
    return isinstance(failure, Problem) and failure.status == _INTERNAL_ERROR
