"""Waves, tries, limits, cancel and rollback, as hooks and rows show them."""

import time
from typing import Any

import pytest

from tests.rig.ledger import Ledger
from tests.rig.process import until
from tests.rig.serve import Config, Rig

pytestmark = pytest.mark.e2e

QUICK = {"attempts": 3, "initial": "100ms", "factor": 2, "cap": "1s", "total": "1m"}
APPLICATIONS: dict[str, dict[str, Any]] = {
    "waves": {"targets": ("a", "b", "c", "d"), "waves": [1, "50%", "rest"], "max_parallel": 2},
    "tries": {"retry": QUICK},
    "limits": {"timeout": "3s", "retry": {**QUICK, "attempts": 1}},
    "due": {"deadline": "5s", "retry": {**QUICK, "attempts": 20}},
    "cancels": {},
    "soaks": {"targets": ("a", "b"), "waves": [1, "rest"], "soak": "6s", "deadline": "7s"},
    "checks": {"hooks": ("deploy", "rollback", "verify"), "retry": {**QUICK, "attempts": 1}},
    "chatty": {},
    "dirty": {"retry": {**QUICK, "attempts": 2}},
    "locked": {"targets": ("a", "b"), "waves": [1, "rest"]},
}


def config(ledger: Ledger) -> Config:
    return {
        "environments": {"staging": {"concurrency": 20}},
        "applications": {
            name: ledger.application(**options) for name, options in APPLICATIONS.items()
        },
    }


def went(rig: Rig, deploy: dict[str, Any]) -> list[tuple[str, str, str]]:
    """What was run, in order: hook, target, version to be in place."""
    return [(r.hook, r.target, r.version) for r in rig.ledger.runs(deploy=deploy["id"])]


def stock(rig: Rig, application: str) -> dict[str, tuple[str | None, str]]:
    rows = rig.get("/inventory", application=application)["items"]
    return {row["target"]: (row["version"], row["state"]) for row in rows}


def test_waves_go_one_after_the_other_and_targets_side_by_side(shared: Rig) -> None:
    shared.ledger.tell({"sleep": 0.1}, application="waves")
    for target in ("b", "c"):  # so long that they meet also where a start takes long
        shared.ledger.tell({"sleep": 2}, application="waves", target=target)
    ended = shared.deployed("1", application="waves")
    runs = {run.target: run for run in shared.ledger.runs(deploy=ended["id"])}
    assert sorted(runs) == ["a", "b", "c", "d"]
    assert runs["a"].until <= runs["b"].started
    assert runs["b"].overlaps(runs["c"])
    assert max(runs["b"].until, runs["c"].until) <= runs["d"].started
    assert set(stock(shared, "waves").values()) == {("1", "known")}


def test_a_failed_wave_is_undone_on_the_touched_targets_alone(shared: Rig) -> None:
    good = shared.deployed("1", application="waves")
    assert good["outcome"] == "deployed"
    shared.ledger.tell({"exit": 65}, application="waves", hook="deploy", version="2", target="c")
    failed = shared.deployed("2", application="waves")
    assert (failed["state"], failed["outcome"]) == ("ERROR", "rolled_back")
    assert failed["error"]["step"] == "deploy:c"
    ran = went(shared, failed)
    assert sorted(ran[:3]) == [("deploy", t, "2") for t in ("a", "b", "c")]
    assert ran[3:] == [("rollback", t, "1") for t in ("c", "b", "a")]
    previous = {run.previous for run in shared.ledger.runs(deploy=failed["id"], hook="rollback")}
    assert previous == {"2"}
    assert set(stock(shared, "waves").values()) == {("1", "known")}


def test_a_failed_hook_is_tried_again_within_its_policy(shared: Rig) -> None:
    shared.ledger.tell({"exit": 1}, application="tries", hook="deploy")
    shared.ledger.tell({"exit": 0}, application="tries", hook="deploy", attempt=3)
    ended = shared.deployed("1", application="tries")
    assert ended["outcome"] == "deployed"
    attempts = shared.get(f"/deploys/{ended['id']}/attempts")["items"]
    mine = [(a["attempt"], a["result"]) for a in attempts if a["step"] == "deploy:host"]
    assert mine == [(1, "failed"), (2, "failed"), (3, "succeeded")]
    first, second, third = shared.ledger.runs(deploy=ended["id"], hook="deploy")
    assert second.started - first.until >= 0.1
    assert third.started - second.until >= 0.2
    assert len({run.key for run in (first, second, third)}) == 1


