"""A plan says what a deploy would do, and does nothing."""

from datetime import timedelta
from typing import Any

import pytest

from manent_server.domain.access import Caller, everywhere
from manent_server.domain.errors import NotFound, Refused
from manent_server.domain.marks import Sort
from manent_server.domain.promotion import Rule
from manent_server.domain.rules import Rules
from manent_server.usecases import explain, mark, plan
from manent_server.usecases.requests import DeployRequest, MarkRequest
from tests.integration.core.running import Running, good
from tests.rig.core import ADMIN, Core

TABLES = ("deploys", "audit", "wakes", "slots", "keys", "environments", "marks", "inventory")


def ask(core: Core, version: str | None = "2", **more: Any) -> dict[str, Any]:
    at = more.pop("at", None)
    environment = more.pop("environment", "staging")
    request = DeployRequest("shop", environment, version, **more)
    return plan.plan(core.desk, request, caller=ADMIN, at=at)


def test_it_says_what_would_change(core: Core):
    found = ask(core)
    assert (found["version"], found["changes"]) == ({"from": None, "to": "2"}, True)
    assert found["targets"] == [{"target": "web", "from": None, "to": "2", "state": "new"}]
    good(core, "1")
    found = ask(core)
    assert found["version"] == {"from": "1", "to": "2"}
    assert (found["configuration"], found["waves"]) == ([], [["web"]])
    assert ask(core, "1")["changes"] is False
    assert ask(core, None, kind="redeploy")["version"] == {"from": "1", "to": "1"}


def test_keys_that_differ_are_named_and_no_value_is(core: Core):
    core.change_placement("shop", "staging", targets={"web": {"token": "secret://env/OLD"}})
    good(core, "1")
    core.change_placement("shop", "staging", targets={"web": {"token": "secret://env/NEW"}})
    found = ask(core, "1")
    assert found["configuration"] == [{"key": "targets.web.token", "change": "changed"}]
    assert found["changes"]
    assert "secret://" not in str(found)


def test_nothing_is_created(core: Core):
    Running(core)
    mark.put(core.desk, MarkRequest(Sort.LOCK, "audit", "mail"), caller=ADMIN)
    before = {table: core.rows(table) for table in TABLES}
    for more in ({}, {"collision": "cancel_running"}, {"collision": "latest"}, {"sequence": 5}):
        ask(core, **more)
    with pytest.raises(NotFound):
        ask(core, targets=("nowhere",))
    assert {table: core.rows(table) for table in TABLES} == before


@pytest.mark.parametrize("cause", ["nothing", "lock", "veto", "refuse", "evidence", "busy"])
def test_it_says_what_the_deploy_would_then_meet(core: Core, cause: str):
    """The same request, planned and asked: the same gates, the same refusal."""
    more: dict[str, Any] = {}
    if cause in ("lock", "refuse"):
        mark.put(core.desk, MarkRequest(Sort.LOCK, "audit"), caller=ADMIN)
        more = {"if_blocked": "refuse"} if cause == "refuse" else {}
    if cause == "veto":
        mark.put(core.desk, MarkRequest(Sort.VETO, "bad", "shop", version="2"), caller=ADMIN)
    if cause == "evidence":
        core.change_environment("staging", rules=Rules(promotion=Rule(("manual",))))
    if cause == "busy":
        Running(core)
        more = {"collision": "reject"}
    found = ask(core, **more)
    if cause in ("nothing", "lock"):
        assert found["refusal"] is None
        shown = explain.explain(core.desk, core.submit(version="2", **more))["gates"]
        assert [gate["gate"] for gate in found["gates"]] == [gate["gate"] for gate in shown]
        return
    with pytest.raises(Refused) as caught:
        core.submit(version="2", **more)
    assert (found["refusal"]["code"], found["refusal"]["detail"]) == (
        caught.value.code,
        caught.value.detail,
    )


def test_it_tells_the_gates_of_another_time(core: Core):
    at = core.at()
    until = at + timedelta(hours=2)
    begin = {"starts_at": at + timedelta(hours=1), "expires_at": until}
    mark.put(core.desk, MarkRequest(Sort.FREEZE, "fair", **begin), caller=ADMIN)

    def gates(hours: int) -> list[str]:
        return [gate["gate"] for gate in ask(core, at=at + timedelta(hours=hours))["gates"]]

    assert (gates(0), gates(1), gates(3)) == ([], ["freeze"], [])
    core.change_environment(
        "production", rules=Rules(promotion=Rule(("staging",), soak=timedelta(hours=1)))
    )
    good(core, "1")
    wanted = {"version": "1", "environment": "production"}
    assert [gate["gate"] for gate in ask(core, **wanted)["gates"]] == ["soak"]
    assert ask(core, at=at + timedelta(hours=3), **wanted)["gates"] == []


def test_it_tells_the_place_in_the_queue(core: Core):
    running = Running(core)
    waiting = core.submit("mail")
    place = ask(core)["queue"]
    assert (place["position"], place["ahead"]) == (2, [waiting])
    assert place["blocked_by"] == {"id": running.deploy.id, "executor": "w1", "alive": True}
    assert ask(core, priority=5)["queue"]["position"] == 1


def test_whoever_may_read_may_plan(core: Core):
    request = DeployRequest("shop", "staging", "2")
    assert plan.plan(core.desk, request, caller=Caller("vic", everywhere("viewer")))["changes"]
