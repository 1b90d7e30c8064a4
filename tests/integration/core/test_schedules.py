"""Schedules: every instant that comes fires once or is listed with what became of it."""

import threading
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa

from manent_server.domain.access import Caller, everywhere
from manent_server.domain.approval import Rule
from manent_server.domain.errors import (
    Conflict,
    Invalid,
    KeyReused,
    NotAllowed,
    NotFound,
    Refused,
)
from manent_server.usecases import fire, inspect, pause, schedule, timetable
from manent_server.usecases.requests import IdempotencyKey, ScheduleRequest
from tests.integration.core import approving
from tests.integration.core.planning import MINUTE, NOON, Plans, plans
from tests.rig.core import ADMIN, Core, engine_version

TEN = 10 * MINUTE
REQUEST = ScheduleRequest("nightly", "shop", "staging", "*/10 * * * *", version="1")


@pytest.fixture
def made(core: Core) -> Plans:
    return plans(core)


# Firing


def test_an_instant_fires_once_as_a_deploy_like_any_other(core: Core, made: Plans):
    """I14"""
    shown = made.make(reason="keep it fresh")
    assert made.look() == 0
    assert made.look(TEN) == 1
    assert made.look() == 0
    (run,) = made.runs()
    assert (run["result"], run["at"]) == ("fired", "2027-06-01T12:10:00.000000Z")
    row = core.deploy(run["deploy"])
    assert (row.version, row.requested_by, row.origin) == ("1", "schedule:nightly", "schedule")
    assert (row.state, row.reason) == ("ENQUEUED", "keep it fresh")
    found = inspect.deploy(core.desk, row.id)
    assert found["schedule"] == {"name": "nightly", "at": run["at"]}
    (deed,) = made.audited("schedule.fired")
    assert (deed["actor"], deed["deploy"]) == ("schedule:nightly", row.id)
    assert timetable.one(made.desk, shown["id"])["last"] == run


def test_whoever_is_behind_the_program_that_made_it_must_not_approve(core: Core, made: Plans):
    """What a rule would refuse at the door does not come in by a schedule."""
    ci = Caller("ci", everywhere("deployer"), "service")
    wants_to_know = Rule("release", unknown_requester="refuse")
    approving.ask(core, Rule("release", unknown_requester="allow"))
    for name, by in (("nobodys", ci), ("bobs", replace(ci, acts_for="bob")), ("anns", ADMIN)):
        schedule.schedule(made.desk, replace(REQUEST, name=name), caller=by)
    change = {"id": "c", "author": "joe", "at": "2027-01-01T00:00:00Z"}
    core.submit("shop", "production", "1", changes=[change])
    approving.ask(core, wants_to_know)
    with pytest.raises(Refused) as refused:
        schedule.schedule(made.desk, replace(REQUEST, name="late"), caller=ci)
    assert refused.value.code == "requester_unknown"
    made.look(TEN)
    assert [(run["result"], run["reason"]) for run in made.runs("nobodys")] == [
        ("refused", "requester_unknown")
    ]
    for name, person in (("bobs", approving.BOB), ("anns", approving.ANN)):
        (run,) = made.runs(name)
        approving.resolve(core)
        with pytest.raises(NotAllowed, match="acts for"):
            approving.say(core, run["deploy"], person)
        with pytest.raises(NotAllowed, match="wrote one of its changes"):
            approving.say(core, run["deploy"], approving.JOE)
        assert approving.say(core, run["deploy"], approving.EVE)["approvers"] == ["eve"]


def test_a_person_is_no_schedule(core: Core):
    row = core.deploy(core.submit())
    assert row.origin == "request"
    assert inspect.deploy(core.desk, row.id)["schedule"] is None


def test_any_number_of_servers_fire_an_instant_once(core: Core, made: Plans):
    """B89: also servers that both take themselves for the holder of the lease."""
    for application in ("shop", "mail", "news"):
        made.make(application, application)
    made.clock.forward(TEN)
    servers = [threading.Thread(target=fire.fire_due, args=(made.desk,)) for _ in range(4)]
    for server in servers:
        server.start()
    for server in servers:
        server.join()
    assert [made.results(name) for name in ("shop", "mail", "news")] == [["fired"]] * 3
    assert len(core.rows("deploys")) == 3


def test_a_deploy_is_given_to_the_workers_there_are_when_it_starts(core: Core, made: Plans):
    """B136: in a rolling restart nothing is left to a version that nobody runs any more."""
    versions = ["0.1.0", "0.2.0", "0.3.0"]
    core.worker("w1", version=versions[0], heartbeat_at=NOON + timedelta(days=1))
    made.make(cron="* * * * *")
    for version in versions:
        core.set_worker("w1", version=version)
        made.look(MINUTE)
        deploy = made.fired()[-1]
        assert engine_version(core, deploy) == core.deploy(deploy).workflow_version == version
        core.set(deploy, state="SUCCESS", outcome="deployed")
        with core.store.write() as tx:
            tx.connection.execute(sa.delete(tx.tables.slots))
    assert made.results() == ["fired"] * 3


