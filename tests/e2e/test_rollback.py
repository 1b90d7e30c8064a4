"""Rollback at the door: what it goes back to, and how it ends."""

import signal
import time
from typing import Any

import pytest

from tests.rig.ledger import Ledger
from tests.rig.process import until
from tests.rig.serve import Config, Rig

pytestmark = pytest.mark.e2e

QUICK = {"attempts": 3, "initial": "100ms", "factor": 2, "cap": "1s", "total": "1m"}
APPLICATIONS: dict[str, dict[str, Any]] = {
    "tries": {"retry": QUICK},
    "returns": {"retry": {**QUICK, "attempts": 1}},
    "chain": {"retry": {**QUICK, "attempts": 1}},
    "fresh": {"retry": {**QUICK, "attempts": 1}},
    "stuck": {"timeout": "3s", "retry": {**QUICK, "attempts": 1}},
    "chatty": {},
    "reborn": {"retry": {**QUICK, "attempts": 1}},
    "some": {"targets": ("a", "b")},
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


def roll_back(rig: Rig, application: str, **fields: Any) -> dict[str, Any]:
    body = {"application": application, "environment": "staging", "reason": "test", **fields}
    answer = rig.http("POST", "/rollbacks", json=body)
    assert answer.status_code in (201, 202), answer.text
    return rig.ended(answer.json()["id"])


def test_a_rollback_goes_to_the_last_good_version_that_is_not_live(shared: Rig) -> None:
    """B46, B61: failures are passed over; the record says what is live."""
    shared.deployed("1", application="returns")
    shared.ledger.tell({"exit": 65}, application="returns", version="2", hook="deploy")
    assert shared.deployed("2", application="returns")["outcome"] == "rolled_back"
    shared.deployed("3", application="returns")
    back = roll_back(shared, "returns")
    assert (back["kind"], back["version"], back["outcome"]) == ("rollback", "1", "deployed")
    assert went(shared, back) == [("rollback", "host", "1")]
    assert stock(shared, "returns") == {"host": ("1", "known")}
    shared.ledger.tell({"exit": 65}, application="returns", version="4", hook="deploy")
    failed = shared.deployed("4", application="returns")
    (undo,) = shared.ledger.runs(deploy=failed["id"], hook="rollback")
    assert (undo.version, undo.previous) == ("1", "4")


def test_a_version_rolled_back_from_is_no_target(shared: Rig) -> None:
    """B47: A good, B bad back to A, C bad back to A again."""
    shared.deployed("1", application="chain")
    shared.deployed("2", application="chain")
    assert roll_back(shared, "chain")["version"] == "1"
    shared.deployed("3", application="chain")
    assert roll_back(shared, "chain")["version"] == "1"
    body = {"application": "chain", "environment": "staging", "reason": "test", "to": "2"}
    answer = shared.http("POST", "/rollbacks", json=body)
    assert (answer.status_code, answer.json()["code"]) == (409, "rolled_back_from")
    assert shared.deployed("2", application="chain")["outcome"] == "deployed"


def test_an_automatic_rollback_names_both_versions(shared: Rig) -> None:
    """B48, B54: from the failed one to the one before, told which steps were done."""
    for version in ("1", "2"):
        shared.deployed(version, application="fresh")
    shared.ledger.tell({"exit": 65}, application="fresh", version="3", hook="deploy")
    failed = shared.deployed("3", application="fresh")
    act, undo = shared.ledger.runs(deploy=failed["id"])
    assert (act.previous, act.version) == ("2", "3")
    assert (undo.previous, undo.version) == ("3", "2")
    assert stock(shared, "fresh") == {"host": ("2", "known")}


def test_there_may_be_nothing_to_roll_back_to(shared: Rig) -> None:
    """B50: a single failed deploy leaves nothing to go back to, and says so."""
    shared.ledger.tell({"exit": 65}, application="stuck", hook="deploy")
    failed = shared.deployed("1", application="stuck")
    assert failed["outcome"] == "failed"
    assert shared.ledger.runs(deploy=failed["id"], hook="rollback") == []
    body = {"application": "stuck", "environment": "staging", "reason": "test"}
    answer = shared.http("POST", "/rollbacks", json=body)
    assert (answer.status_code, answer.json()["code"]) == (409, "nothing_to_roll_back_to")
    told = shared.cli(["rollback", "stuck", "staging"])
    assert told.returncode == 5


def test_what_came_before_an_application_was_taken_away_is_not_gone_back_to(shared: Rig) -> None:
    """B50: pruned and made anew it has a life of its own, whose first good version it is."""
    for version in ("1", "2", "3", "4", "5"):
        shared.deployed(version, application="reborn")
    options = shared.ledger.application(**APPLICATIONS["reborn"])
    reload(shared, {"reborn": None})
    time.sleep(1)  # the thing under test: what ended is older than what stays
    pruned = shared.http("POST", "/admin/prune", json={"max_age": "1s", "keep_releases": 0})
    assert pruned.json()["deploys"] >= 3, pruned.text
    assert "5" in {one["version"] for one in shared.get("/deploys", application="reborn")["items"]}
    reload(shared, {"reborn": options})
    assert shared.deployed("v0", application="reborn")["outcome"] == "deployed"
    shared.ledger.tell({"exit": 65}, application="reborn", hook="deploy", version="v1")
    failed = shared.deployed("v1", application="reborn")
    assert failed["outcome"] == "rolled_back"
    (undo,) = shared.ledger.runs(deploy=failed["id"], hook="rollback")
    assert undo.version == "v0"
    assert stock(shared, "reborn") == {"host": ("v0", "known")}


def reload(rig: Rig, applications: dict[str, Any]) -> None:
    before = len(rig.logs())
    rig.configure({"applications": applications})
    rig.send(signal.SIGHUP)
    until(lambda: "reloaded" in rig.logs()[before:], what="a reload")


def test_a_rollback_that_hangs_ends_and_locks_the_application(shared: Rig) -> None:
    """B56, B57: one deploy line and one rollback line, an end, then quiet until unlocked."""
    shared.ledger.tell()
    assert shared.deployed("2", application="stuck")["outcome"] == "deployed"
    shared.ledger.tell({"exit": 65}, application="stuck", hook="deploy", version="3")
    shared.ledger.tell({"sleep": 60}, application="stuck", hook="rollback")
    failed = shared.deployed("3", application="stuck")
    assert (failed["state"], failed["outcome"]) == ("ERROR", "rollback_failed")
    hooks = [run.hook for run in shared.ledger.runs(deploy=failed["id"])]
    assert hooks == ["deploy", "rollback"]
    assert stock(shared, "stuck") == {"host": (None, "unknown")}
    held = shared.deploy("4", application="stuck")
    assert (held["state"], held["phase"]) == ("DELAYED", "locked")
    (lock,) = [k for k in shared.get("/locks")["items"] if k["application"] == "stuck"]
    assert lock["automatic"]
    # Other applications go on.
    assert shared.deployed("1", application="chatty")["outcome"] == "deployed"
    shared.ledger.tell()
    back = roll_back(shared, "stuck")
    assert (back["version"], back["outcome"]) == ("2", "deployed")
    # What was asked for before the rollback is outdated by it; the next deploy runs.
    assert shared.ended(held["id"])["outcome"] == "superseded"
    assert shared.deployed("5", application="stuck")["outcome"] == "deployed"


def test_a_hanging_rollback_can_be_cancelled(shared: Rig) -> None:
    """B57: cancel works while a rollback runs."""
    shared.deployed("1", application="tries")
    shared.ledger.tell({"exit": 65}, application="tries", hook="deploy", version="20")
    shared.ledger.tell({"sleep": 60}, application="tries", hook="rollback")
    deploy = shared.deploy("20", application="tries")
    until(lambda: shared.ledger.runs(deploy=deploy["id"], hook="rollback"), what="the rollback")
    shared.http("POST", f"/deploys/{deploy['id']}/cancel", json={})
    ended = shared.ended(deploy["id"])
    assert (ended["state"], ended["outcome"]) == ("ERROR", "rollback_failed")
    (lock,) = [k for k in shared.get("/locks")["items"] if k["application"] == "tries"]
    assert shared.http("DELETE", f"/locks/{lock['id']}").status_code == 200


def test_a_deploy_to_some_targets_is_taken_back_on_those_alone(shared: Rig) -> None:
    shared.deployed("1", application="some")
    shared.deployed("2", application="some", targets=["a"])
    assert stock(shared, "some") == {"a": ("2", "known"), "b": ("1", "known")}
    back = roll_back(shared, "some")
    assert went(shared, back) == [("rollback", "a", "1")]
    assert stock(shared, "some") == {"a": ("1", "known"), "b": ("1", "known")}
