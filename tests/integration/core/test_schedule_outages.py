"""Schedules when something is away or broken: no burst, nothing unlisted, nobody else stopped."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from manent_server.domain.errors import Conflict, Invalid, Unavailable
from manent_server.plugins.host import Host
from manent_server.store.repeat import NotAnswered, unavailable
from manent_server.store.transaction import Transaction
from manent_server.usecases import fire, timetable
from tests.integration.core.planning import MINUTE, Plans, plans
from tests.rig.clocked import ClockedStore
from tests.rig.core import Core

TEN = 10 * MINUTE


@pytest.fixture
def made(core: Core) -> Plans:
    return plans(core)


@pytest.mark.parametrize(("window", "fired"), [(None, 0), ("10m", 1), ("9m", 0), ("24h", 1)])
def test_an_outage_ends_without_a_burst(made: Plans, window: str | None, fired: int):
    """B91, I14: three hours away; all is listed, at most one is made up for."""
    made.make(catch_up=window)
    made.look(timedelta(hours=3) - timedelta(seconds=30))
    assert made.results().count("fired") == fired
    assert made.results().count("missed") == 17 - fired
    (deed,) = made.audited("schedule.missed")
    assert deed["detail"]["count"] == 17 - fired
    assert [run["reason"] for run in made.runs() if run["deploy"]] == ["caught_up"] * fired
    made.look(timedelta(seconds=30))
    assert len(made.runs()) == 18


def test_a_long_outage_is_listed_bit_by_bit(made: Plans, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(fire, "MOST", 5)
    made.make()
    made.look(timedelta(hours=2))
    assert made.results() == ["missed"] * 5
    with pytest.raises(Conflict) as caught:
        made.pause()
    assert caught.value.code == "schedule_behind"
    made.look()
    made.look()
    assert made.results() == ["missed"] * 11 + ["fired"]


def test_a_schedule_that_fails_stops_no_other(core: Core, made: Plans):
    """B91"""
    made.make("gone", "mail")
    made.make("broken", "news", environment="production")
    made.make("good")
    known = {name: app for name, app in core.settings.applications.items() if name != "mail"}
    places = dict(known["news"].environments)
    places["production"] = replace(places["production"], targets=None)
    known["news"] = replace(known["news"], environments=places)
    core.configure(applications=known)
    for _ in range(2):
        made.look(TEN)
    assert made.results("gone") == ["refused"] * 2
    assert made.runs("gone")[0]["reason"] == "not_found"
    assert made.results("broken") == ["failed"] * 2
    assert made.results("good")[0] == "fired"
    assert len(core.rows("deploys")) == 1
    assert {deed["detail"]["schedule"] for deed in made.audited("schedule.refused")} == {"gone"}


class Held(ClockedStore):
    """One transaction of it never gets the row it wants."""

    cause: Exception = sa.exc.TimeoutError()
    turns = 0

    def once(self, work: Callable[[Transaction], Any]) -> Any:
        self.turns += 1
        if self.turns == 1:
            raise unavailable(self.cause) from self.cause
        return super().once(work)


def test_a_row_that_is_held_stops_what_wants_it_and_nothing_else(core: Core, made: Plans):
    """B91"""
    for name, place in (("a", "production"), ("b", "production"), ("c", "staging")):
        made.make(name, "shop", environment=place)
    made.clock.forward(TEN)
    store = Held(core.engines, made.clock)
    desk = replace(made.desk, store=store, admission=core.admission.under(store))
    assert fire.fire_due(desk) == 3
    assert [made.results(name) for name in ("a", "b")].count([]) == 2
    assert made.results("c") == ["fired"]
    made.look()
    assert made.results("a") == made.results("b") == ["fired"]


def test_without_a_database_a_round_ends(core: Core, made: Plans):
    made.make()
    made.clock.forward(TEN)
    store = Held(core.engines, made.clock)
    store.cause = NotAnswered()
    with pytest.raises(Unavailable):
        fire.fire_due(replace(made.desk, store=store))


def test_a_schedule_whose_zone_is_gone_is_paused(core: Core, made: Plans):
    made.make("lost")
    made.make("good", "mail")
    with core.store.write() as tx:
        s = tx.tables.schedules
        tx.connection.execute(sa.update(s).where(s.c.name == "lost").values(timezone="Mars/Base"))
    made.look(TEN)
    assert (made.results("lost"), made.results("good")) == (["failed"], ["fired"])
    shown = timetable.one(made.desk, "lost")
    assert (shown["paused_by"], shown["next"]) == ("manent", [])
    assert "Mars/Base" in shown["pause_reason"]
    with pytest.raises(Invalid):
        made.resume("lost")


def test_a_host_without_the_plugin_is_a_failure_of_the_instant_alone(core: Core, made: Plans):
    made.make()
    desk = replace(made.desk, host=Host({}, {}))
    made.clock.forward(TEN)
    fire.fire_due(desk)
    assert made.results() in (["failed"], ["refused"])
    made.look(TEN)
    assert made.results()[-1] == "fired"
