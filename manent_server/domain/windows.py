"""Windows: recurring hours in which deploys may, or may not, start.

A rule is the recurrence of RFC 5545 in a zone of the IANA database. Each of its instants opens a
window of exactly the given length, so one that spans a change of clocks is as long as any other;
an instant in an hour that a day lacks is moved to the hour after it (RFC 5545, 3.3.5).
"""

import re
from bisect import bisect_right
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
_FORESEEABLE = timedelta(days=200 * 366)


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
    """The first instant after `at` at which something may start.

    Looked up in what each window's rule gives in one pass: it is asked in transactions.
    """
    spans = [_Span.of(window, at) for window in windows]
    edges = sorted({edge for span in spans for edge in span.edges() if edge > at})
    known = min((span.known_until for span in spans if span.known_until), default=None)
    for edge in edges[:_HORIZON]:
        if known is not None and edge > known:
            return None
        if _is_open(spans, edge):
            return edge
    return None


def _is_open(spans: Sequence["_Span"], at: datetime) -> bool:
    if any(span.holds(at) for span in spans if not span.window.allows):
        return False
    allowing = [span for span in spans if span.window.allows]
    return not allowing or any(span.holds(at) for span in allowing)


@dataclass(frozen=True)
class _Span:
    """The openings of a window from the last one before an instant on, in order.

    `known_until`: up to where they are all here; None where there are no more.
    """

    window: Window
    starts: list[datetime]
    known_until: datetime | None

    @classmethod
    def of(cls, window: Window, at: datetime) -> "_Span":
        last: list[datetime] = []
        later: list[datetime] = []
        for start in _starts(window, at):
            if start <= at:
                # Each is open equally long: what the last one does not hold no earlier one does.
                last = [max([start, *last])]
                continue
            if len(later) == _HORIZON or start - at > _FORESEEABLE:
                return cls(window, sorted([*last, *later]), max(later, default=start))
            later.append(start)
        return cls(window, sorted([*last, *later]), None)

    def edges(self) -> list[datetime]:
        """When it may change what holds: an allowed one opens, a denied one ends."""
        longer = timedelta(0) if self.window.allows else self.window.duration
        return [start + longer for start in self.starts]

    def holds(self, at: datetime) -> bool:
        """Whether it is open."""
        index = bisect_right(self.starts, at)
        return index > 0 and at < self.starts[index - 1] + self.window.duration


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
