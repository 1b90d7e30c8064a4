"""The arithmetic: ratios of pairs, their spread, and what a goal says to them."""

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import median

_RESAMPLES = 2000
_SEED = 20260101
STEADY = 0.30
FEWEST = 3


class Verdict(StrEnum):
    """What became of a goal."""

    MET = "met"
    MISSED = "missed"
    FAR = "missed by more than two"
    NONE = "no goal"


@dataclass(frozen=True)
class Spread:
    """A median and the interval it lies in with 95 % certainty."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True)
class Goal:
    """A bound; `is_floor` for figures that should be large."""

    bound: float
    is_floor: bool = False

    def verdict(self, spread: Spread) -> Verdict:
        """Met only if the worse end of the interval meets it; how far missed, by the median."""
        worse = spread.low if self.is_floor else spread.high
        if self._excess(worse) <= 1:
            return Verdict.MET
        return Verdict.FAR if self._excess(spread.middle) > 2 else Verdict.MISSED  # noqa: PLR2004 - its name

    def _excess(self, value: float) -> float:
        if self.is_floor:
            return self.bound / value if value > 0 else float("inf")
        return value / self.bound


def percentile(values: Sequence[float], share: float) -> float:
    """The value that `share` of the others do not exceed (nearest rank)."""
    ranked = sorted(values)
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)]


def spread(values: Sequence[float]) -> Spread:
    """The median with its bootstrap interval; the same values give the same interval."""
    draw = random.Random(_SEED)  # noqa: S311 - statistics
    resampled = [median(draw.choices(values, k=len(values))) for _ in range(_RESAMPLES)]
    return Spread(median(values), percentile(resampled, 0.025), percentile(resampled, 0.975))


@dataclass(frozen=True)
class Pair:
    """One slice of each side, and how the machine's probe drifted between the two."""

    ours: float
    base: float
    drift: float = 0.0

    @property
    def ratio(self) -> float:
        """Ours over theirs."""
        return self.ours / self.base


def steady(pairs: Sequence[Pair]) -> list[Pair]:
    """The pairs whose two sides met the same machine; all, if too few would be left."""
    kept = [pair for pair in pairs if abs(pair.drift) <= STEADY]
    return kept if len(kept) >= FEWEST else list(pairs)


def interleave(count: int, *sides: Callable[[], float]) -> list[tuple[float, ...]]:
    """Run the sides in turn so many times, every second time the other way round."""
    rounds = []
    for number in range(count):
        order = list(range(len(sides)))
        if number % 2:
            order.reverse()
        found = {index: sides[index]() for index in order}
        rounds.append(tuple(found[index] for index in range(len(sides))))
    return rounds
