"""What happens when deploys of one application meet in one environment."""

from datetime import timedelta
from typing import Any

import pytest

from manent_server.domain.access import Caller, everywhere
from manent_server.domain.deploy import Outcome
from manent_server.domain.errors import Invalid, NotAllowed, Refused
from manent_server.domain.marks import Sort
from manent_server.domain.rules import Rules
from manent_server.usecases import cancel, explain, inspect, mark, rerun, retry, roll_back, submit
from manent_server.usecases.requests import (
    CancelRequest,
    DeployRequest,
    MarkRequest,
    RerunRequest,
    RollbackRequest,
)
from tests.integration.core.running import Running, good
from tests.rig.core import ADMIN, Core, long_ago


def state(core: Core, deploy: str) -> tuple[str, str | None]:
    row = core.deploy(deploy)
    return row.state, row.outcome


def held(core: Core, sort: Sort = Sort.LOCK, **more: Any) -> str:
    return str(mark.put(core.desk, MarkRequest(sort, "audit", **more), caller=ADMIN)["id"])


def test_unless_told_otherwise_all_run_in_their_order(core: Core):
    """B41: none is dropped."""
    running = Running(core)
    second, third = core.submit(version="2"), core.submit(version="3")
    running.close(Outcome.FAILED)
    core.admit()
    assert core.slots() == [second]
    assert core.deploy(third).state == "ENQUEUED"


def test_the_latest_takes_the_place_of_those_that_wait(core: Core):
    """B41: linked both ways, audited; what runs is left alone."""
    core.change_environment("staging", rules=Rules(collision="latest"))
    running = Running(core)
    second = core.submit(version="2")
    third = core.submit(version="3")
    assert state(core, second) == ("CANCELLED", "superseded")
    assert core.deploy(running.deploy.id).state == "PENDING"
    shown = inspect.deploy(core.desk, third)
    assert (shown["supersedes"], shown["collision"]) == ([second], "latest")
    assert inspect.deploy(core.desk, second)["superseded_by"] == third
    (ended,) = [row for row in core.rows("audit") if row["action"] == "deploy.ended"]
    assert (ended["deploy"], ended["detail"]["superseded_by"]) == (second, third)
    assert f"deploy {third} of 3" in explain.explain(core.desk, second)["summary"]
    running.close(Outcome.FAILED)
    core.admit()
    assert core.slots() == [third]


def test_the_latest_leaves_other_applications_and_environments_alone(core: Core):
    core.submit("mail")
    waiting = core.submit("news"), core.submit("shop", "production")
    core.submit(collision="latest")
    assert [core.deploy(one).state for one in waiting] == ["ENQUEUED", "ENQUEUED"]


def test_the_latest_takes_the_place_of_what_waits_for_the_same_gate(core: Core):
    held(core)
    first = core.submit()
    core.submit(version="2", collision="latest")
    assert state(core, first) == ("CANCELLED", "superseded")


def test_what_waits_longer_takes_no_place_until_its_gates_open(core: Core):
    Running(core)
    ready = core.submit(version="2")
    later = core.submit(version="3", collision="latest", not_before=core.at() + timedelta(hours=1))
    hold = held(core, Sort.HOLD)
    automatic = core.submit(version="4", collision="latest", origin="schedule")
    assert core.deploy(ready).state == "ENQUEUED"
    core.set(later, not_before=long_ago())
    core.admit()
    assert state(core, ready) == ("CANCELLED", "superseded")
    assert core.deploy(automatic).state == "DELAYED"
    mark.lift(core.desk, Sort.HOLD, hold, caller=ADMIN)
    assert core.deploy(later).superseded_by == automatic


def test_the_latest_spares_what_has_its_place_already(core: Core):
    core.worker()
    dispatched = core.submit()
    core.submit(version="2", collision="latest")
    assert core.deploy(dispatched).phase == "dispatched"