def test_a_permanent_failure_is_not_tried_again(shared: Rig) -> None:
    shared.ledger.tell({"exit": 65}, application="tries", hook="deploy", version="9")
    ended = shared.deployed("9", application="tries")
    assert ended["state"] == "ERROR"
    assert len(shared.ledger.runs(deploy=ended["id"], hook="deploy")) == 1


def test_a_hook_may_ask_to_be_tried_later(shared: Rig) -> None:
    order = {"exit": 75, "last": "retry_after=1s"}
    shared.ledger.tell(order, application="tries", hook="deploy", version="10", attempt=1)
    ended = shared.deployed("10", application="tries")
    assert ended["outcome"] == "deployed"
    first, second = shared.ledger.runs(deploy=ended["id"], hook="deploy")
    assert second.started - first.until >= 1


def test_a_hook_past_its_timeout_is_ended_with_all_its_processes(shared: Rig) -> None:
    shared.ledger.tell(
        {"sleep": 60, "tick": 0.1, "child": 60, "ignore_term": True}, application="limits"
    )
    ended = shared.deployed("1", application="limits")
    assert (ended["state"], ended["error"]["code"]) == ("ERROR", "timed_out")
    (run,) = shared.ledger.runs(deploy=ended["id"], hook="deploy")
    (child,) = shared.ledger.children(deploy=ended["id"], hook="deploy")
    # It has begun within its time, and has a second to end in peace.
    assert 0.2 <= run.until - run.started <= 10
    seen = child.until
    time.sleep(0.5)  # the thing under test: it must not tick any more
    (child,) = shared.ledger.children(deploy=ended["id"], hook="deploy")
    assert child.until == seen


def test_the_deadline_ends_a_deploy_that_keeps_trying(shared: Rig) -> None:
    shared.deployed("1", application="due")
    shared.ledger.tell({"exit": 1}, application="due", hook="deploy", version="2")
    began = time.monotonic()
    ended = shared.deployed("2", application="due")
    assert 4.5 <= time.monotonic() - began <= 30
    assert (ended["outcome"], ended["error"]["code"]) == ("rolled_back", "deadline")


def test_the_deadline_ends_a_running_hook(shared: Rig) -> None:
    shared.deployed("1", application="due")
    shared.ledger.tell({"sleep": 60}, application="due", hook="deploy", version="3")
    ended = shared.deployed("3", application="due")
    assert (ended["outcome"], ended["error"]["code"]) == ("rolled_back", "deadline")
    (run,) = shared.ledger.runs(deploy=ended["id"], hook="deploy")
    assert run.ended is None or run.exit != 0


def test_a_soak_between_waves_takes_its_time_and_none_of_the_deadline(shared: Rig) -> None:
    shared.ledger.tell({"sleep": 0.8}, application="soaks")
    ended = shared.deployed("1", application="soaks")
    assert ended["outcome"] == "deployed"
    first, second = shared.ledger.runs(deploy=ended["id"])
    assert second.started - first.until >= 6


def test_a_failed_verification_fails_the_deploy(shared: Rig) -> None:
    shared.deployed("1", application="checks")
    shared.ledger.tell({"exit": 65}, application="checks", hook="verify", version="2")
    ended = shared.deployed("2", application="checks")
    assert (ended["outcome"], ended["error"]["step"]) == ("rolled_back", "verify:host")
    hooks = [run.hook for run in shared.ledger.runs(deploy=ended["id"])]
    assert hooks == ["deploy", "verify", "rollback"]
    assert stock(shared, "checks") == {"host": ("1", "known")}


def test_a_waiting_deploy_is_cancelled_at_once(shared: Rig) -> None:
    """B67: cancelling what waits does not wait for what runs."""
    go = shared.folder / "cancels"
    shared.ledger.tell({"wait_for": str(go)}, application="cancels", version="1")
    running = shared.deploy("1", application="cancels")
    until(lambda: shared.ledger.runs(deploy=running["id"]), what="the hook to begin")
    waiting = shared.deploy("2", application="cancels")
    assert waiting["state"] == "ENQUEUED"
    answer = shared.http("POST", f"/deploys/{waiting['id']}/cancel", json={"reason": "no"})
    assert (answer.status_code, answer.json()["state"]) == (200, "CANCELLED")
    assert answer.json()["cancel"]["reason"] == "no"
    go.touch()
    assert shared.ended(running["id"])["outcome"] == "deployed"
    assert shared.ledger.runs(deploy=waiting["id"]) == []