def test_the_run_and_its_deploy_are_one_transaction(core: Core, made: Plans):
    made.make()
    made.clock.forward(TEN)

    class Crash(BaseException):
        """The process ends here."""

    def crash() -> None:
        with made.desk.store.write() as tx:
            fire._settle(tx, desk=made.desk, schedule=core.rows("schedules")[0]["id"])
            assert tx.connection.execute(sa.select(tx.tables.deploys)).all()
            raise Crash

    with pytest.raises(Crash):
        crash()
    assert core.rows("deploys") == core.rows("schedule_runs") == []
    made.look()
    assert made.results() == ["fired"]


# Overlap


def test_at_most_one_of_a_schedule_waits_or_runs(core: Core, made: Plans):
    """B43: every minute, each deploy takes 150 s, for 30 minutes."""
    made.make(cron="* * * * *")
    began: dict[str, datetime] = {}
    for _ in range(30):
        made.look(MINUTE)
        for deploy in made.fired():
            since = began.setdefault(deploy, made.clock.at)
            if made.clock.at - since >= timedelta(seconds=120):
                made.end(deploy)
        live = [row for row in core.rows("deploys") if row["state"] != "SUCCESS"]
        assert len(live) <= 1
    assert len(made.runs()) == 30
    assert made.results()[:6] == ["fired", "skipped", "skipped"] * 2
    skipped = [run for run in made.runs() if run["result"] == "skipped"]
    assert {run["reason"] for run in skipped} == {"overlap"}
    assert len(made.audited("schedule.skipped")) == len(skipped) == 20


def test_with_queue_one_may_wait_behind_the_one_that_runs(core: Core, made: Plans):
    made.make(overlap="queue")
    made.look(TEN)
    made.look(TEN)
    core.set(made.fired()[0], state="PENDING", started_at=NOON)
    made.look(TEN)
    made.look(TEN)
    assert made.results() == ["fired", "skipped", "fired", "skipped"]


# Editing


def test_nothing_but_time_fires(core: Core, made: Plans):
    """I14: making, pausing, resuming, deleting and reloading fire nothing."""
    made.make()
    made.clock.forward(5 * MINUTE)
    made.pause(reason="audit")
    made.clock.forward(3 * TEN)
    made.resume()
    core.configure()
    made.look()
    assert made.runs() == []
    assert made.look(5 * MINUTE) == 1
    assert made.results() == ["fired"]
    made.clock.forward(TEN)
    made.delete()
    made.look()
    assert len(core.rows("deploys")) == 1


def test_what_came_before_a_pause_and_did_not_fire_is_listed(made: Plans):
    shown = made.make()
    made.clock.forward(2 * TEN)
    made.pause()
    made.resume()
    made.clock.forward(TEN)
    made.delete()
    assert made.results(shown["id"]) == ["missed"] * 3
    assert {run["reason"] for run in made.runs(shown["id"])} == {"stopped"}


def test_a_pause_is_shown_and_repeated_without_harm(made: Plans):
    made.make()
    shown = made.pause(reason="audit")
    assert (shown["paused_by"], shown["pause_reason"], shown["next_at"]) == ("ann", "audit", None)
    assert len(timetable.preview(made.desk, "nightly")["items"]) == 5
    made.clock.forward(TEN)
    assert made.pause(reason="again") == shown
    again = made.resume()
    assert (again["paused_at"], again["next_at"]) == (None, "2027-06-01T12:20:00.000000Z")
    assert made.resume() == again
    assert [len(made.audited(f"schedule.{word}")) for word in ("paused", "resumed")] == [1, 1]


def test_a_deleted_schedule_gives_its_name_away_and_keeps_its_past(made: Plans):
    old = made.make()
    made.look(TEN)
    gone = made.delete()
    assert gone["deleted_by"] == "ann"
    assert made.delete(old["id"]) == gone
    assert made.pause(old["id"]) == made.resume(old["id"]) == gone
    with pytest.raises(NotFound):
        made.delete()
    new = made.make()
    assert new["id"] != old["id"]
    assert timetable.one(made.desk, "nightly")["id"] == new["id"]
    assert made.results(old["id"]) == ["fired"]
    assert [item["id"] for item in timetable.every(made.desk)["items"]] == [new["id"]]


def test_a_clock_that_is_set_back_fires_nothing_again(made: Plans):
    made.make()
    made.look(TEN)
    made.end(made.fired()[0])
    made.clock.forward(-TEN)
    made.pause()
    made.resume()
    for _ in range(3):
        made.look(5 * MINUTE)
    assert [run["at"][11:16] for run in made.runs()] == ["12:10"]
    made.look(5 * MINUTE)
    assert [run["at"][11:16] for run in made.runs()] == ["12:10", "12:20"]