def test_a_rollback_neither_takes_a_place_nor_loses_its_own(core: Core):
    for version in ("1", "2"):
        good(core, version)
    for policy in ("latest", "cancel_running", "reject"):
        core.change_environment("staging", rules=Rules(collision=policy))
        running = Running(core, version="3", collision="queue")
        waiting = core.submit(version="4", collision="queue")
        request = RollbackRequest("shop", "staging", reason="bad")
        back = roll_back.roll_back(core.desk, request, caller=ADMIN)["id"]
        assert core.deploy(running.deploy.id).cancel_requested_at is None
        core.submit(version="5", collision="latest")
        assert core.deploy(back).state == "ENQUEUED"
        assert state(core, waiting) == ("CANCELLED", "superseded")
        running.close()
        core.admit()
        assert core.slots() == [back]
        core.submit(version="6", collision="cancel_running")
        assert core.deploy(back).state == "ENQUEUED"
        for row in core.rows("deploys"):
            if row["ended_at"] is None:
                cancel.cancel(core.desk, row["id"], CancelRequest(), caller=ADMIN)


def test_a_busy_place_is_refused_naming_who_is_there(core: Core):
    """B19"""
    running = Running(core)
    with pytest.raises(Refused) as caught:
        core.submit(version="2", collision="reject")
    refusal, row = caught.value, core.deploy(running.deploy.id)
    assert refusal.code == "collision"
    for words in (row.id, "ann", "runs since", "shop in staging"):
        assert words in refusal.detail
    assert f"manent cancel {row.id}" in refusal.next
    blocker = refusal.facts["blocked_by"]
    assert (blocker["id"], blocker["executor"], blocker["alive"]) == (row.id, "w1", True)
    assert (blocker["requested_by"], blocker["command"]) == ("ann", f"manent cancel {row.id}")
    assert blocker["since"]
    assert set(refusal.facts) == set(explain.explain(core.desk, row.id))
    assert len(core.rows("deploys")) == 1
    assert core.deploy(core.submit("mail", collision="reject")).state == "ENQUEUED"


def test_one_in_the_queue_makes_a_place_busy_and_one_at_a_gate_does_not(core: Core):
    """B14: waiting for a gate holds no slot."""
    soon = core.at() + timedelta(hours=1)
    delayed = core.submit(not_before=soon)
    queued = core.submit(version="2", collision="reject")
    assert core.deploy(delayed).state == "DELAYED"
    with pytest.raises(Refused, match=f"deploy {queued} of 2.*is queued since"):
        core.submit(version="3", collision="reject")


def test_one_that_runs_is_cancelled_for_the_next(core: Core):
    core.change_environment("staging", rules=Rules(collision="cancel_running"))
    running = Running(core)
    errand = running.errand()
    running.hand_out(errand)
    following = core.submit(version="2")
    row = core.deploy(running.deploy.id)
    assert (row.cancel_by, row.phase) == ("ann", "cancelling")
    assert following in (row.cancel_reason or "")
    assert core.deploy(following).state == "ENQUEUED"
    assert "deploy.cancel" in {deed["action"] for deed in core.rows("audit")}


def test_one_that_has_not_acted_ends_at_once_for_the_next(core: Core):
    core.worker()
    first = core.submit()
    following = core.submit(version="2", collision="cancel_running")
    assert state(core, first) == ("CANCELLED", "cancelled")
    assert core.slots() == [following]


def test_what_waits_for_a_gate_cancels_nobody_yet(core: Core):
    core.worker()
    first = core.submit()
    lock = held(core)
    core.submit(version="2", collision="cancel_running")
    assert core.deploy(first).phase == "dispatched"
    mark.lift(core.desk, Sort.LOCK, lock, caller=ADMIN)
    assert state(core, first) == ("CANCELLED", "cancelled")


