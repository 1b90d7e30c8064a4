"""Any history of time, outages and edits: no instant twice, none lost without a word."""

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import takewhile
from typing import Any
from zoneinfo import ZoneInfo

import hypothesis
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from manent_server.domain.schedule import Recurrence, Rules, due
from manent_server.settings import Settings
from manent_server.usecases import fire
from tests.integration.core.planning import Plans, plans
from tests.rig import core as cores

SPRING, AUTUMN = datetime(2027, 3, 27, 12, tzinfo=UTC), datetime(2027, 10, 30, 12, tzinfo=UTC)
ZONES = (
    "Europe/Rome",
    "America/Chicago",
    "America/Winnipeg",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "UTC",
)
QUARTER = timedelta(minutes=15)
STEPS = st.one_of(
    st.integers(0, 200).map(lambda minutes: ("wait", minutes)),
    st.sampled_from([("look", 0), ("pause", 0), ("resume", 0), ("anew", 0), ("crash", 0)]),
)


class Crash(BaseException):
    """The process ends."""


def end() -> None:
    """Nothing of the transaction is kept."""
    raise Crash


@dataclass
class Model:
    """When the schedule was on: by id, from and to."""

    plans: Plans
    every: Recurrence
    on_since: datetime | None = None
    expected: list[tuple[str, datetime]] = field(default_factory=list)
    id: str = ""

    def start(self) -> None:
        """It is on from now."""
        self.on_since = self.plans.clock.at

    def stop(self) -> None:
        """It was on until now."""
        if self.on_since is not None:
            now = self.plans.clock.at
            come = takewhile(lambda instant: instant <= now, self.every.instants(self.on_since))
            self.expected += [(self.id, instant) for instant in come]
        self.on_since = None

    def make(self) -> None:
        """A new schedule of the same name."""
        self.id = self.plans.make(cron=self.every.cron, timezone=self.every.timezone)["id"]
        self.start()

    def do(self, what: str, minutes: int) -> None:
        """One step."""
        if what == "wait":
            self.plans.clock.forward(timedelta(minutes=minutes))
        elif what == "look":
            self.plans.look()
            for deploy in self.plans.fired():
                self.plans.end(deploy)
        elif what == "crash":
            self.crash()
        elif what == "pause":
            self.plans.pause()
            self.stop()
        elif what == "resume":
            self.plans.resume()
            if self.on_since is None:
                self.start()
        else:
            self.plans.delete()
            self.stop()
            self.make()

    def crash(self) -> None:
        """The process ends just before it commits."""
        with suppress(Crash), self.plans.desk.store.write() as tx:
            fire._settle(tx, desk=self.plans.desk, schedule=self.id)
            end()


HISTORIES = st.tuples(
    st.sampled_from([SPRING, AUTUMN]),
    st.sampled_from(ZONES),
    st.sampled_from(["*/30 * * * *", "30 2 * * *", "15 */2 * * *"]),
    st.lists(STEPS, min_size=6, max_size=14),
)


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
@hypothesis.settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=HISTORIES)
def test_no_history_fires_an_instant_twice_or_loses_one(
    request: pytest.FixtureRequest, kind: str, settings: Settings, history: Any
):
    """I14"""
    begin, zone, cron, steps = history
    core = cores.build(request.getfixturevalue(f"{kind}_ground"), settings)
    model = Model(plans(core, begin), Recurrence(cron, zone))
    model.make()
    for what, minutes in steps:
        model.do(what, minutes)
    model.do("look", 0)
    model.stop()
    rows = core.rows("schedule_runs")
    found = Counter((row["schedule"], row["at"]) for row in rows)
    assert found == Counter(model.expected)
    deploys = [row["deploy"] for row in rows if row["result"] == "fired"]
    assert sorted(deploys) == sorted(row["id"] for row in core.rows("deploys"))
    assert {row["result"] for row in rows} <= {"fired", "missed", "skipped"}


def fired_in_2027(cron: str, zone: str) -> list[datetime]:
    """By a clock that is looked at a second after each instant."""
    every = Recurrence(cron, zone)
    end = datetime(2028, 1, 1, tzinfo=ZoneInfo(zone))
    first = every.after(datetime(2027, 1, 1, tzinfo=ZoneInfo(zone)) - timedelta(seconds=1))
    fired: list[datetime] = []
    while first is not None and first < end:
        at = first + timedelta(seconds=1)
        found = due(first, every, Rules(timedelta(minutes=1)), at=at, most=10)
        assert found.missed == ()
        assert found.fires is not None
        fired.append(found.fires)
        first = found.next_at
    return fired


@pytest.mark.parametrize("zone", ZONES)
def test_in_all_of_2027_each_instant_fires_once(zone: str):
    """B83, B84, B86, I14: daily ones on every day of the year, the others by the hands alone."""
    daily = fired_in_2027("30 2 * * *", zone)
    days = [instant.astimezone(ZoneInfo(zone)).date() for instant in daily]
    assert days == [date(2027, 1, 1) + timedelta(days=number) for number in range(365)]
    begin = datetime(2027, 1, 1, tzinfo=ZoneInfo(zone)).astimezone(UTC)
    end = datetime(2028, 1, 1, tzinfo=ZoneInfo(zone)).astimezone(UTC)
    quarters = (begin + number * QUARTER for number in range((end - begin) // QUARTER))
    hands = ((each, each.astimezone(ZoneInfo(zone))) for each in quarters)
    lived = [each for each, local in hands if local.minute == 30 and local.hour % 2 == 0]
    assert fired_in_2027("30 */2 * * *", zone) == lived


def live_through(core: cores.Core, begin: datetime, days: int) -> None:
    """Daily and half-daily schedules in six zones, looked at as a loop would, time by time."""
    made = plans(core, begin)
    crons = ["30 2 * * *", "0,30 1-3 * * *"]
    every = {
        f"{zone}-{number}".lower().replace("/", "."): Recurrence(cron, zone)
        for zone in ZONES
        for number, cron in enumerate(crons)
    }
    for name, one in every.items():
        made.make(name, cron=one.cron, timezone=one.timezone)
    start, end = made.clock.at, made.clock.at + timedelta(days=days)
    while (due := _soonest(core)) is not None and due <= end:
        made.clock.at = due + timedelta(seconds=1)
        made.look()
        with core.store.write() as tx:
            live = tx.tables.deploys
            tx.connection.execute(live.update().values(state="SUCCESS"))
    fired = Counter((row["schedule"], row["at"]) for row in core.rows("schedule_runs"))
    lived = [
        instant
        for one in every.values()
        for instant in takewhile(lambda at: at <= end, one.instants(start))
    ]
    assert len(fired) == len(core.rows("deploys")) == len(lived)
    assert set(fired.values()) == {1}


def _soonest(core: cores.Core) -> datetime | None:
    return min((row["next_at"] for row in core.rows("schedules")), default=None)


def test_every_instant_around_the_change_to_summer_fires_once(sqlite_core: cores.Core):
    """B83, B86, I14: in six zones, through the tables."""
    live_through(sqlite_core, SPRING, days=1)


@pytest.mark.postgres
def test_every_instant_around_the_change_to_winter_fires_once(postgres_core: cores.Core):
    """B84, I14"""
    live_through(postgres_core, AUTUMN, days=1)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_every_instant_of_2027_fires_once(core: cores.Core):
    """B83, B84, B86, I14: the whole year in six zones."""
    live_through(core, datetime(2027, 1, 1, tzinfo=UTC), days=365)
