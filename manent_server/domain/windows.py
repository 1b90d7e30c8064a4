"""Windows: recurring hours in which deploys may, or may not, start.

A rule is the recurrence of RFC 5545 in a zone of the IANA database. Each of its instants opens a
window of exactly the given length, so one that spans a change of clocks is as long as any other;
an instant in an hour that a day lacks is moved to the hour after it (RFC 5545, 3.3.5).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from zoneinfo import ZoneInfo

from dateutil.rrule import rrule, rruleset, rrulestr

# From when on a rule that names no DTSTART recurs: a Monday, midnight of its zone.
ANCHOR = datetime(2020, 1, 6)  # noqa: DTZ001 - local: the zone is each window's own
MAX_DURATION = timedelta(days=366)
_MOST_A_DAY = 24
_DAY = timedelta(days=1)
_ZONED = re.compile(r"TZID|\d{6}Z", re.IGNORECASE)
_HORIZON = 1000
"""So many beginnings and ends are looked at for the next opening; then it is said to be unknown."""


@dataclass(frozen=True)
class Window:
    """`allows`: only within it may anything start; else nothing may start within it."""

    allows: bool
    rule: str
    duration: timedelta
    timezone: str
    reason: str | None = None

    @property
    def words(self) -> str:
        """The window in words."""
        why = f": {self.reason}" if self.reason else ""
        return f"{self.rule} ({self.timezone}){why}"


@dataclass(frozen=True)
class Shut:
    """Nothing may start: since when, until when (None: not within a foreseeable time), why."""

    since: datetime | None
    until: datetime | None
    why: str


def check_rule(rule: str) -> str | None:
    """What is wrong with a rule, None if nothing is."""
    try:
        first = list(islice(_parsed(rule), _MOST_A_DAY + 1))
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        return f"is no recurrence rule of RFC 5545: {error}"
    if not first:
        return "never occurs"
    if len(first) > _MOST_A_DAY and first[-1] - first[0] < _DAY:
        return f"occurs more than {_MOST_A_DAY} times a day"
    return None


def shut(windows: Sequence[Window], *, at: datetime) -> Shut | None:
    """Why nothing may start at an instant, None if something may; deny beats allow."""
    now = at.astimezone(UTC)
    found = _reason(windows, now)
    if found is None:
        return None
    since, why = found
    return Shut(since, _next_open(windows, now), why)


def _reason(windows: Sequence[Window], at: datetime) -> tuple[datetime | None, str] | None:
    for window in windows:
        begun = None if window.allows else _begun(window, at)
        if begun is not None:
            return begun, f"nothing may start in the window {window.words}"
    allowing = [window for window in windows if window.allows]
    if not allowing or any(_begun(window, at) is not None for window in allowing):
        return None
    ends = [end for window in allowing if (end := _last_end(window, at)) is not None]
    words = " or ".join(window.words for window in allowing)
    return max(ends, default=None), f"may start only in the window {words}"


def _next_open(windows: Sequence[Window], at: datetime) -> datetime | None:
    """The first instant after `at` at which something may start."""
    looked_at = at
    for _ in range(_HORIZON):
        edges = [edge for window in windows if (edge := _next_edge(window, looked_at)) is not None]
        if not edges:
            return None
        looked_at = min(edges)
        if _reason(windows, looked_at) is None:
            return looked_at
    return None


def _next_edge(window: Window, at: datetime) -> datetime | None:
    """When the window may change what holds: an allowed one opens, a denied one ends."""
    if window.allows:
        return next((start for start in _starts(window, at) if start > at), None)
    ends = [end for start in _until(window, at) if (end := start + window.duration) > at]
    return min(ends, default=None)


def _begun(window: Window, at: datetime) -> datetime | None:
    """When the window that is open at `at` opened."""
    found = [start for start in _until(window, at) if start <= at < start + window.duration]
    return min(found, default=None)


def _last_end(window: Window, at: datetime) -> datetime | None:
    local = at.astimezone(ZoneInfo(window.timezone)).replace(tzinfo=None)
    before = _recurrence(window.rule).before(local, inc=True)
    return _instant(before, window.timezone) + window.duration if before is not None else None


def _until(window: Window, at: datetime) -> Iterator[datetime]:
    """Openings that may still be open at `at`."""
    for start in _starts(window, at):
        if start > at:
            return
        yield start


def _starts(window: Window, at: datetime) -> Iterator[datetime]:
    """Openings from a little before the window's length ago, in order."""
    local = at.astimezone(ZoneInfo(window.timezone)).replace(tzinfo=None)
    for start in _recurrence(window.rule).xafter(local - window.duration - _DAY, inc=True):
        yield _instant(start, window.timezone)


def _instant(local: datetime, timezone: str) -> datetime:
    return local.replace(tzinfo=ZoneInfo(timezone)).astimezone(UTC)


def _parsed(rule: str) -> rrule | rruleset:
    text = rule.strip()
    # In UTC or with an offset a beginning would fight the window's own zone.
    if _ZONED.search(text):
        raise ValueError("DTSTART and UNTIL are local times here, without Z or TZID")
    found: rrule | rruleset = rrulestr(text, dtstart=ANCHOR, cache=True)
    return found


@lru_cache(maxsize=256)
def _recurrence(rule: str) -> rrule | rruleset:
    return _parsed(rule)
