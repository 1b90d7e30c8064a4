"""Retention at the door: what `admin prune` says, deletes and leaves."""

import json
from typing import Any

import pytest

from tests.rig.serve import Rig

pytestmark = [pytest.mark.e2e]


def prune(rig: Rig, *arguments: str) -> tuple[int, dict[str, Any], str]:
    access = {"MANENT_URL": rig.url, "MANENT_TOKEN": rig.token}
    ended = rig.server_cli(["admin", "prune", *arguments], environ=access)
    return ended.returncode, json.loads(ended.stdout or "{}"), ended.stderr


def test_old_deploys_go_and_what_runs_stays(shared: Rig) -> None:
    """B93, B98: what a failed deploy left is readable until it is pruned; what runs stays."""
    for version in ("1", "2", "3"):
        shared.deployed(version, application="acme")
    shared.ledger.tell({"exit": 65}, version="4")
    failed = shared.deployed("4", application="acme", expect="ERROR")
    assert shared.get(f"/deploys/{failed['id']}/logs")["items"]
    code, _, said = prune(shared)
    assert code == 2
    assert "--max-age" in said
    code, told, _ = prune(shared, "--dry-run", "--max-age", "1ms", "--keep-releases", "1")
    assert (code, told["dry_run"], told["max_age"]) == (0, True, "1ms")
    assert told["workflows"] == told["deploys"] + told["approvals"] + told["schedule_runs"]
    assert shared.get(f"/deploys/{failed['id']}")["state"] == "ERROR"
    code, done, _ = prune(shared, "--max-age", "1ms", "--keep-releases", "1", "--explain")
    assert code == 0
    assert (done["deploys"], done["kept"]) == (told["deploys"], told["kept"])
    assert {row["reason"] for row in done["explained"]} <= done["kept"].keys()
    assert shared.http("GET", f"/deploys/{failed['id']}").status_code == 404
    versions = [row["version"] for row in shared.get("/deploys", application="acme")["items"]]
    assert versions == ["3", "2"]
    (row,) = shared.get("/inventory", application="acme")["items"]
    assert row["deploy"] in {one["id"] for one in shared.get("/deploys")["items"]}
    back = shared.cli(["rollback", "acme", "staging", "--reason", "it loses orders"])
    assert back.returncode == 0, back.stderr
