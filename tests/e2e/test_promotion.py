"""Promotion and plans at the door: evidence asked for, waited for, skipped, taken up by itself."""

import json
from typing import Any

import pytest

from tests.rig.ledger import Ledger
from tests.rig.process import until
from tests.rig.serve import Config, Rig

pytestmark = pytest.mark.e2e

STAGES = ("staging", "production", "careful", "eager")


def config(ledger: Ledger) -> Config:
    def stage(**more: Any) -> dict[str, Any]:
        return {"tier": "production", "concurrency": 20, **more}

    rule = {"from": ["staging"]}
    return {
        "environments": {
            "staging": {"concurrency": 20},
            "production": stage(promotion=rule),
            "careful": stage(promotion={**rule, "soak": "1h"}),
            "eager": stage(promotion=rule, auto_promote=True),
        },
        "applications": {
            "shop": ledger.application(environments=("staging", "production")),
            "mail": ledger.application(environments=("staging", "careful")),
            "news": ledger.application(environments=("staging", "eager")),
        },
    }


def run(rig: Rig, *arguments: str, code: int = 0) -> str:
    ended = rig.cli(arguments)
    assert ended.returncode == code, (ended.returncode, ended.stdout, ended.stderr)
    return str(ended.stdout)


def count(rig: Rig) -> int:
    return len(rig.get("/deploys", limit=500)["items"])


def test_a_version_comes_to_production_only_by_evidence(shared: Rig) -> None:
    """B17: a promotion is one deploy, and waits for no other one in a place of its own."""
    refused = shared.cli(["promote", "shop", "--from", "staging", "--to", "production"])
    assert refused.returncode in (5, 6)
    run(shared, "deploy", "shop", "staging", "7")
    refused = shared.cli(["deploy", "shop", "production", "8"])
    assert refused.returncode == 5
    assert "staging" in refused.stderr
    found = json.loads(run(shared, "promote", "shop", "--from", "staging", "--to", "production",
                           "-o", "json"))  # fmt: skip
    assert (found["state"], found["version"]) == ("SUCCESS", "7")
    source = shared.get("/deploys", application="shop", environment="staging")["items"][0]
    assert source["id"] in json.dumps(found["promoted_from"])


def test_a_plan_says_what_would_change_and_creates_nothing(shared: Rig) -> None:
    run(shared, "deploy", "shop", "staging", "20")
    before = count(shared)
    changing = ["plan", "shop", "staging", "21", "--exit-code", "-o", "json"]
    plan = json.loads(run(shared, *changing, code=10))
    assert (plan["version"], plan["changes"]) == ({"from": "20", "to": "21"}, True)
    assert [target["target"] for target in plan["targets"]] == ["host"]
    dry = json.loads(run(shared, "deploy", "shop", "staging", "21", "--dry-run", "-o", "json"))
    assert dry["version"] == plan["version"]
    run(shared, "plan", "shop", "staging", "20", "--exit-code")
    run(shared, "freeze", "staging", "--application", "shop", "--reason", "x",
        "--starts-at", "2098-01-01T00:00:00Z", "--expires-at", "2099-01-01T00:00:00Z")  # fmt: skip
    then = ["plan", "shop", "staging", "21", "--at", "2098-06-01T00:00:00Z", "-o", "json"]
    assert [gate["gate"] for gate in json.loads(run(shared, *then))["gates"]] == ["freeze"]
    assert plan["gates"] == []
    run(shared, "unfreeze", "staging", "--application", "shop")
    refused = json.loads(run(shared, "plan", "shop", "production", "21", "-o", "json"))
    assert refused["refusal"]["code"] == "promotion"
    assert count(shared) == before


def test_what_has_to_prove_itself_for_longer_waits_and_may_be_let_go(shared: Rig) -> None:
    run(shared, "deploy", "mail", "staging", "5")
    asked = ["promote", "mail", "--from", "staging", "--to", "careful", "--no-wait", "-o", "json"]
    deploy = json.loads(run(shared, *asked))["id"]
    shown = shared.get(f"/deploys/{deploy}")
    assert (shown["state"], shown["phase"]) == ("DELAYED", "soaking")
    (gate,) = shared.get(f"/deploys/{deploy}/explain")["gates"]
    assert (gate["gate"], gate["opened_by"]) == ("soak", "time")
    assert shared.cli(["skip-wait", deploy]).returncode == 2
    run(shared, "skip-wait", deploy, "--reason", "incident 7")
    assert shared.ended(deploy)["outcome"] == "deployed"


def test_what_qualifies_is_taken_up_and_a_rollback_is_never_undone(shared: Rig) -> None:
    """A rollback holds automation back; the version it took away is not brought again."""

    def live() -> str | None:
        rows = shared.get("/inventory", application="news", environment="eager")["items"]
        return rows[0]["version"] if rows and rows[0]["state"] == "known" else None

    for version in ("1", "2"):
        run(shared, "deploy", "news", "staging", version)
        until(lambda wanted=version: live() == wanted, what=f"{version} taken up")
    run(shared, "rollback", "news", "eager", "--reason", "bad")
    assert live() == "1"
    assert [hold["automatic"] for hold in shared.get("/holds")["items"]] == [True]
    run(shared, "deploy", "news", "staging", "3")
    run(shared, "unhold", "eager", "--application", "news")
    until(lambda: live() == "3", what="the next version taken up")
    brought = shared.get("/deploys", application="news", environment="eager")["items"]
    assert [(one["kind"], one["version"]) for one in reversed(brought)] == [
        ("deploy", "1"), ("deploy", "2"), ("rollback", "1"), ("deploy", "3"),
    ]  # fmt: skip
