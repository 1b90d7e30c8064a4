"""A person ends a wait for time; what people and rules have closed stays closed."""

from datetime import timedelta

import pytest

from manent_server.domain.access import Caller, everywhere
from manent_server.domain.errors import Conflict, NotAllowed
from manent_server.domain.marks import Sort
from manent_server.domain.promotion import Rule
from manent_server.domain.rules import Rules
from manent_server.engine import prelude
from manent_server.store import records, work
from manent_server.usecases import mark, promote, skip_wait, wake
from manent_server.usecases.requests import MarkRequest, PromotionRequest, SkipRequest
from tests.integration.core.running import Running, good
from tests.rig.core import ADMIN, Core

REQUEST = SkipRequest("the fair begins earlier")


def skip(core: Core, deploy: str) -> None:
    skip_wait.skip_wait(core.desk, deploy, REQUEST, caller=ADMIN)


def skipped(core: Core) -> list[tuple[str, list[str], str]]:
    return [
        (row["actor"], row["detail"]["skipped"], row["detail"]["reason"])
        for row in core.rows("audit")
        if row["action"] == "deploy.wait_skipped"
    ]


def test_a_start_in_the_future_need_not_be_waited_for(core: Core):
    core.worker()
    deploy = core.submit(not_before=core.at() + timedelta(hours=1))
    skip(core, deploy)
    assert core.slots() == [deploy]
    assert skipped(core) == [("ann", ["schedule"], REQUEST.reason)]


def test_the_soak_of_a_promotion_need_not_be_waited_for(core: Core):
    core.worker()
    rule = Rule(("staging",), soak=timedelta(hours=1))
    core.change_environment("production", rules=Rules(promotion=rule))
    good(core, "1")
    request = PromotionRequest("shop", "staging", "production")
    deploy = promote.promote(core.desk, request, caller=ADMIN)["id"]
    skip(core, deploy)
    row = core.deploy(deploy)
    assert (row.phase, row.override) == ("dispatched", ["soak"])
    claim = core.claim(deploy, row.dispatch, core.worker())
    with core.store.write() as tx:
        prelude.begin(tx, claim, core.dispatcher)
    (passed,) = [row for row in core.rows("audit") if row["action"] == "gate.passed"]
    assert passed["detail"]["gate"] == "soak"


def test_the_wait_between_waves_ends_and_its_time_goes_back(core: Core):
    core.change_placement(
        "shop",
        "staging",
        targets={"a": {}, "b": {}},
        waves=(("a",), ("b",)),
        soak=timedelta(hours=1),
    )
    running = Running(core)
    for name in ("deploy:a", "verify:a"):
        running.perform(name)
    at = core.at()
    with core.store.write() as tx:
        row = running.deploy
        work.update_step(tx, row.id, 1, "soak:1", state="running", started_at=at)
        records.wake(tx, row.id, at + timedelta(hours=1), "soak")
    later = at + timedelta(hours=2)
    core.set(row.id, executor=None, incarnation=None, phase="soaking", deadline_at=later)
    skip(core, row.id)
    assert core.steps(row.id)["soak:1"].state == "succeeded"
    left = core.deploy(row.id).deadline_at
    assert left is not None
    assert abs(left - at - timedelta(hours=1)) < timedelta(minutes=1)
    assert wake.wake_due(core.desk) == 1
    assert core.deploy(row.id).dispatch == row.dispatch + 1
    assert skipped(core) == [("ann", ["soak:1"], REQUEST.reason)]


def test_no_gate_that_a_person_closed_is_skipped(core: Core):
    mark.put(core.desk, MarkRequest(Sort.FREEZE, "audit"), caller=ADMIN)
    frozen = core.submit()
    with pytest.raises(Conflict, match="waits for no timer"):
        skip(core, frozen)
    both = core.submit("mail", not_before=core.at() + timedelta(hours=1))
    skip(core, both)
    assert core.deploy(both).phase == "frozen"


def test_what_runs_or_has_ended_waits_for_nothing(core: Core):
    running = Running(core)
    for deploy in (running.deploy.id, good(core, "2") if running.close() else ""):
        with pytest.raises(Conflict) as caught:
            skip(core, deploy)
        assert caught.value.code == "no_wait"
    assert skipped(core) == []


def test_it_needs_the_right_to_override(core: Core):
    deploy = core.submit(not_before=core.at() + timedelta(hours=1))
    with pytest.raises(NotAllowed, match="override"):
        skip_wait.skip_wait(core.desk, deploy, REQUEST, caller=Caller("vic", everywhere("viewer")))