def test_the_policy_is_frozen_with_the_order(core: Core):
    core.worker()
    core.change_environment("staging", rules=Rules(collision="latest"))
    lock = held(core)
    first = core.submit(collision="queue")
    core.change_environment("staging", rules=Rules())
    second = core.submit(version="2", collision="latest", origin="schedule")
    core.change_environment("staging", rules=Rules(collision="cancel_running"))
    mark.lift(core.desk, Sort.LOCK, lock, caller=ADMIN)
    assert core.deploy(first).superseded_by == second


def test_an_unknown_policy_is_refused(core: Core):
    with pytest.raises(Invalid, match="collision 'maybe' is not known"):
        core.submit(collision="maybe")


def test_whoever_may_not_choose_the_place_in_the_queue_has_the_usual_one(
    core: Core, monkeypatch: pytest.MonkeyPatch
):
    from manent_server.domain import access  # noqa: PLC0415 - a role of this test alone

    few = frozenset({access.READ, access.DEPLOY})
    monkeypatch.setitem(access.ROLES, "few", few)  # type: ignore[arg-type]
    dev = Caller("dev", everywhere("few"))
    request = DeployRequest("shop", "staging", "1", priority=5)
    with pytest.raises(NotAllowed, match="prioritise"):
        submit.submit(core.desk, request, caller=dev)
    cancels = DeployRequest("shop", "staging", "1", collision="cancel_running")
    with pytest.raises(NotAllowed, match="cancel"):
        submit.submit(core.desk, cancels, caller=dev)
    running = Running(core, priority=5)
    running.close(Outcome.FAILED)
    again = rerun.rerun(core.desk, running.deploy.id, RerunRequest("prepare"), caller=dev)
    assert again["priority"] == 100


def test_a_retry_of_what_was_overtaken_is_refused_naming_the_later_one(core: Core):
    """B40, B14: only an override passes; a declared rollback is not older."""
    failed = Running(core, version="1")
    failed.close(Outcome.FAILED)
    later = good(core, "2")
    with pytest.raises(Refused, match=f"1 is outdated: deploy {later} of 2 came later") as caught:
        retry.retry(core.desk, failed.deploy.id, RerunRequest(), caller=ADMIN)
    assert (caught.value.code, caught.value.facts["superseded_by"]) == ("outdated", later)
    forced = RerunRequest(override=("outdated",), reason="needed")
    again = retry.retry(core.desk, failed.deploy.id, forced, caller=ADMIN)
    assert again["state"] == "ENQUEUED"


def test_a_retry_overtaken_while_it_waits_ends_superseded(core: Core):
    """B40: it is as old as the deploy it does again."""
    failed = Running(core, version="1")
    failed.close(Outcome.FAILED)
    running = Running(core, version="2")
    again = retry.retry(core.desk, failed.deploy.id, RerunRequest(), caller=ADMIN)["id"]
    running.close(Outcome.DEPLOYED)
    core.admit()
    assert state(core, again) == ("CANCELLED", "superseded")
    assert core.deploy(again).superseded_by == running.deploy.id


def test_a_retry_that_succeeded_overtakes_nothing_younger_than_its_first_deploy(core: Core):
    failed = Running(core, version="1")
    failed.close(Outcome.FAILED)
    lock = held(core)
    younger = core.submit(version="2")
    again = retry.retry(
        core.desk,
        failed.deploy.id,
        RerunRequest(override=("lock",), reason="now"),
        caller=ADMIN,
    )["id"]
    failed.deploy = failed.begin(again)
    failed.close(Outcome.DEPLOYED)
    mark.lift(core.desk, Sort.LOCK, lock, caller=ADMIN)
    assert core.slots() == [younger]


def test_a_success_may_be_done_again_and_again(core: Core):
    deploy = good(core, "1")
    for _ in range(2):
        again = rerun.rerun(core.desk, deploy, RerunRequest("prepare"), caller=ADMIN)["id"]
        running = Running.__new__(Running)
        running.core, running.worker, running.handed = core, core.worker(), {}
        core.admit()
        running.deploy = running.begin(again)
        running.close(Outcome.DEPLOYED)
        deploy = again
