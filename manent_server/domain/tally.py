"""What deploys add up to: counts that outlive the deploys, with few labels.

A key is a name and its labels, joined by `|`; durations are counted in a few ranges each.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

Key = tuple[str, str]

ENDED: Final = "deploys_ended"
ATTEMPTS: Final = "attempts"
PRUNED: Final = "pruned"
PRUNE_ENDED: Final = "prune_ended"
PRUNED_UNTIL: Final = "pruned_until"
"""By place: when the last of the deleted deploys had ended that would count, in seconds."""
DEPLOY: Final = "deploy"
GATES: Final = "gates"
QUEUE: Final = "queue"
SUM: Final = "sum"
MOST_ENVIRONMENTS: Final = 20
OTHER: Final = "other"
"""Stands for every environment after the first twenty."""

SECONDS: Final[Mapping[str, Sequence[int]]] = {
    DEPLOY: (5, 30, 120, 600, 1800, 7200),
    GATES: (1, 60, 600, 3600, 28800, 86400),
    QUEUE: (1, 5, 30, 120, 600, 3600),
}
"""The upper ends of the ranges, in seconds; above the last one is a range of its own."""


@dataclass(frozen=True)
class Life:
    """The instants of one deploy that are counted."""

    environment: str
    state: str
    outcome: str | None
    requested_at: datetime
    queued_at: datetime | None
    started_at: datetime | None
    ended_at: datetime | None


def begun(life: Life) -> Counter[Key]:
    """What a deploy adds when a worker begins with it."""
    found: Counter[Key] = Counter()
    if life.started_at is not None:
        queued_at = life.queued_at or life.requested_at
        found += spent(GATES, queued_at - life.requested_at)
        found += spent(QUEUE, life.started_at - queued_at)
    return found


def ended(life: Life, known: Collection[str]) -> Counter[Key]:
    """What a deploy adds when it has ended.

    Args:
        life: The deploy.
        known: The environments that are counted by name already.
    """
    if life.outcome is None:
        return Counter()
    found = Counter({(ENDED, f"{_place(life.environment, known)}|{life.outcome}"): 1})
    if life.started_at is not None and life.ended_at is not None:
        found += spent(DEPLOY, life.ended_at - life.started_at, life.state)
    return found


def spent(name: str, time: timedelta, *labels: str) -> Counter[Key]:
    """One duration: its range, and its milliseconds in the sum."""
    seconds = max(0.0, time.total_seconds())
    end = next((str(end) for end in SECONDS[name] if seconds <= end), "+Inf")
    counted = {(name, "|".join([*labels, end])): 1}
    milliseconds = round(seconds * 1000)
    if milliseconds:
        counted[name, "|".join([*labels, SUM])] = milliseconds
    return Counter(counted)


def _place(environment: str, known: Collection[str]) -> str:
    is_room = len(known) < MOST_ENVIRONMENTS
    return environment if environment in known or is_room else OTHER


@dataclass(frozen=True)
class Durations:
    """Durations of one kind: how many up to each end (all of them at the last), and their sum."""

    labels: Sequence[str]
    buckets: Sequence[tuple[str, int]]
    seconds: float


def durations(name: str, tallies: Mapping[Key, int]) -> list[Durations]:
    """What was counted under one name, for every combination of its labels."""
    rows: dict[str, dict[str, int]] = {}
    for (of, labels), value in tallies.items():
        if of == name:
            before, _, end = labels.rpartition("|")
            rows.setdefault(before, {})[end] = value
    return [_durations(name, labels, found) for labels, found in sorted(rows.items())]


def _durations(name: str, labels: str, found: Mapping[str, int]) -> Durations:
    total, buckets = 0, []
    for end in (*(str(end) for end in SECONDS[name]), "+Inf"):
        total += found.get(end, 0)
        buckets.append((end, total))
    return Durations(labels.split("|") if labels else [], buckets, found.get(SUM, 0) / 1000)
