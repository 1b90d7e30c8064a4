"""Deploys beside bare workflows: one at a time, and as many as there are places."""

import random
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median

from bench import history
from bench.processes import seconds
from bench.ratios import Goal, Pair, interleave, percentile
from bench.report import Figure, alone, ratio
from bench.sides import Bare, Ours, Side
from bench.size import Size

_OVERHEAD = Goal(3.0)
_THROUGHPUT = Goal(0.5, is_floor=True)
_FIRST_HOOK = Goal(250.0)
# Longer than two looks at the queue, so that the arrivals keep no step with them.
_GAP = (0.1, 0.55)
_CLIENTS = 8


class Alone:
    """One run after the other on one side, at random instants."""

    def __init__(self, side: Side, size: Size) -> None:
        self._side = side
        self._count = size.deploys
        self._gap = random.Random(size.seed)  # noqa: S311 - arrivals
        self.accepted: list[dict[str, float]] = []
        self.took: list[list[float]] = []
        self.ran: list[list[float]] = []

    def __call__(self) -> float:
        """One slice; the probe just before it."""
        probe = self._side.probe()
        took, accepted_at = [], {}
        for number in range(self._count):
            time.sleep(self._gap.uniform(*_GAP))
            name = self._side.submit(number)
            accepted_at[name] = time.monotonic()
            took.append(self._side.wait([name]) - accepted_at[name])
        self.accepted.append(accepted_at)
        self.took.append(took)
        self.ran.append(self._side.runs(list(accepted_at)))
        return probe


def one_at_a_time(ours: Ours, bare: Bare, size: Size) -> list[Figure]:
    """What a deploy takes on an idle server, and how long until its first hook begins."""
    mine, other = Alone(ours, size), Alone(bare, size)
    probes = interleave(size.pairs, mine, other)
    drifts = [one / another - 1 for one, another in probes]
    waits = [_until_first(side, each) for side, each in ((ours, mine), (bare, other))]
    first = [[median(each) for each in slices] for slices in waits]
    p99 = percentile([value for values in waits[0] for value in values], 0.99)
    return [
        _compared("deploy, 202 to SUCCESS, p50", mine.took, other.took, drifts, _OVERHEAD),
        _compared("same, from its start on, p50", mine.ran, other.ran, drifts, None),
        alone("202 to first hook or step, p50", "ms", first, _FIRST_HOOK, p99=p99),
    ]


def _compared(
    name: str,
    ours: Sequence[Sequence[float]],
    base: Sequence[Sequence[float]],
    drifts: Sequence[float],
    goal: Goal | None,
) -> Figure:
    pairs = [
        Pair(median(mine) * 1000, median(other) * 1000, drift)
        for mine, other, drift in zip(ours, base, drifts, strict=True)
    ]
    every = [[value * 1000 for values in side for value in values] for side in (ours, base)]
    p99 = [percentile(values, 0.99) for values in every]
    return ratio(name, "ms", pairs, goal, p99=p99, runs=[len(values) for values in every])


def _until_first(side: Ours | Bare, runs: Alone) -> list[list[float]]:
    """Milliseconds from acceptance to the first mark, slice by slice."""
    begins = history.first_begins(side.marks())
    return [
        [(begins[name] - at) * 1000 for name, at in accepted.items()] for accepted in runs.accepted
    ]


def at_once(ours: Ours, bare: Bare, size: Size) -> list[Figure]:
    """As many as there are places, asked for by several clients."""
    mine, other = Burst(ours, size), Burst(bare, size)
    probes = interleave(size.pairs, mine, other)
    drifts = [one / another - 1 for one, another in probes]
    rates = [Pair(*rates) for rates in zip(mine.rates, other.rates, drifts, strict=True)]
    spent = [Pair(*spent) for spent in zip(mine.spent, other.spent, drifts, strict=True)]
    return [
        ratio("throughput, 5-step deploys", "/s", rates, _THROUGHPUT, burst=size.burst),
        ratio("processor time of each, without Postgres", "ms", spent, None),
    ]


class Burst:
    """Many at once on one side, asked for by several clients."""

    def __init__(self, side: Side, size: Size) -> None:
        self._side = side
        self._count = size.burst
        self.rates: list[float] = []
        self.spent: list[float] = []

    def __call__(self) -> float:
        """One slice, from the first request to the last end; the probe just before it."""
        probe = self._side.probe()
        before = seconds(self._side.pid)
        began = time.monotonic()
        with ThreadPoolExecutor(_CLIENTS) as clients:
            names = list(clients.map(self._side.submit, range(self._count)))
        self.rates.append(self._count / (self._side.wait(names) - began))
        self.spent.append((seconds(self._side.pid) - before) / self._count * 1000)
        return probe
