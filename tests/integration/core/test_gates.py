"""Gates in force: what people and rules put in a deploy's way, through the use cases."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from manent_server.domain.access import Caller, everywhere
from manent_server.domain.deploy import Outcome
from manent_server.domain.errors import Invalid, NotAllowed, NotFound, Refused
from manent_server.domain.marks import Sort
from manent_server.domain.rules import Rules
from manent_server.domain.windows import Window
from manent_server.usecases import explain, inspect, mark, roll_back, wake
from manent_server.usecases.requests import MarkRequest, RollbackRequest
from tests.integration.core.running import Running, good
from tests.rig.core import ADMIN, Core, long_ago

DENIED = Window(allows=False, rule="FREQ=DAILY", duration=timedelta(days=2), timezone="UTC")


def put(core: Core, sort: Sort, **more: Any) -> str:
    made = mark.put(core.desk, MarkRequest(sort, "incident 7", **more), caller=ADMIN)
    return str(made["id"])


def gates_of(core: Core, deploy: str) -> list[str]:
    return [gate["gate"] for gate in explain.explain(core.desk, deploy)["gates"]]


@pytest.mark.parametrize(
    ("sort", "phase"),
    [(Sort.LOCK, "locked"), (Sort.FREEZE, "frozen"), (Sort.STOP, "stopped")],
)
def test_what_a_mark_holds_back_says_so_and_goes_on_when_it_is_lifted(
    core: Core, sort: Sort, phase: str
):
    """I9"""
    core.worker()
    held = put(core, sort)
    deploy = core.submit("shop")
    row = core.deploy(deploy)
    assert (row.state, row.phase) == ("DELAYED", phase)
    (gate,) = explain.explain(core.desk, deploy)["gates"]
    assert (gate["gate"], gate["opened_by"]) == (sort, ADMIN.name)
    assert "incident 7" in gate["detail"]
    ways = {"stop": "manent resume-all", "freeze": f"manent unfreeze --id {held}"}
    assert gate["command"] == ways.get(sort, f"manent un{sort}")
    mark.lift(core.desk, sort, held, caller=ADMIN)
    assert core.deploy(deploy).phase == "dispatched"
    actions = [row["action"] for row in core.rows("audit")]
    assert f"{sort}.set" in actions
    assert f"{sort}.lifted" in actions


def test_a_freeze_planned_for_later_closes_nothing_yet(core: Core):
    core.worker()
    put(core, Sort.FREEZE, starts_at=core.at() + timedelta(hours=1))
    assert core.deploy(core.submit("shop")).phase == "dispatched"
    assert [row["starts_at"] is None for row in mark.standing(core.desk, Sort.FREEZE)["items"]] == [
        False
    ]


def test_a_planned_freeze_is_shown_where_it_will_be(core: Core):
    later = core.at() + timedelta(hours=1)
    planned = put(core, Sort.FREEZE, environment="staging", starts_at=later)
    put(core, Sort.FREEZE, environment="production", starts_at=later)
    put(core, Sort.FREEZE, environment="staging")
    shown = inspect.environment(core.desk, "staging")
    assert [row["id"] for row in shown["planned"]] == [planned]
    assert [gate["gate"] for gate in shown["gates"]] == ["freeze"]


def test_all_marks_are_listed_together_and_by_place(core: Core):
    stop = put(core, Sort.STOP)
    lock = put(core, Sort.LOCK, environment="staging", application="shop")
    veto = put(core, Sort.VETO, application="mail", version="9")
    found = mark.standing(core.desk)["items"]
    assert [(one["id"], one["sort"]) for one in found] == [
        (stop, "stop"), (lock, "lock"), (veto, "veto")
    ]  # fmt: skip
    commands = ["manent resume-all", "manent unlock staging --application shop",
                "manent unveto mail 9"]  # fmt: skip
    assert [one["command"] for one in found] == commands
    there = mark.standing(core.desk, Sort.LOCK, Sort.VETO, environment="production")["items"]
    assert [one["id"] for one in there] == [veto]
    with pytest.raises(NotFound, match="no environment nope"):
        mark.standing(core.desk, environment="nope")


def test_a_freeze_must_end_after_it_begins(core: Core):
    soon = core.at() + timedelta(hours=1)
    asked = MarkRequest(Sort.FREEZE, "x", starts_at=soon, expires_at=soon)
    with pytest.raises(Invalid, match="not after starts_at"):
        mark.put(core.desk, asked, caller=ADMIN)


def test_a_vetoed_version_is_refused_with_the_way_out(core: Core):
    put(core, Sort.VETO, application="shop", version="1")
    with pytest.raises(Refused) as caught:
        core.submit("shop")
    assert caught.value.code == "veto"
    assert caught.value.next == "manent unveto shop 1"
    assert [gate["gate"] for gate in caught.value.facts["gates"]] == ["veto"]
    assert core.rows("deploys") == []
    assert core.deploy(core.submit("shop", version="2")).state == "ENQUEUED"


def test_a_veto_holds_a_deploy_that_was_accepted_before(core: Core):
    held = put(core, Sort.LOCK)
    deploy = core.submit("shop")
    veto = put(core, Sort.VETO, application="shop", version="1")
    mark.lift(core.desk, Sort.LOCK, held, caller=ADMIN)
    assert core.deploy(deploy).phase == "vetoed"
    mark.lift(core.desk, Sort.VETO, veto, caller=ADMIN)
    assert core.deploy(deploy).state == "ENQUEUED"


def test_a_veto_names_its_version(core: Core):
    with pytest.raises(Invalid, match="version"):
        mark.put(core.desk, MarkRequest(Sort.VETO, "bad", "shop"), caller=ADMIN)


def test_if_blocked_refuses_every_closed_gate(core: Core):
    put(core, Sort.LOCK, application="shop")
    with pytest.raises(Refused, match="locked"):
        core.submit("shop", if_blocked="refuse")
    core.change_environment("staging", rules=Rules(if_blocked="refuse"))
    with pytest.raises(Refused, match="locked"):
        core.submit("shop")
    assert core.deploy(core.submit("shop", if_blocked="wait")).state == "DELAYED"


def test_a_window_holds_deploys_back_until_it_opens(core: Core):
    core.worker()
    core.change_environment("staging", rules=Rules(windows=(replace(DENIED, reason="year end"),)))
    deploy = core.submit("shop")
    assert core.deploy(deploy).phase == "frozen"
    (gate,) = explain.explain(core.desk, deploy)["gates"]
    assert (gate["gate"], gate["opened_by"]) == ("window", "time")
    assert "year end" in gate["detail"]
    place = inspect.environment(core.desk, "staging")
    assert [gate["gate"] for gate in place["gates"]] == ["window"]
    core.change_environment("staging", rules=Rules())
    core.admit()
    assert core.deploy(deploy).phase == "dispatched"


def test_an_override_needs_a_reason_and_the_right(core: Core):
    put(core, Sort.FREEZE)
    with pytest.raises(Invalid, match="reason"):
        core.submit("shop", override=["freeze"])
    for gate in ("stop", "veto", "approvals"):
        with pytest.raises(Invalid, match="cannot be overridden"):
            core.submit("shop", override=[gate], reason="hotfix")
    core.worker()
    deploy = core.submit("shop", override=["freeze"], reason="hotfix")
    assert core.deploy(deploy).phase == "dispatched"
    (asked,) = [row for row in core.rows("audit") if row["action"] == "deploy.requested"]
    assert asked["detail"]["override"] == ["freeze"]


def test_an_override_opens_no_other_gate(core: Core):
    put(core, Sort.FREEZE)
    put(core, Sort.LOCK)
    deploy = core.submit("shop", override=["freeze"], reason="hotfix")
    assert gates_of(core, deploy) == ["lock"]


def test_each_gate_that_is_passed_is_recorded_before_the_deploy_begins(core: Core):
    """I9, B55"""
    put(core, Sort.FREEZE)
    running = Running(core, override=["freeze"], reason="hotfix")
    (passed,) = [row for row in core.rows("audit") if row["action"] == "gate.passed"]
    assert (passed["deploy"], passed["actor"]) == (running.deploy.id, ADMIN.name)
    assert (passed["detail"]["gate"], passed["detail"]["reason"]) == ("freeze", "hotfix")


def test_a_hold_stops_automation_and_no_person(core: Core):
    core.worker()
    put(core, Sort.HOLD, application="shop", environment="staging")
    assert core.deploy(core.submit("shop")).phase == "dispatched"
    held = core.submit("shop", origin="schedule")
    row = core.deploy(held)
    assert (row.state, row.phase) == ("DELAYED", "held")


def test_a_stop_holds_a_rollback_too(core: Core):
    for version in ("1", "2"):
        good(core, version)
    stop = put(core, Sort.STOP)
    back = roll_back.roll_back(
        core.desk, RollbackRequest("shop", "staging", reason="bad"), caller=ADMIN
    )
    assert core.deploy(back["id"]).phase == "stopped"
    mark.lift(core.desk, Sort.STOP, stop, caller=ADMIN)
    assert core.deploy(back["id"]).state == "ENQUEUED"


def test_a_rollback_passes_a_freeze_and_its_rules_decide(core: Core):
    """B55"""
    for version in ("1", "2"):
        good(core, version)
    put(core, Sort.FREEZE)
    request = RollbackRequest("shop", "staging", reason="bad")
    back = roll_back.roll_back(core.desk, request, caller=ADMIN)
    assert core.deploy(back["id"]).state == "ENQUEUED"
    named = roll_back.roll_back(core.desk, replace(request, to="1"), caller=ADMIN)
    assert core.deploy(named["id"]).phase == "frozen"
    core.change_environment("staging", rules=Rules(rollback_passes=()))
    core.admit()
    again = roll_back.roll_back(core.desk, request, caller=ADMIN)
    assert core.deploy(again["id"]).phase == "frozen"


def test_only_who_may_sets_and_lifts(core: Core):
    viewer = Caller("vic", everywhere("viewer"))
    for sort in Sort:
        with pytest.raises(NotAllowed):
            mark.put(core.desk, MarkRequest(sort, "x", version="1"), caller=viewer)
        with pytest.raises(NotAllowed):
            mark.lift(core.desk, sort, "x", caller=viewer)
        with pytest.raises(NotFound):
            mark.lift(core.desk, sort, "x", caller=ADMIN)


def test_a_lock_is_not_lifted_as_a_freeze(core: Core):
    held = put(core, Sort.LOCK)
    with pytest.raises(NotFound):
        mark.lift(core.desk, Sort.FREEZE, held, caller=ADMIN)


def test_a_freeze_that_expires_lets_go(core: Core):
    core.worker()
    put(core, Sort.FREEZE, expires_at=core.at() + timedelta(hours=1))
    deploy = core.submit("shop")
    assert core.deploy(deploy).phase == "frozen"
    with core.store.write() as tx:
        tx.connection.execute(tx.tables.marks.update().values(expires_at=long_ago()))
        tx.connection.execute(tx.tables.wakes.update().values(at=long_ago()))
    wake.wake_due(core.desk)
    assert core.deploy(deploy).phase == "dispatched"


def test_the_next_good_deploy_of_a_person_lifts_the_hold_of_a_rollback(core: Core):
    """A rollback holds automation back until somebody has deployed again."""
    for version in ("1", "2"):
        good(core, version)
    failed = Running(core, version="3")
    failed.close(Outcome.ROLLED_BACK)
    (hold,) = mark.standing(core.desk, Sort.HOLD)["items"]
    assert hold["automatic"]
    Running(core, version="4").close(Outcome.FAILED)
    assert len(mark.standing(core.desk, Sort.HOLD)["items"]) == 1
    by_hand = put(core, Sort.HOLD, application="shop", environment="staging")
    good(core, "5")
    assert [one["id"] for one in mark.standing(core.desk, Sort.HOLD)["items"]] == [by_hand]
