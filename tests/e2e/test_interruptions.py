"""Hooks that were cut short with their worker: where the next attempt begins, and who is asked."""

import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.rig.ledger import Ledger
from tests.rig.process import until
from tests.rig.serve import Config, Rig

pytestmark = [pytest.mark.e2e, pytest.mark.each_database]

HOSTS = """
import os, sys, time

notes = int(os.environ["MANENT_CHECKPOINT_FD"])
attempt = os.environ["MANENT_ATTEMPT"]
for host in range(int(os.environ["MANENT_CHECKPOINT"] or 0) + 1, 101):
    with open(sys.argv[1], "a") as rows:
        rows.write(f"{attempt} {host}\\n")
    if (attempt, host) == ("1", 60):
        time.sleep(600)
    os.write(notes, f"checkpoint={host}\\n".encode())
"""


def config(ledger: Ledger) -> Config:
    script = ledger.folder / "hosts.py"
    script.write_text(HOSTS)
    hosts = {"deploy": [sys.executable, "-S", str(script), str(rows(ledger.folder))]}
    once = {**ledger.options("deploy"), "observe": ["true"], "effects": "once"}
    return {
        # A start waits until the row of the one before is stale.
        "recovery": {"heartbeat_interval": "300ms", "stale_after": "1s"},
        "environments": {
            "staging": {"tier": "staging", "concurrency": 10},
            "careful": {"tier": "staging", "on_exhausted": "pause"},
        },
        "applications": {
            "hosts": ledger.application(options=hosts),
            "once": ledger.application(options=once),
            "killer": ledger.application(),
            "locking": ledger.application(options=ledger.options("deploy")),
            "tries": ledger.application(targets=("a", "b"), environments=("careful",)),
        },
    }


def rows(folder: Path) -> Path:
    return folder / "hosts.txt"


def reached(rig: Rig) -> list[tuple[int, int]]:
    """(attempt, host) of every host that was begun."""
    file = rows(rig.ledger.folder)
    lines = file.read_text().splitlines() if file.exists() else []
    return [(int(attempt), int(host)) for attempt, host in (line.split() for line in lines)]


def checkpoint(rig: Rig, deploy: str) -> int:
    """The newest one that the database has."""
    scheme, _, rest = rig.database_url.partition("://")
    is_sqlite = scheme == "sqlite"
    engine = sa.create_engine(rig.database_url if is_sqlite else f"postgresql+psycopg://{rest}")
    table = "manent_steps" if is_sqlite else "manent.steps"
    query = sa.text(f"SELECT checkpoint FROM {table} WHERE deploy = :d AND name = 'deploy:host'")  # noqa: S608
    with engine.connect() as connection:
        found = connection.execute(query, {"d": deploy}).scalar_one_or_none()
    engine.dispose()
    return int(str(found or 0).strip('"'))


def crash(rig: Rig) -> None:
    rig.kill()
    rig.start()


def locked(rig: Rig) -> str:
    """A deploy whose tool holds its state under the name of its run, and has left a child."""
    lock = str(rig.folder / "state.lock")
    rig.ledger.tell({"lock": lock}, application="locking")
    rig.ledger.tell({"child": 60, "sleep": 60, "tick": 0.05}, application="locking", attempt=1)
    deploy: str = rig.deploy("1", application="locking")["id"]
    until(Path(lock).exists, what="the tool's lock")
    until(rig.ledger.children, what="its child")
    return deploy


def check_locked(rig: Rig, deploy: str) -> None:
    """B145: the next attempt is the same run to its tool; a state of another is left alone."""
    assert rig.ended(deploy)["outcome"] == "deployed"
    first, second = rig.ledger.runs(deploy=deploy)
    assert (first.key, second.attempt) == (second.key, 2)
    assert rig.ledger.overlaps() == []
    assert f"taken over from {first.key}" in said(rig, deploy)
    (rig.folder / "state.lock").write_text("another-run")
    refused = rig.deployed("2", application="locking")
    assert refused["state"] == "ERROR"
    assert "held by another-run" in said(rig, refused["id"])


