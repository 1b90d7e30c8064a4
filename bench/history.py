"""What really ran, from the marks: each run of the bench is also a run of its checks."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path


@dataclass(frozen=True)
class Mark:
    """One line of the marks."""

    at: float
    run: str
    place: str
    step: str
    attempt: str
    event: str


def read(path: Path) -> list[Mark]:
    """Every whole line so far."""
    if not path.exists():
        return []
    whole, _, _ = path.read_text().rpartition("\n")
    return [parse(line) for line in whole.splitlines()]


def parse(line: str) -> Mark:
    """One line."""
    at, *words = line.split(" ")
    return Mark(float(at), **dict(word.split("=", 1) for word in words))


@dataclass(frozen=True)
class Stay:
    """The time from the first to the last mark of one run (a deploy under an epoch) in a place."""

    run: str
    place: str
    begin: float
    end: float


def stays(marks: Iterable[Mark]) -> list[Stay]:
    """One for each run, in order of begin."""
    by_run: dict[tuple[str, str], list[float]] = defaultdict(list)
    for mark in marks:
        by_run[mark.run, mark.place].append(mark.at)
    found = [Stay(run, place, min(at), max(at)) for (run, place), at in by_run.items()]
    return sorted(found, key=lambda stay: stay.begin)


def overlaps(marks: Iterable[Mark]) -> list[tuple[Stay, Stay]]:
    """Pairs of neighbours that were in one place at one time; empty means none were at all."""
    by_place: dict[str, list[Stay]] = defaultdict(list)
    for stay in stays(marks):
        by_place[stay.place].append(stay)
    return [
        (one, other)
        for there in by_place.values()
        for one, other in pairwise(there)
        if other.begin < one.end
    ]


def repeated(marks: Sequence[Mark]) -> list[tuple[str, str]]:
    """Deploys and steps that ended more than once."""
    ended: dict[tuple[str, str], int] = defaultdict(int)
    for mark in marks:
        if mark.event == "end":
            ended[mark.run.split("/")[0], mark.step] += 1
    return [key for key, times in ended.items() if times > 1]


def first_begins(marks: Iterable[Mark]) -> dict[str, float]:
    """When the first hook of each deploy began."""
    found: dict[str, float] = {}
    for mark in marks:
        deploy = mark.run.split("/")[0]
        if mark.event == "begin":
            found[deploy] = min(found.get(deploy, mark.at), mark.at)
    return found