def test_what_waits_survives_a_reload(core: Core, made: Plans):
    """B92: three deploys of schedules behind a busy place, the same configuration again."""
    core.worker(heartbeat_at=NOON + timedelta(days=1))
    busy = core.submit()
    assert core.slots() == [busy]
    for name in ("a", "b", "c"):
        made.make(name)
    made.look(TEN)
    waiting = [made.fired(name) for name in ("a", "b", "c")]
    core.configure()
    core.admit()
    assert [made.fired(name) for name in ("a", "b", "c")] == waiting
    assert [core.deploy(deploy).phase for (deploy,) in waiting] == ["queued"] * 3
    made.look(TEN)
    assert made.results("a") == ["fired", "skipped"]


# Asking


def test_only_who_may_makes_one(made: Plans):
    for act in (schedule.schedule, pause.pause, pause.resume, pause.delete):
        with pytest.raises(NotAllowed):
            act(made.desk, REQUEST, caller=Caller("vic", everywhere("viewer")))


def test_a_key_is_one_schedule(core: Core, made: Plans):
    key = IdempotencyKey("k", "/schedules", "body")
    first = schedule.schedule(made.desk, REQUEST, caller=ADMIN, key=key)
    assert schedule.schedule(made.desk, REQUEST, caller=ADMIN, key=key) == first
    other = IdempotencyKey("k", "/schedules", "other")
    with pytest.raises(KeyReused):
        schedule.schedule(made.desk, REQUEST, caller=ADMIN, key=other)
    with pytest.raises(Conflict) as caught:
        schedule.schedule(made.desk, REQUEST, caller=ADMIN)
    assert caught.value.code == "schedule_exists"
    assert len(core.rows("schedules")) == 1


def test_a_key_pauses_once(made: Plans):
    made.make()
    key = IdempotencyKey("k", "/schedules/nightly/pause", "body")
    made.pause(key=key)
    made.resume()
    assert made.pause(key=key)["paused_at"] is None


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"timezone": "Mars/Rome"}, "timezone"),
        ({"version": None}, "version"),
        ({"newest": True}, "version"),
        ({"source": "staging", "version": None}, "from"),
        ({"overlap": "all"}, "overlap"),
        ({"catch_up": "5"}, "catch_up"),
        ({"catch_up": "0s"}, "catch_up"),
    ],
)
def test_what_makes_no_sense_is_refused(made: Plans, wrong: dict[str, Any], field: str):
    with pytest.raises(Invalid) as caught:
        schedule.schedule(made.desk, replace(REQUEST, **wrong), caller=ADMIN)
    assert [error["path"] for error in caught.value.errors] == [field]


def test_what_is_unknown_is_named(made: Plans):
    for wrong in ({"application": "chop"}, {"environment": "stagin"}):
        with pytest.raises(NotFound):
            schedule.schedule(made.desk, replace(REQUEST, **wrong), caller=ADMIN)
    with pytest.raises(NotFound):
        timetable.one(made.desk, "nightly")


def test_the_next_instants_are_shown_with_their_offset(made: Plans):
    made.clock.at = datetime(2027, 10, 30, 12, tzinfo=ZoneInfo("UTC"))
    asked = timetable.draft(made.desk, "30 2 * * *", "Europe/Rome", count=2)["items"]
    assert [item["local"] for item in asked] == [
        "2027-10-31T02:30:00+02:00",
        "2027-11-01T02:30:00+01:00",
    ]
    shown = made.make(cron="30  2 * * *", timezone="Europe/Rome", catch_up="90m")
    assert shown["next"][:2] == asked
    assert timetable.preview(made.desk, "nightly", count=2)["items"] == asked
    assert (shown["cron"], shown["catch_up"]) == ("30 2 * * *", "1h30m")
    with pytest.raises(Invalid):
        timetable.preview(made.desk, "nightly", count=101)


def test_schedules_are_listed_by_place_and_their_runs_in_pages(made: Plans):
    made.make("a")
    made.make("b", "mail", environment="production")
    names = [item["name"] for item in timetable.every(made.desk)["items"]]
    assert names == ["a", "b"]
    only = timetable.every(made.desk, application="mail", environment="production")["items"]
    assert [item["name"] for item in only] == ["b"]
    assert timetable.every(made.desk, environment="manual")["items"] == []
    with pytest.raises(NotFound):
        timetable.every(made.desk, application="chop")
    made.look(3 * TEN)
    first = timetable.runs(made.desk, "a", limit=2)
    assert [run["result"] for run in first["items"]] == ["fired", "missed"]
    before = datetime.fromisoformat(first["next"])
    rest = timetable.runs(made.desk, "a", before=before, limit=2)
    assert ([run["result"] for run in rest["items"]], rest["next"]) == (["missed"], None)
