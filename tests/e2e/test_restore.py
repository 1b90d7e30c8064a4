"""A restored database at the door: nothing runs on it until a person has decided."""

import json
from typing import Any

import httpx2
import pytest

from tests.rig import dumps
from tests.rig.ledger import Ledger
from tests.rig.matrix import only
from tests.rig.process import until
from tests.rig.serve import Config, Rig

pytestmark = pytest.mark.e2e
_MOST = 20


def config(ledger: Ledger) -> Config:
    asked = ledger.application(hooks=("deploy", "rollback", "observe"))
    return {"applications": {f"app-{n}": asked for n in range(_MOST)}}


def fenced(rig: Rig) -> str:
    """Wait until the server says that nothing begins; its words."""

    def ask() -> str | None:
        try:
            found = rig.http("GET", "/readyz")
        except httpx2.TransportError:
            return None
        words = " ".join(found.json()["reasons"])
        return words if found.status_code == 503 and "went back in time" in words else None

    return until(ask, what="a fenced server", limit=60.0) or ""


def ask(rig: Rig, verb: str, **body: Any) -> dict[str, Any]:
    answer = rig.http("POST", f"/admin/restore/{verb}", json=body)
    return {"status": answer.status_code, **answer.json()}


def highest(rig: Rig) -> int:
    """The highest number of the record in its file."""
    lines = (rig.folder / "audit.jsonl").read_text().splitlines()
    return max(int(json.loads(line)["number"]) for line in lines)


def dumped_in_between(rig: Rig) -> list[str]:
    """20 deploys, a dump while the first of them runs, 20 more; few where the database is a file.

    Returns:
        Those of before the dump.
    """
    names = [f"app-{n}" for n in range(4 if dumps.is_sqlite(rig) else _MOST)]
    rig.ledger.tell({"sleep": 60}, application="app-0", version="1", hook="deploy")
    first = [rig.deploy("1", application=name)["id"] for name in names]
    until(lambda: rig.ledger.runs(application="app-0"), what="the first hook")
    dumps.dump(rig)
    assert rig.http("POST", f"/deploys/{first[0]}/cancel", json={}).status_code == 200
    later = [rig.deploy("2", application=name)["id"] for name in names]
    assert {rig.ended(deploy)["state"] for deploy in first[1:] + later} == {"SUCCESS"}
    return first


def no_server_has_looked(rig: Rig) -> None:
    """A command on the database itself looks first, and leaves the file to the servers' user."""
    file = rig.folder / "work-w0" / "installation"
    before = file.stat()
    pruned = rig.server_cli(["admin", "prune", "--local", "--max-age", "1ms"])
    assert (pruned.returncode, "went back in time" in pruned.stderr) == (5, True)
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def what_is_known(rig: Rig, first: list[str]) -> None:
    """The list has what was live, with what the record says became of it, and what is lost."""
    found = rig.get("/admin/restore")
    outcomes = {item["id"]: item.get("outcome") for item in found["items"]}
    assert outcomes[first[0]] == "cancelled"
    assert outcomes[first[-1]] == "deployed"
    assert set(outcomes) <= set(first)
    assert len(found["lost"]) == len(first)
    assert {lost["version"] for lost in found["lost"]} == {"2"}


def what_is_observed(rig: Rig, first: list[str]) -> None:
    """The list asks the targets what runs there; no other hook runs, also without any server."""
    runs = len(rig.ledger.runs())
    rig.ledger.tell({"print": '{"version": "2", "in_place": false}'}, hook="observe")
    rig.ledger.tell({"exit": 3}, hook="observe", application="app-0")
    found = rig.get("/admin/restore", observe=True)
    seen = {item["id"]: item["observed"] for item in found["items"]}
    assert found["observing"] == "asked"
    assert seen[first[-1]] == [{"target": "host", "version": "2", "in_place": False}]
    assert "observe failed" in seen[first[0]][0]["why"]
    local = rig.server_cli(["admin", "restore", "list", first[-1], "--local"])
    [item] = json.loads(local.stdout)["items"]
    assert item["observed"][0]["in_place"] is False, local.stderr
    assert {run.hook for run in rig.ledger.runs()[runs:]} == {"observe"}


