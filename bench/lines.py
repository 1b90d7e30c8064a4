"""A flood of output, kept and discarded."""

import time
from collections.abc import Callable

from bench.ratios import Goal, Pair, interleave
from bench.report import Figure, ratio
from bench.sides import Ours
from bench.size import Size

_GOAL = Goal(2.0)


def kept_and_discarded(ours: Ours, size: Size) -> list[Figure]:
    """The deploy that stores what its hook says, beside the same whose hook says it to nobody."""
    rounds = interleave(size.line_pairs, _deploy(ours, "kept"), _deploy(ours, "discarded"))
    pairs = [Pair(kept, discarded) for kept, discarded in rounds]
    rate = [size.lines / kept for kept, _ in rounds]
    name = f"deploy with {size.lines} lines kept"
    return [ratio(name, "s", pairs, _GOAL, lines_per_second=rate)]


def _deploy(ours: Ours, application: str) -> Callable[[], float]:
    def once() -> float:
        name = ours.deploy(environment="other", application=application)
        began = time.monotonic()
        return ours.wait([name]) - began

    return once
