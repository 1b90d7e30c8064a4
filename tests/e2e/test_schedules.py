"""Schedules of several servers: each instant fires once, whatever happens to one of them."""

import signal
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.chaos.stage import faketime
from tests.rig.ledger import Ledger
from tests.rig.postgres import Postgres
from tests.rig.process import until
from tests.rig.serve import MAIN, Rig

pytestmark = [pytest.mark.e2e, pytest.mark.postgres]

WORKERS = ("w1", "w2")
SKEW = {"w1": -600, "w2": 600}
RECOVERY = {"heartbeat_interval": "1s", "stale_after": "5s", "auto_recover_after": "8s"}


@pytest.fixture
def three(tmp_path: Path, own_postgres: Postgres) -> Iterator[Rig]:
    """Three servers on one database; where that can be had, the clocks of two are far off."""
    ledger = Ledger(tmp_path)
    applications = {name: ledger.application() for name in ("quick", "slow")}
    places = {"staging": {"tier": "staging", "concurrency": 2}}
    config = {"recovery": RECOVERY, "applications": applications, "environments": places}
    with Rig(tmp_path, own_postgres.create_database(), config) as rig:
        for name in WORKERS:
            rig.start_worker(name, environ=faketime(SKEW[name]))
        yield rig


def ask(rig: Rig, query: str, *values: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(rig.database_url, autocommit=True) as connection:
        cursor = connection.execute(query, values)
        return cursor.fetchall() if cursor.description else []


def make(rig: Rig, name: str, *more: str, application: str = "quick") -> None:
    asked = ["schedule", "create", name, application, "staging", "--cron", "* * * * *"]
    said = rig.cli([*asked, "--version", "1", *more], check=True)
    assert "next: " in said.stderr


def tick(rig: Rig, name: str) -> None:
    """Let a new schedule's last minute have come just now, unless that is over already."""
    make(rig, name)
    if datetime.now(UTC).second < 45:  # noqa: TID251 - how long to wait, nothing is decided by it
        ask(rig, "UPDATE manent.schedules SET next_at = next_at - interval '1 minute' "
                 "WHERE name = %s", name)  # fmt: skip


def runs(rig: Rig, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = rig.get(f"/schedules/{name}/runs", limit=500)["items"]
    return found


def fired(rig: Rig, name: str) -> dict[str, Any]:
    """Its first instant, once something became of it; it is stopped then."""
    (run,) = until(lambda: runs(rig, name), what=f"{name} to fire", limit=60)[-1:]
    rig.cli(["schedule", "delete", name], check=True)
    assert run["result"] == "fired", run
    return run


def holder(rig: Rig) -> str:
    """The process that fires now."""
    found = ask(rig, "SELECT holder FROM manent.leases WHERE name = 'schedules' AND until > now()")
    return str(found[0][0]).partition(":")[0] if found else ""


@pytest.mark.timeout(300)
def test_each_instant_fires_once_whatever_becomes_of_a_server(
    three: Rig, own_postgres: Postgres
) -> None:
    """B30, B35, B89, I14: two clocks ten minutes off, who fires is killed, the database too."""
    rig = three
    ids = []

    def undisturbed() -> None:
        """Nothing happens."""

    def lost() -> None:
        name = until(lambda: holder(rig), what="a holder")
        rig.kill(name)
        rig.start(name, wait=name == MAIN)

    def away() -> None:
        own_postgres.stop(signal.SIGQUIT)
        own_postgres.start()

    faults: list[Callable[[], None]] = [undisturbed, lost, away]
    for fault in faults:
        name = fault.__name__
        tick(rig, name)
        fault()
        ids.append(fired(rig, name)["deploy"])
        assert rig.ended(ids[-1], limit=60)["outcome"] == "deployed"
    found = ask(rig, "SELECT deploy FROM manent.schedule_runs WHERE result = 'fired'")
    assert len(set(ids)) == len(faults) <= len(found)
    assert len(rig.get("/deploys", limit=100)["items"]) == len(found)
    late = ask(rig, "SELECT max(abs(extract(epoch FROM settled_at - at))) "
                    "FROM manent.schedule_runs")  # fmt: skip
    assert late[0][0] < 120
    negative = ask(rig, "SELECT count(*) FROM manent.deploys WHERE ended_at < started_at "
                        "OR started_at < requested_at")  # fmt: skip
    assert negative == [(0,)]


MINUTES = 30


@pytest.mark.soak
@pytest.mark.timeout((MINUTES + 10) * 60)
def test_half_an_hour_of_ticks_kills_and_replacements(three: Rig) -> None:
    """B43, B89, B136: every minute one tick; a server is killed or replaced every five minutes."""
    rig = three
    rig.ledger.tell({"sleep": 150}, application="slow")
    for name in ("quick", "slow"):
        make(rig, name, application=name)
    names, turn = (*WORKERS, MAIN), 0
    end, change = time.monotonic() + MINUTES * 60, time.monotonic() + 60
    while time.monotonic() < end:
        if time.monotonic() > change:
            name, change = names[turn % len(names)], time.monotonic() + 300
            if turn % 2:
                rig.kill(name)
            else:
                rig.stop(name, limit=120)
            rig.start(name)
            turn += 1
        live = [row for row in rig.get("/deploys", application="slow", limit=100)["items"]
                if row["state"] in ("DELAYED", "ENQUEUED", "PENDING")]  # fmt: skip
        assert len(live) <= 1
        time.sleep(1)
    for name in ("quick", "slow"):
        rig.cli(["schedule", "pause", name], check=True)
    quick, slow = runs(rig, "quick"), runs(rig, "slow")
    instants = {run["at"] for run in quick}
    assert len(quick) == len(instants) >= MINUTES - 1
    assert {run["result"] for run in quick} == {"fired"}
    for run in quick:
        assert rig.ended(run["deploy"], limit=60)["outcome"] == "deployed"
    assert {run["result"] for run in slow} == {"fired", "skipped"}
    audited = ask(rig, "SELECT count(*) FROM manent.audit WHERE action = 'schedule.skipped'")
    assert audited == [(sum(run["result"] == "skipped" for run in slow),)]
    waiting = ask(rig, "SELECT count(*) FROM manent.deploys WHERE state = 'ENQUEUED'")
    assert waiting == [(0,)]
