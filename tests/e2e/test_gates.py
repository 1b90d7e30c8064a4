"""Gates at the door: the commands that keep deploys from starting, and what is said meanwhile."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.rig.ledger import Ledger
from tests.rig.serve import Config, Rig

pytestmark = pytest.mark.e2e


def config(ledger: Ledger) -> Config:
    shut = {"deny": "FREQ=DAILY", "duration": "48h", "reason": "year end"}
    return {
        "environments": {
            "staging": {"concurrency": 20},
            "closed": {"tier": "staging", "windows": [shut]},
        },
        "applications": {
            "shop": ledger.application(),
            "mail": ledger.application(),
            "bill": ledger.application(environments={"closed": {}}),
        },
    }


def run(rig: Rig, *arguments: str, code: int = 0) -> str:
    ended = rig.cli(arguments)
    assert ended.returncode == code, (ended.stdout, ended.stderr)
    return str(ended.stdout)


def gates(rig: Rig, deploy: str) -> list[dict[str, Any]]:
    """What HTTP says, which is what the command says."""
    found = rig.get(f"/deploys/{deploy}/explain")
    told = json.loads(run(rig, "explain", deploy, "-o", "json"))
    assert {**told, "workers": None} == {**found, "workers": None}
    return list(found["gates"])


@pytest.mark.parametrize(
    ("setting", "lifting", "gate"),
    [
        (("lock", "staging", "--application", "shop"), ("unlock", "staging"), "lock"),
        (("freeze", "staging"), ("unfreeze", "staging"), "freeze"),
        (("veto", "shop", "9"), ("unveto", "shop", "9"), "veto"),
        (("stop",), ("resume-all",), "stop"),
    ],
)
def test_what_is_set_is_named_with_its_way_out_and_lifted(
    shared: Rig, setting: Sequence[str], lifting: Sequence[str], gate: str
) -> None:
    until = "2099-01-01T00:00:00Z"
    run(shared, *setting, "--reason", "incident 7", "--expires-at", until)
    refused = shared.cli(["deploy", "shop", "staging", "9", "--if-blocked", "refuse"])
    assert refused.returncode == 5
    for said in ("incident 7", "2099-01-01"):
        assert said in refused.stderr
    if gate != "veto":
        deploy = run(shared, "deploy", "shop", "staging", "9", "--no-wait", "-o", "name")
        deploy = deploy.strip().removeprefix("deploy/")
        (closed,) = gates(shared, deploy)
        assert (closed["gate"], closed["opens_at"][:10]) == (gate, "2099-01-01")
        command = closed["command"].split()[1:]
        assert command[: len(lifting)] == list(lifting)
        run(shared, *command)
        assert shared.ended(deploy)["outcome"] == "deployed"
    else:
        run(shared, *lifting)
        assert shared.deployed("9", application="shop")["outcome"] == "deployed"


def test_a_window_is_shown_with_its_reason_and_overridden_on_the_record(shared: Rig) -> None:
    waiting = run(shared, "deploy", "bill", "closed", "1", "--no-wait", "-o", "name").strip()
    waiting = waiting.removeprefix("deploy/")
    (closed,) = gates(shared, waiting)
    assert (closed["gate"], closed["opened_by"]) == ("window", "time")
    assert "year end" in closed["detail"]
    assert "year end" in run(shared, "status", "closed")
    refused = shared.cli(["deploy", "bill", "closed", "2", "--override", "window"])
    assert refused.returncode == 2
    assert "reason" in refused.stderr
    passing = ["--override", "window", "--reason", "hotfix"]
    run(shared, "deploy", "bill", "closed", "2", *passing)
    shown = shared.get(f"/deploys/{waiting}")
    assert (shown["state"], shown["phase"]) == ("DELAYED", "frozen")


def test_what_a_running_or_ended_deploy_does_is_explained(shared: Rig) -> None:
    ended = shared.deployed("1", application="mail")
    found = shared.get(f"/deploys/{ended['id']}/explain")
    assert found["summary"].startswith("ended ")
    assert "deployed" in found["summary"]
    assert found["gates"] == []