def test_a_running_deploy_is_cancelled_with_its_whole_tree(shared: Rig) -> None:
    """B63, B69: told within five seconds; the place is free only when the tree is dead."""
    order = {"sleep": 600, "tick": 0.1, "child": 600, "ignore_term": True}
    shared.ledger.tell(order, application="cancels", version="3")
    deploy = shared.deploy("3", application="cancels")
    until(lambda: shared.ledger.children(deploy=deploy["id"]), what="the grandchild")
    following = shared.deploy("4", application="cancels")
    answer = shared.http("POST", f"/deploys/{deploy['id']}/cancel", json={}).json()
    assert (answer["state"], answer["phase"]) == ("PENDING", "cancelling")
    ended = shared.ended(deploy["id"])
    assert (ended["state"], ended["outcome"]) == ("CANCELLED", "cancelled")
    assert shared.ended(following["id"])["outcome"] == "deployed"
    (next_run,) = shared.ledger.runs(deploy=following["id"])
    (run,) = shared.ledger.runs(deploy=deploy["id"])
    (child,) = shared.ledger.children(deploy=deploy["id"])
    assert max(run.until, child.until) < next_run.started


def test_a_cancelled_target_is_unknown_until_it_is_deployed_again(shared: Rig) -> None:
    shared.ledger.tell({"sleep": 60}, application="cancels", version="5")
    deploy = shared.deploy("5", application="cancels")
    until(lambda: shared.ledger.runs(deploy=deploy["id"]), what="the hook to begin")
    shared.http("POST", f"/deploys/{deploy['id']}/cancel", json={})
    shared.ended(deploy["id"])
    assert stock(shared, "cancels")["host"] == (None, "unknown")
    shared.deployed("6", application="cancels")
    assert stock(shared, "cancels")["host"] == ("6", "known")


def test_cancel_with_rollback_waits_for_the_hook_to_die(shared: Rig) -> None:
    """B60: the rollback begins after the deploy's process has ended, and completes."""
    shared.deployed("7", application="cancels")
    order = {"sleep": 60, "tick": 0.1, "ignore_term": True}
    shared.ledger.tell(order, application="cancels", version="8", hook="deploy")
    shared.ledger.tell({"sleep": 1}, application="cancels", hook="rollback")
    deploy = shared.deploy("8", application="cancels")
    until(lambda: shared.ledger.runs(deploy=deploy["id"]), what="the hook to begin")
    shared.http("POST", f"/deploys/{deploy['id']}/cancel", json={"rollback": True})
    ended = shared.ended(deploy["id"])
    assert (ended["state"], ended["outcome"]) == ("CANCELLED", "cancelled")
    act, undo = shared.ledger.runs(deploy=deploy["id"])
    assert (undo.hook, undo.version, undo.exit) == ("rollback", "7", 0)
    assert undo.started > act.until
    assert stock(shared, "cancels")["host"] == ("7", "known")


def test_an_ended_deploy_cannot_be_cancelled(shared: Rig) -> None:
    ended = shared.deployed("11", application="cancels")
    answer = shared.http("POST", f"/deploys/{ended['id']}/cancel", json={})
    assert (answer.status_code, answer.json()["code"]) == (409, "deploy_ended")
    assert shared.get(f"/deploys/{ended['id']}")["state"] == "SUCCESS"


def test_what_is_live_is_deployed_again_when_asked(shared: Rig) -> None:
    """B53: the record is not taken for the target."""
    shared.deployed("1", application="chatty")
    again = shared.deployed("1", application="chatty")
    assert len(shared.ledger.runs(deploy=again["id"])) == 1
    re = shared.http(
        "POST",
        "/deploys",
        json={"application": "chatty", "environment": "staging", "kind": "redeploy"},
    ).json()
    ended = shared.ended(re["id"])
    assert (ended["kind"], ended["version"], ended["outcome"]) == ("redeploy", "1", "deployed")


