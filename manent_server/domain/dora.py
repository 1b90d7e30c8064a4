"""The four DORA figures of an application in a tier, from the deploys that ended.

What counts: a *deployment* is a deploy of kind deploy that ended SUCCESS or ERROR and brought
another version than the one in place. Rollbacks, redeploys and whatever was cancelled are none.
It *failed* when it ended ERROR or was rolled back from later; however often it is found to have
failed, it counts once. It is *restored* when its own rollback, a rollback by hand or a later
success ends the failure.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from statistics import fmean, median
from zoneinfo import ZoneInfo

from manent_server.domain.deploy import Kind, Outcome, State
from manent_server.domain.errors import Invalid

LONGEST = timedelta(days=731)
"""The longest window that is counted."""
_EDGE = timedelta(days=2)
"""Of the calendar: a midnight nearer to its ends cannot be told in every zone."""


@dataclass(frozen=True)
class Window:
    """Whole days of a zone, both the first and the last included."""

    first: date
    last: date
    zone: ZoneInfo

    @property
    def days(self) -> int:
        """How many days of the calendar."""
        return (self.last - self.first).days + 1

    @property
    def start(self) -> datetime:
        """The instant it begins, in UTC."""
        return self._midnight(self.first)

    @property
    def end(self) -> datetime:
        """The instant it is over, in UTC."""
        return self._midnight(self.last + timedelta(days=1))

    def month(self, at: datetime) -> str:
        """The month an instant lies in there."""
        return at.astimezone(self.zone).strftime("%Y-%m")

    def day_after(self, at: datetime) -> date:
        """The first day there that begins after an instant."""
        return at.astimezone(self.zone).date() + timedelta(days=1)

    def _midnight(self, day: date) -> datetime:
        return datetime.combine(day, time(), tzinfo=self.zone).astimezone(UTC)


def window(first: date | None, last: date | None, zone: ZoneInfo, *, at: datetime) -> Window:
    """The days asked for; by default the thirty that end today.

    Raises:
        Invalid: They are in the wrong order, too many, or at the end of the calendar.
    """
    last = last if last is not None else at.astimezone(zone).date()
    if last > date.max - _EDGE or (first or last) < date.min + _EDGE:
        raise Invalid(f"{first or last} to {last} are no days that can be counted",
                      next="ask for days in which something was deployed")  # fmt: skip
    if first is None:
        first = last - timedelta(days=29) if last.toordinal() > LONGEST.days else last
    if last < first:
        raise Invalid(f"`to` {last} is before `from` {first}", next="swap them")
    if last - first >= LONGEST:
        raise Invalid(
            f"{first} to {last} are more than {LONGEST.days} days", next="ask for a part of them"
        )
    return Window(first, last, zone)


@dataclass(frozen=True)
class Ended:
    """A deploy that ended SUCCESS or ERROR.

    Attributes:
        replaced: The version that was in place before it, where that is known.
        failed_at: When its first step failed; None where none did.
        changed_at: When each of the changes it brings was made, as far as its caller said.
    """

    application: str
    environment: str
    tier: str
    kind: str
    version: str
    replaced: str | None
    state: str
    outcome: str | None
    ended_at: datetime
    failed_at: datetime | None = None
    changed_at: tuple[datetime, ...] = ()

    @property
    def is_success(self) -> bool:
        """Whether what was asked for is in place."""
        return self.state == State.SUCCESS

    @property
    def counts(self) -> bool:
        """Whether it counts."""
        return self.kind == Kind.DEPLOY and self.version != self.replaced


@dataclass
class Counted:
    """A deploy that counts, and what became of it."""

    of: Ended
    failed_at: datetime | None = None
    restored_at: datetime | None = None

    @property
    def outage(self) -> timedelta | None:
        """From the failure to its end; None while it lasts, or without one."""
        if self.failed_at is None or self.restored_at is None:
            return None
        return max(self.restored_at - self.failed_at, timedelta())


@dataclass(frozen=True)
class Month:
    """The deployments of one month of the calendar."""

    month: str
    deploys: int
    successful: int
    failed: int


@dataclass(frozen=True)
class Spread:
    """Durations in seconds: how many, and their middle; None without any."""

    count: int
    median: float | None
    mean: float | None


@dataclass(frozen=True)
class Figures:
    """One application in one tier.

    Attributes:
        successful: Deployments that ended SUCCESS, also those rolled back from later.
        failed: Deployments that failed: a part of all of them, never more.
        restore: Time to restore, over the failures that are over.
        unrestored: Failures that nothing has ended yet.
        lead: Lead time, over every change whose instant was said and lies before its deployment.
        negative: Changes said to be younger than their deployment: flagged, not averaged.
        unexplained: Successful deployments that name no change, of which no lead time is known.
    """

    application: str
    tier: str
    environments: tuple[str, ...]
    deploys: int
    successful: int
    failed: int
    restore: Spread
    unrestored: int
    lead: Spread
    negative: int
    unexplained: int
    months: tuple[Month, ...]

    @property
    def failure_rate(self) -> float | None:
        """Failed deployments of all, 0 to 1; None without any."""
        return self.failed / self.deploys if self.deploys else None


def figures(
    ended: Iterable[Ended], asked: Window, also: Iterable[tuple[str, str]] = ()
) -> list[Figures]:
    """The figures of each application in each tier that deployed within the window.

    Args:
        ended: From the beginning of the window until now: what came after it tells which of its
            deployments failed and when that was over.
        asked: By the end of a deploy.
        also: Application and tier of which something is told though nothing of it is left.
    """
    places: dict[tuple[str, str, str], list[Ended]] = defaultdict(list)
    for row in ended:
        places[row.application, row.tier, row.environment].append(row)
    groups: dict[tuple[str, str], list[Counted]] = defaultdict(list)
    for (application, tier, _), rows in places.items():
        found = _counted(sorted(rows, key=lambda row: row.ended_at))
        groups[application, tier] += [
            one for one in found if asked.start <= one.of.ended_at < asked.end
        ]
    kept = {key for key, some in groups.items() if some}
    return [_figures(key, groups[key], asked) for key in sorted(kept | set(also))]


@dataclass
class _Place:
    """One application in one environment, as its deploys go by."""

    found: list[Counted] = field(default_factory=list)
    standing: list[Counted] = field(default_factory=list)
    broken: list[Counted] = field(default_factory=list)

    def pass_by(self, row: Ended) -> None:
        """What this end says of the deployments before it, and its own."""
        if row.kind == Kind.ROLLBACK:
            self._go_back(row)
        if row.is_success:
            self._restore(row)
        if row.counts:
            self._count(row)

    def _go_back(self, row: Ended) -> None:
        # After a failure it restores what is in place; else what is in place has failed.
        if not self.broken and self.standing:
            undone = self.standing[-1]
            undone.failed_at = undone.of.ended_at
            self.broken.append(undone)
        if row.is_success:
            self._leave(row.version)

    def _leave(self, version: str) -> None:
        """What stands after a rollback: whatever came after this version does no more.

        Those in between did not fail for it. Nothing of the window stands where the version is
        of a time before.
        """
        while self.standing and self.standing[-1].of.version != version:
            self.standing.pop()

    def _restore(self, row: Ended) -> None:
        for one in self.broken:
            one.restored_at = row.ended_at
        self.broken.clear()

    def _count(self, row: Ended) -> None:
        one = Counted(row)
        self.found.append(one)
        if row.is_success:
            self.standing.append(one)
            return
        one.failed_at = row.failed_at or row.ended_at
        if row.outcome == Outcome.ROLLED_BACK:
            one.restored_at = row.ended_at
        else:
            self.broken.append(one)


def _counted(rows: Sequence[Ended]) -> list[Counted]:
    place = _Place()
    for row in rows:
        place.pass_by(row)
    return place.found


def _figures(key: tuple[str, str], found: Sequence[Counted], asked: Window) -> Figures:
    failed = [one for one in found if one.failed_at is not None]
    good = [one.of for one in found if one.of.is_success]
    leads = [row.ended_at - at for row in good for at in row.changed_at]
    return Figures(
        application=key[0],
        tier=key[1],
        environments=tuple(sorted({one.of.environment for one in found})),
        deploys=len(found),
        successful=len(good),
        failed=len(failed),
        restore=_spread([one.outage for one in failed if one.outage is not None]),
        unrestored=sum(one.outage is None for one in failed),
        lead=_spread([lead for lead in leads if lead >= timedelta()]),
        negative=sum(lead < timedelta() for lead in leads),
        unexplained=sum(not row.changed_at for row in good),
        months=_months(found, asked),
    )


def _spread(spans: Sequence[timedelta]) -> Spread:
    seconds = [span.total_seconds() for span in spans]
    if not seconds:
        return Spread(0, None, None)
    return Spread(len(seconds), median(seconds), fmean(seconds))


def _months(found: Sequence[Counted], asked: Window) -> tuple[Month, ...]:
    months: dict[str, list[Counted]] = defaultdict(list)
    for one in found:
        months[asked.month(one.of.ended_at)].append(one)
    return tuple(
        Month(
            month=month,
            deploys=len(some),
            successful=sum(one.of.is_success for one in some),
            failed=sum(one.failed_at is not None for one in some),
        )
        for month, some in sorted(months.items())
    )
