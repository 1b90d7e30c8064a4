"""What schedules asked for, and when: I14."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from tests.chaos.checker import checker
from tests.chaos.history import History

_MINUTE = timedelta(minutes=1)

Row = Mapping[str, Any]


@checker("I14")
def each_instant_has_one_word(history: History) -> Iterator[str]:
    """From its making to its end, each minute of a schedule fired or is listed with why not."""
    said: dict[str, Counter[datetime]] = defaultdict(Counter)
    for run in _runs(history):
        said[run["schedule"]][_instant(run["at"])] += 1
    for schedule in _schedules(history).values():
        wanted = set(_minutes(schedule))
        found = said[schedule["id"]]
        for instant in sorted(wanted - found.keys()):
            yield f"schedule {schedule['name']}: nothing became of {instant.isoformat()}"
        for instant in sorted(found.keys() - wanted):
            yield f"schedule {schedule['name']} has no instant {instant.isoformat()}"
        for instant, count in found.items():
            if count > 1:
                yield f"schedule {schedule['name']}: {count} words on {instant.isoformat()}"


@checker("I14")
def each_instant_that_fired_has_one_deploy(history: History) -> Iterator[str]:
    """What automation asked for was asked for by one instant, and what fired is there."""
    fired = Counter(run["deploy"] for run in _runs(history) if run["result"] == "fired")
    made = {
        change.row["id"]
        for change in history.of("deploys")
        if change.row.get("origin") == "schedule"
    }
    for deploy in sorted(made - fired.keys()):
        yield f"{deploy} was asked for by no instant of its schedule"
    for deploy, count in fired.items():
        if deploy not in made:
            yield f"{deploy} was fired and is not there"
        elif count > 1:
            yield f"{deploy} stands for {count} instants"


def _runs(history: History) -> list[Row]:
    return [change.row for change in history.of("schedule_runs") if not change.is_deletion]


def _schedules(history: History) -> dict[str, Row]:
    return {change.row["id"]: change.row for change in history.of("schedules")}


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _minutes(schedule: Row) -> Iterator[datetime]:
    """Its instants: all schedules of a run fire every minute until they are deleted."""
    if schedule["deleted_at"] is None:
        return
    instant = _instant(schedule["created_at"]).replace(second=0, microsecond=0) + _MINUTE
    while instant <= _instant(schedule["deleted_at"]):
        yield instant
        instant += _MINUTE


CHECKERS = (each_instant_has_one_word, each_instant_that_fired_has_one_deploy)