def test_each_attempt_has_a_fresh_working_folder(shared: Rig) -> None:
    """B62: leftovers of a failed attempt are not met by the next; B98: its log stays."""
    shared.ledger.tell({"exit": 1, "print": "first try"}, application="dirty", attempt=1)
    ended = shared.deployed("1", application="dirty")
    first, second = shared.ledger.runs(deploy=ended["id"], hook="deploy")
    assert first.workdir != second.workdir
    lines = shared.get(f"/deploys/{ended['id']}/logs")["items"]
    assert "first try" in [line["text"] for line in lines]


def test_a_lock_holds_deploys_back_until_it_is_lifted(shared: Rig) -> None:
    body = {"application": "locked", "environment": "staging", "reason": "look first"}
    lock = shared.http("POST", "/locks", json=body).json()
    held = shared.deploy("1", application="locked")
    assert (held["state"], held["phase"]) == ("DELAYED", "locked")
    explained = shared.get(f"/deploys/{held['id']}/explain")
    assert explained["gates"][0]["gate"] == "lock"
    assert "look first" in explained["summary"]
    assert shared.http("DELETE", f"/locks/{lock['id']}").status_code == 200
    assert shared.ended(held["id"])["outcome"] == "deployed"


def test_a_lock_set_meanwhile_stops_before_the_next_wave(shared: Rig) -> None:
    go = shared.folder / "locked"
    shared.ledger.tell({"wait_for": str(go)}, application="locked", version="2")
    deploy = shared.deploy("2", application="locked")
    until(lambda: shared.ledger.runs(deploy=deploy["id"]), what="the first wave")
    body = {"application": "locked", "reason": "stop between waves"}
    lock = shared.http("POST", "/locks", json=body).json()
    go.touch()

    def is_held() -> bool:
        return bool(shared.get(f"/deploys/{deploy['id']}")["phase"] == "locked")

    until(is_held, what="the deploy to wait")
    assert [run.target for run in shared.ledger.runs(deploy=deploy["id"])] == ["a"]
    shared.http("DELETE", f"/locks/{lock['id']}")
    assert shared.ended(deploy["id"])["outcome"] == "deployed"
    assert [run.target for run in shared.ledger.runs(deploy=deploy["id"])] == ["a", "b"]


def test_what_a_later_success_made_outdated_is_superseded(shared: Rig) -> None:
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3))
    older = shared.deploy("5", application="chatty", not_before=soon)
    newer = shared.deployed("7", application="chatty", sequence=7)
    outdated = shared.ended(older["id"])
    assert (outdated["state"], outdated["outcome"]) == ("CANCELLED", "superseded")
    assert outdated["superseded_by"] == newer["id"]


def test_an_outdated_sequence_is_refused_unless_it_is_overridden(shared: Rig) -> None:
    shared.deployed("7", application="chatty", sequence=70)
    body = {"application": "chatty", "environment": "staging", "version": "6", "sequence": 60}
    refused = shared.http("POST", "/deploys", json=body)
    assert (refused.status_code, refused.json()["code"]) == (409, "outdated")
    forced = shared.deployed("6", application="chatty", sequence=60, override=["outdated"])
    assert forced["outcome"] == "deployed"


def test_what_was_not_started_in_time_expires(shared: Rig) -> None:
    lock = shared.http("POST", "/locks", json={"application": "chatty", "reason": "wait"}).json()
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 4))
    held = shared.deploy("8", application="chatty", not_after=soon)
    ended = shared.ended(held["id"])
    assert (ended["state"], ended["outcome"]) == ("CANCELLED", "expired")
    shared.http("DELETE", f"/locks/{lock['id']}")


def test_a_deploy_may_wait_for_its_time(shared: Rig) -> None:
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 3))
    held = shared.deploy("9", application="chatty", not_before=soon)
    assert (held["state"], held["phase"]) == ("DELAYED", "scheduled")
    assert shared.ended(held["id"])["outcome"] == "deployed"


def test_only_some_targets_may_be_asked_for(shared: Rig) -> None:
    ended = shared.deployed("30", application="waves", targets=["d", "b"])
    assert went(shared, ended) == [("deploy", "b", "30"), ("deploy", "d", "30")]
    body = {"application": "waves", "environment": "staging", "version": "1", "targets": ["e"]}
    answer = shared.http("POST", "/deploys", json=body)
    assert answer.status_code == 404