def what_the_page_says(rig: Rig, first: list[str]) -> None:
    """Its commands work, and nothing new is taken."""
    said = dumps.run(rig, dumps.commands("restore.md", "look"))
    assert not said, said
    refused = rig.http("POST", "/rollbacks", json={"application": "app-1", "environment": "staging",
                                                   "reason": "no"})  # fmt: skip
    assert (refused.status_code, refused.json()["code"]) == (409, "restore_fenced")
    cancelled = rig.cli(["cancel", first[0]])
    assert cancelled.returncode in (0, 9), cancelled.stderr


def all_is_decided(rig: Rig, resumed: str, closed: str) -> None:
    """What is undecided keeps it shut; all at once are not ended unasked."""
    assert ask(rig, "open")["code"] == "undecided"
    resume, close, cancel = dumps.commands("restore.md", "decide").strip().splitlines()
    said = dumps.run(rig, close.replace("ID", closed))
    assert not said, said
    said = dumps.run(rig, resume.replace("ID", resumed))
    assert not said, said
    said = dumps.run(rig, cancel.replace("ID", "--all"))
    assert "exit 2" in said
    assert "--yes" in said
    said = dumps.run(rig, cancel.replace("ID", "--all --yes --local"))
    assert not said, said


@pytest.mark.timeout(300)  # some 40 deploys, three starts and a dozen commands
def test_the_restore_drill(shared: Rig) -> None:
    """B139: 20 deploys, a dump, 20 more; the dump restored, no hook begins before a person has
    decided, and a kill of the server meanwhile changes nothing."""
    first = dumped_in_between(shared)
    assert shared.stop() == 0
    dumps.restore(shared)
    no_server_has_looked(shared)
    shared.start(wait=False)
    assert "are missing; nothing begins" in fenced(shared)
    what_is_known(shared, first)
    what_is_observed(shared, first)
    runs = len(shared.ledger.runs())
    what_the_page_says(shared, first)
    assert ask(shared, "close", deploys=[first[-1]], outcome="deployed")["status"] == 200
    shared.kill()
    shared.start(wait=False)
    fenced(shared)
    all_is_decided(shared, first[-2], first[-3])
    assert {run.hook for run in shared.ledger.runs()[runs:]} <= {"observe"}
    shared.ledger.tell()
    runs = len(shared.ledger.runs())
    said = dumps.run(shared, dumps.commands("restore.md", "open"))
    assert not said, said
    until(shared.is_ready, what="the opened server", limit=60.0)
    assert shared.ended(first[-2])["state"] == "SUCCESS"
    assert [run.deploy for run in shared.ledger.runs()[runs:]] == [first[-2]]


@pytest.mark.soak  # what it rests on is tested in core/test_restore_guard.py
@only("postgres")  # a file is never exchanged under a process: the page says to stop it first
def test_restored_under_a_server_at_work(shared: Rig) -> None:
    """B139: it notices by itself, kills its hook and ends; two processes then wait for a person."""
    ledger = shared.ledger
    held = shared.deploy("3", application="app-1")["id"]
    dumps.dump(shared)
    before = highest(shared)
    shared.ended(held)
    ledger.tell({"sleep": 60}, version="4")
    shared.deploy("4", application="app-2")
    until(lambda: ledger.runs(version="4"), what="a hook at work")
    # What was numbered after the last look is remembered by nobody: the page says so.
    until(lambda: dumps.noted(shared) > before, what="a look after the dump")
    dumps.restore(shared)
    process = shared.process()
    until(lambda: not process.is_running(), what="its end")
    assert process.exit_code == 75
    assert ledger.runs(version="4")[0].ended is None
    runs = len(ledger.runs())
    shared.start_worker("w1", wait=False)
    shared.start(wait=False)
    fenced(shared)
    assert ask(shared, "open", force=True, reason="a test")["status"] == 200
    until(lambda: shared.is_ready() and shared.is_ready("w1"), what="both", limit=60.0)
    assert shared.ended(held)["state"] == "SUCCESS"
    assert {run.deploy for run in ledger.runs()[runs:]} <= {held}


@only("sqlite")
def test_a_file_is_copied_with_its_processes_stopped(shared: Rig) -> None:
    """B139: with `-wal` and `-shm`, where they are."""
    shared.stop()
    (shared.folder / "backup").mkdir()
    said = dumps.run(shared, dumps.commands("back-up.md", "copy"))
    assert not said, said
    assert (shared.folder / "backup" / "manent.db").exists()
    json.loads((shared.folder / "work-w0" / "installation").read_text())
