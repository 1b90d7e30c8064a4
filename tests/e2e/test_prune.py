"""Retention at the door: what `admin prune` says, deletes and leaves."""

import json
from typing import Any

import pytest

from tests.rig.ledger import Ledger
from tests.rig.serve import Config, Rig

pytestmark = pytest.mark.e2e


def config(_: Ledger) -> Config:
    return {}


def prune(rig: Rig, *arguments: str) -> tuple[int, dict[str, Any], str]:
    access = {"MANENT_URL": rig.url, "MANENT_TOKEN": rig.token}
    ended = rig.server_cli(["admin", "prune", *arguments], environ=access)
    return ended.returncode, json.loads(ended.stdout or "{}"), ended.stderr


def test_old_deploys_go_and_what_runs_stays(shared: Rig) -> None:
    """B93, B98: what a failed deploy left is readable until it is pruned; what runs stays."""
    for version in ("1", "2", "3"):
        assert shared.deployed(version)["state"] == "SUCCESS"
    shared.ledger.tell({"exit": 65}, version="4")
    failed = shared.deployed("4")
    assert failed["outcome"] == "rolled_back"
    assert shared.get(f"/deploys/{failed['id']}/logs")["items"]
    code, _, said = prune(shared)
    assert (code, "--max-age" in said) == (2, True)
    every = ("--max-age", "1ms", "--keep-releases", "1")
    code, told, _ = prune(shared, "--dry-run", *every)
    assert (code, told["dry_run"], told["max_age"], told["deploys"]) == (0, True, "1ms", 1)
    assert told["workflows"] == told["deploys"] + told["approvals"] + told["schedule_runs"]
    code, done, _ = prune(shared, *every, "--explain")
    assert code == 0
    assert (done["deploys"], done["kept"]) == (told["deploys"], told["kept"])
    assert {row["reason"] for row in done["explained"]} == set(done["kept"])
    items = shared.get("/deploys")["items"]
    assert [row["version"] for row in items] == ["4", "3", "2"]
    (row,) = shared.get("/inventory")["items"]
    assert (row["version"], row["state"]) == ("3", "known")
    assert shared.http("GET", "/admin/prune").status_code == 405
    back = shared.cli(["rollback", "shop", "staging", "--reason", "it loses orders"])
    assert back.returncode == 0, back.stderr
    code, local, said = prune(shared, "--local", "--dry-run", *every)
    assert (code, local["dry_run"]) == (0, True), said
