"""Schedules: at which instants one fires, which of those have come, and what becomes of each.

An instant is computed from wall time in the schedule's zone and kept in UTC. The next one is
always computed from the one before, never from the time of looking, so a late look neither
skips an instant nor meets one twice.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
from itertools import islice
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from manent_server.domain import names
from manent_server.domain.errors import Invalid

LONGEST_CRON: Final = 200
_FIELDS: Final = 5
# What the machine says of itself is no name that means the same on every server.
_NO_ZONES: Final = frozenset({"localtime", "Factory"})
_LEAST_LATENESS: Final = timedelta(minutes=1)


class Overlap(StrEnum):
    """What an instant does while a deploy of the same schedule has not ended."""

    SKIP = "skip"
    """It is skipped while one waits or runs."""
    QUEUE = "queue"
    """It is skipped while one waits; behind one that runs it waits for its turn."""


class Source(StrEnum):
    """Where the version comes from that is brought."""

    VERSION = "version"
    NEWEST = "newest"
    ENVIRONMENT = "environment"


class Result(StrEnum):
    """What became of an instant."""

    FIRED = "fired"
    SKIPPED = "skipped"
    MISSED = "missed"
    REFUSED = "refused"
    FAILED = "failed"


@dataclass(frozen=True)
class Recurrence:
    """A cron expression of five fields, read in an IANA zone."""

    cron: str
    timezone: str

    def after(self, instant: datetime) -> datetime | None:
        """The first instant later than this one, in UTC; None where none ever comes."""
        return next(self.instants(instant), None)

    def instants(self, after: datetime) -> Iterator[datetime]:
        """The instants later than this one, in UTC, each once, in order.

        A wall time that does not exist fires when the clock has moved on; one that exists twice
        fires the first time, unless minute or hour begin with a star.
        """
        last = after
        for local in CronSim(self.cron, after.astimezone(ZoneInfo(self.timezone))):
            instant = local.astimezone(UTC)
            if instant > last:
                yield instant
                last = instant

    def upcoming(self, after: datetime, count: int) -> list[datetime]:
        """The next instants, in UTC."""
        return list(islice(self.instants(after), count))

    def local(self, instant: datetime) -> datetime:
        """The instant as the schedule's zone shows it, with its offset."""
        return instant.astimezone(ZoneInfo(self.timezone))


def recurrence(cron: str, timezone: str) -> Recurrence:
    """A recurrence as a person gave it.

    Raises:
        Invalid: The expression or the zone is not known, or it never comes to an instant.
    """
    zone(timezone)
    words = " ".join(cron.split())
    found = Recurrence(words, timezone)
    wrong = _wrong(found)
    if wrong is not None:
        raise _invalid(
            "cron",
            f"is no cron expression that ever comes to an instant: {wrong}",
            "write minute, hour, day of month, month and day of week, as in 30 2 * * MON-FRI",
        )
    return found


def zone(timezone: str) -> ZoneInfo:
    """The IANA zone of that name.

    Raises:
        Invalid: There is none.
    """
    if timezone not in _zones():
        meant = _meant(timezone)
        raise _invalid(
            "timezone",
            "is no time zone of the IANA database",
            f"did you mean {meant}?" if meant else "name one like Europe/Rome, or UTC",
        )
    return ZoneInfo(timezone)


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones()) - _NO_ZONES


def _meant(timezone: str) -> str | None:
    known = {zone.lower(): zone for zone in _zones()}
    if timezone.lower() in known:
        return known[timezone.lower()]
    # Of the others only those with a place in them: CEST is near to EST, quite another clock.
    like = names.nearest(timezone, [zone for zone in known if "/" in zone])
    return known[like] if like else None


def _wrong(found: Recurrence) -> str | None:
    count = len(found.cron.split())
    if len(found.cron) > LONGEST_CRON:
        return f"it is longer than {LONGEST_CRON} characters"
    if count != _FIELDS:
        return f"it has {count} of {_FIELDS} fields"
    try:
        return "it never comes" if found.after(datetime(2026, 1, 1, tzinfo=UTC)) is None else None
    except CronSimError as error:
        return str(error).lower()
    # It asserts, compares and looks up what it has not checked before.
    except (AssertionError, ArithmeticError, LookupError, TypeError, ValueError):
        return "a field of it makes no sense"


def _invalid(field: str, words: str, advice: str) -> Invalid:
    return Invalid(
        f"{field} {words}",
        code=f"{field}_invalid",
        next=advice,
        errors=[{"path": field, "message": words}],
    )


@dataclass(frozen=True)
class Rules:
    """How late an instant may fire.

    `lateness`: by so much it still counts as on time. `catch_up`: after an outage the newest
    missed instant fires if it is no older than that; None fires none.
    """

    lateness: timedelta
    catch_up: timedelta | None = None


@dataclass(frozen=True)
class Due:
    """What is decided of instants that have come: at most one of them fires.

    `next_at` is the first instant nothing is decided of; it has come too where `fires` is None
    and more had come than could be looked at.
    """

    missed: Sequence[datetime]
    fires: datetime | None
    is_late: bool
    next_at: datetime | None


def due(first: datetime, every: Recurrence, rules: Rules, *, at: datetime, most: int) -> Due:
    """Decide of every instant from `first` on that has come.

    Only the newest one may fire, so that an outage never ends in a burst.

    Args:
        first: The first instant nothing is decided of.
        every: Gives those after it.
        rules: How late is too late.
        at: Now.
        most: Look at so many instants at most.
    """
    later = every.instants(first)
    come: list[datetime] = []
    following: datetime | None = first
    while following is not None and following <= at and len(come) < most:
        come.append(following)
        following = next(later, None)
    if not come or (following is not None and following <= at):
        return Due(tuple(come), None, is_late=False, next_at=following)
    age = at - come[-1]
    is_late = age > rules.lateness
    if is_late and (rules.catch_up is None or age > rules.catch_up):
        return Due(tuple(come), None, is_late=False, next_at=following)
    return Due(tuple(come[:-1]), come[-1], is_late=is_late, next_at=following)


def lateness(lease: timedelta) -> timedelta:
    """By how much an instant may be late and count as on time.

    The process that fires may die just before it: another one takes over when its lease ends.

    Args:
        lease: How long that lease lasts.
    """
    return _LEAST_LATENESS + 2 * lease


def overlaps(policy: Overlap, live: Sequence[bool]) -> bool:
    """Whether an instant is skipped because of deploys that have not ended.

    Args:
        policy: The schedule's.
        live: For each of its deploys that has not ended: whether it has begun.
    """
    if policy == Overlap.QUEUE:
        return not all(live)
    return bool(live)
