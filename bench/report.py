"""Figures, the table on standard output, and the JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from bench.ratios import Goal, Pair, Spread, Verdict, spread, steady


@dataclass(frozen=True)
class Figure:
    """One measured thing.

    Attributes:
        name: What it is.
        unit: Of the two sides' own values.
        values: What the goal is about: ratios of pairs, or values where there is no other side.
        goal: The bound, if there is one.
        ours: Our side's values, one a slice.
        base: The other side's, measured in between; empty where there is none.
        is_ratio: Whether `values` are ratios of the two.
        dropped: Pairs left out since the machine was not steady.
        detail: More numbers.
    """

    name: str
    unit: str
    values: Sequence[float]
    goal: Goal | None = None
    ours: Sequence[float] = ()
    base: Sequence[float] = ()
    is_ratio: bool = False
    dropped: int = 0
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def spread(self) -> Spread:
        """The median of `values` and its interval."""
        return spread(self.values)

    @property
    def verdict(self) -> Verdict:
        """What the goal says."""
        return self.goal.verdict(self.spread) if self.goal else Verdict.NONE

    def as_json(self) -> dict[str, Any]:
        """Everything, for a file."""
        return {
            "name": self.name,
            "unit": self.unit,
            "is_ratio": self.is_ratio,
            "median": self.spread.middle,
            "interval": [self.spread.low, self.spread.high],
            "goal": asdict(self.goal) if self.goal else None,
            "verdict": self.verdict,
            "values": list(self.values),
            "ours": list(self.ours),
            "base": list(self.base),
            "dropped": self.dropped,
            "detail": dict(self.detail),
        }


def ratio(name: str, unit: str, pairs: Sequence[Pair], goal: Goal | None, **detail: Any) -> Figure:
    """A figure from pairs of slices."""
    kept = steady(pairs)
    return Figure(
        name=name,
        unit=unit,
        values=[pair.ratio for pair in kept],
        goal=goal,
        ours=[pair.ours for pair in kept],
        base=[pair.base for pair in kept],
        is_ratio=True,
        dropped=len(pairs) - len(kept),
        detail=detail,
    )


def alone(
    name: str,
    unit: str,
    sides: Sequence[Sequence[float]],
    goal: Goal | None,
    **detail: Any,
) -> Figure:
    """A figure whose goal is a value: ours, and at will what was measured in between."""
    ours, *others = sides
    base = others[0] if others else ()
    return Figure(name=name, unit=unit, values=ours, goal=goal, ours=ours, base=base, detail=detail)


_HEAD = ("figure", "manent", "beside it", "ratio or value", "95 % interval", "goal", "verdict")


def table(figures: Sequence[Figure]) -> str:
    """The figures as text, one a line."""
    rows = [_HEAD, *map(_row, figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(line.rstrip() for line in lines)


def _row(figure: Figure) -> tuple[str, ...]:
    found, unit = figure.spread, "x" if figure.is_ratio else f" {figure.unit}"
    goal = ""
    if figure.goal:
        goal = f"{'>=' if figure.goal.is_floor else '<='} {figure.goal.bound:g}{unit}"
    return (
        figure.name,
        _value(figure.ours, figure.unit),
        _value(figure.base, figure.unit),
        f"{found.middle:.3g}{unit}",
        f"{found.low:.3g} to {found.high:.3g}",
        goal,
        figure.verdict,
    )


def _value(values: Sequence[float], unit: str) -> str:
    return f"{median(values):.3g} {unit}" if values else ""
