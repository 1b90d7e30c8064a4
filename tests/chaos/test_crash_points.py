"""A worker is killed before a database statement of a deploy; whichever it is, nothing is lost."""

import random
import time
from pathlib import Path

import httpx2
import pytest

from tests.chaos import crash
from tests.conftest import StartRig
from tests.rig.forge import late_site
from tests.rig.ledger import Ledger
from tests.rig.process import until
from tests.rig.serve import ENDED, Rig

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

SEED = 20_261
POINTS = 6
# More than any deploy here sends: the last points lie behind its end.
STATEMENTS = 140
_STEPS = [("deploy", "a"), ("verify", "a")]


def start(start_rig: StartRig, url: str, folder: Path) -> Rig:
    """A server that dies when told to, as fast to come back as the rules allow."""
    ledger = Ledger(folder)
    walk = {"targets": ("a",), "hooks": ("deploy", "verify", "rollback")}
    config = {
        "recovery": {"heartbeat_interval": "500ms", "stale_after": "2s"},
        "applications": {"walk": ledger.application(**walk)},
    }
    site = late_site(Path(crash.__file__).with_name("site"))
    environ = {"CHAOS_CRASH": str(folder / "crash"), **site}
    return start_rig(url, config, environ=environ)


def die_at(rig: Rig, statement: int) -> str:
    """Kill the server before this statement of a new deploy, start it again; the deploy."""
    file = rig.folder / "crash"
    file.write_text(str(statement))
    asked = {"headers": {"Idempotency-Key": f"crash-{statement}"}}
    asked["json"] = {"application": "walk", "environment": "staging", "version": f"1.{statement}"}
    try:
        deploy = rig.http("POST", "/deploys", **asked).json()["id"]
        until(lambda: _is_over(rig, deploy), what=f"statement {statement}", limit=30)
    except httpx2.TransportError:
        # Its connections end a moment before the process does.
        rig.process().wait()
    file.unlink()
    if not rig.process().is_running():
        rig.start()
    # Its answer may have been lost with the server.
    again: str = rig.http("POST", "/deploys", **asked).json()["id"]
    return again


def _is_over(rig: Rig, deploy: str) -> bool:
    if not rig.process().is_running():
        return True
    time.sleep(0.1)
    state: str = rig.http("GET", f"/deploys/{deploy}").json()["state"]
    return state in ENDED


def check(rig: Rig, deploy: str, statement: int) -> None:
    """It ends well; each step has one good end, and the interrupted one began once more."""
    ended = rig.ended(deploy, limit=90)
    assert ended["outcome"] == "deployed", (statement, ended)
    runs = rig.ledger.runs(deploy=deploy)
    order = []
    for run in runs:
        if not order or order[-1] != (run.hook, run.target):
            order.append((run.hook, run.target))
    assert order == _STEPS, (statement, order)
    assert len(runs) <= len(_STEPS) + 1, statement
    attempts = rig.get(f"/deploys/{deploy}/attempts")["items"]
    good = [a["step"] for a in attempts if a["result"] == "succeeded" and a["hook"] != "prepare"]
    assert len(good) == len(set(good)) == len(_STEPS), (statement, good)
    assert all(attempt["ended_at"] for attempt in attempts), statement
    assert rig.ledger.overlaps() == [], statement
    stock = rig.get("/inventory", application="walk")["items"]
    assert {(row["version"], row["state"]) for row in stock} == {(f"1.{statement}", "known")}
    assert rig.get("/environments/staging")["slots"] == [], statement


def test_a_crash_at_any_statement_loses_nothing(
    start_rig: StartRig, database_url: str, tmp_path: Path
) -> None:
    """B07: twelve points in all, drawn by a seed, six on each database."""
    draw = random.Random(f"{SEED} {database_url[:6]}")  # noqa: S311 - to be repeated
    rig = start(start_rig, database_url, tmp_path)
    for statement in draw.sample(range(1, STATEMENTS), POINTS):
        check(rig, die_at(rig, statement), statement)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_crash_at_every_statement_loses_nothing(
    start_rig: StartRig, database_url: str, tmp_path: Path
) -> None:
    """B07: one after the other, until a deploy ends before its point."""
    rig = start(start_rig, database_url, tmp_path)
    for statement in range(1, 10_000):
        before = rig.process()
        check(rig, die_at(rig, statement), statement)
        if rig.process() is before:
            assert statement > 20
            return