def said(rig: Rig, deploy: str) -> str:
    return " ".join(line["text"] for line in rig.get(f"/deploys/{deploy}/logs")["items"])


def test_what_was_cut_short_goes_on_where_it_stood_or_asks(shared: Rig) -> None:
    """A hook killed at host 60 of 100 goes on there; one that must not run twice asks."""
    holding = locked(shared)
    hosts = shared.deploy("1", application="hosts")["id"]
    shared.ledger.tell({"sleep": 600}, application="once", attempt=1, version="1")
    once = shared.deploy("1", application="once")["id"]
    until(lambda: shared.ledger.runs(deploy=once), what="the hook that must not run twice")
    until(lambda: (1, 60) in reached(shared), what="host 60")
    until(lambda: checkpoint(shared, hosts) >= 59, what="the checkpoint of host 59")
    crash(shared)
    assert shared.ended(hosts)["outcome"] == "deployed"
    again = [host for attempt, host in reached(shared) if attempt == 2]
    assert again == list(range(again[0], 101))
    assert 59 <= again[0] <= 61
    check_locked(shared, holding)

    def phase() -> str:
        return str(shared.get(f"/deploys/{once}")["phase"])

    until(lambda: phase() == "unknown", what="the question")
    assert len(shared.ledger.runs(deploy=once)) == 1
    told = shared.cli(["explain", once], check=True).stdout
    assert f"manent resolve {once} --succeeded|--failed|--retry" in told
    said = shared.cli(["resolve", once, "--retry", "--reason", "nothing was sent"])
    assert said.returncode == 0, said.stderr
    assert shared.ended(once)["outcome"] == "deployed"
    assert [run.facts["attempt"] for run in shared.ledger.runs(deploy=once)] == [1, 3]
    late = shared.cli(["resolve", once, "--failed"])
    assert late.returncode == 5, late.stderr


@pytest.mark.timeout(240)
def test_a_hook_that_kills_its_worker_three_times_ends_poisoned(shared: Rig) -> None:
    """The application is locked there, and others go on."""
    shared.ledger.tell({"sleep": 600}, application="killer")
    deploy = shared.deploy("1", application="killer")["id"]
    for attempt in (1, 2, 3):
        until(
            lambda n=attempt: shared.ledger.runs(deploy=deploy, attempt=n),
            what=f"attempt {attempt}",
            limit=60,
        )
        crash(shared)
    ended = shared.ended(deploy)
    assert (ended["state"], ended["outcome"]) == ("ERROR", "poisoned")
    assert ended["error"]["code"] == "poisoned"
    results = {a["result"] for a in shared.get(f"/deploys/{deploy}/attempts")["items"]}
    assert results == {"interrupted"}
    assert len(shared.ledger.runs(deploy=deploy)) == 3
    (stock,) = shared.get("/inventory", application="killer")["items"]
    assert stock["state"] == "unknown"
    locks = shared.get("/locks")["items"]
    assert [lock["application"] for lock in locks if lock["application"] == "killer"] == ["killer"]
    assert shared.deployed("2", application="once")["outcome"] == "deployed"
    assert shared.ledger.overlaps() == []


def test_a_paused_deploy_is_retried_by_a_person(shared: Rig) -> None:
    """The next pass of the same deploy: what is finished is not done again."""
    shared.ledger.tell({"exit": 65}, application="tries", target="b")
    deploy = shared.deploy("1", application="tries", environment="careful")["id"]
    until(lambda: shared.get(f"/deploys/{deploy}")["phase"] == "paused", what="the pause")
    shared.ledger.tell()
    said = shared.cli(["retry", deploy])
    assert said.returncode == 0, said.stderr
    ended = shared.ended(deploy)
    assert (ended["outcome"], ended["pass"]) == ("deployed", 2)
    runs = shared.ledger.runs(deploy=deploy)
    assert [(run.target, run.facts["attempt"]) for run in runs] in (
        [("a", 1), ("b", 1), ("b", 1)],
        [("b", 1), ("a", 1), ("b", 1)],
    )
    assert runs[-1].key == f"{deploy}/deploy:b/2"
