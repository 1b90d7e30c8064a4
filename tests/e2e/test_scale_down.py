"""A StatefulSet goes from two pods to one: what the pod that is gone held goes on in the other."""

import json
import signal
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.rig.frozen import freeze
from tests.rig.postgres import Postgres
from tests.rig.process import until
from tests.rig.serve import Rig

pytestmark = [pytest.mark.e2e, pytest.mark.postgres, pytest.mark.xdist_group("scale-down")]

STAYS, GOES = "manent-worker-0", "manent-worker-1"
BEATS = {"heartbeat_interval": "2s", "stale_after": "6s"}


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory, postgres_server: Postgres) -> Iterator[Rig]:
    """An API and two workers named as the chart's pods are; nobody takes over by itself."""
    folder, url = tmp_path_factory.mktemp("scale"), postgres_server.create_database()
    with Rig(folder, url, {"recovery": BEATS}, options=["--no-worker"]) as rig:
        for pod in (STAYS, GOES):
            rig.start_worker(pod, wait=False)
        yield rig


def both_ready(rig: Rig) -> None:
    for pod in (STAYS, GOES):
        until(lambda pod=pod: rig.is_ready(pod), what=f"{pod} ready", limit=90)


def lose(rig: Rig, version: str) -> tuple[str, str]:
    """Two deploys of the pod that goes when it goes: one in its hook, one just claimed."""
    both_ready(rig)
    rig.ledger.tell({"sleep": 60, "tick": 0.05}, version=version, attempt=1, environment="staging")
    freeze(rig, STAYS)
    running = rig.deploy(version)["id"]
    until(lambda: rig.ledger.runs(deploy=running), what="the hook")
    freeze(rig, GOES)
    claimed = rig.deploy(version, environment="production")["id"]
    with psycopg.connect(rig.database_url) as connection:
        # What begins a deploy waits for its row: the engine has delivered it and nothing more.
        connection.execute("SELECT 1 FROM manent.deploys WHERE id = %s FOR UPDATE", [claimed])
        rig.send(signal.SIGCONT, GOES)
        until(lambda: is_claimed(rig, claimed), what="the claim")
        rig.kill(GOES)
    rig.send(signal.SIGCONT, STAYS)
    return running, claimed


def is_claimed(rig: Rig, deploy: str) -> bool:
    look = "SELECT executor_id FROM dbos.workflow_status WHERE workflow_uuid = %s AND status = %s"
    with psycopg.connect(rig.database_url) as connection:
        row = connection.execute(look, [f"{deploy}.1", "PENDING"]).fetchone()
    return row is not None and row[0].startswith(f"{GOES}:")


def check(rig: Rig, running: str, claimed: str) -> None:
    for deploy, runs in ((running, 2), (claimed, 1)):
        ended = rig.ended(deploy, limit=90)
        assert (ended["outcome"], ended["executor"]) == ("deployed", STAYS)
        assert len(rig.ledger.runs(deploy=deploy)) == runs
    assert rig.ledger.overlaps() == []
    assert "pending" not in row(rig, GOES)


def row(rig: Rig, executor: str) -> dict[str, Any]:
    rows = rig.get("/admin/executors")["executors"]
    found: dict[str, Any] = next(one for one in rows if one["id"] == executor)
    return found


def test_an_operator_has_the_other_pod_go_on(rig: Rig) -> None:
    """B140: without automatic recovery both are shown under the pod that is gone, and recovered."""
    running, claimed = lose(rig, "by-hand")
    until(lambda: not row(rig, GOES)["alive"], what="the loss")
    assert sum(row(rig, GOES)["pending"].values()) == 2
    for deploy in (running, claimed):
        assert f"admin recover --executor {GOES}" in rig.cli(["explain", deploy]).stdout
    access = {"MANENT_URL": rig.url, "MANENT_TOKEN": rig.token}
    told = rig.server_cli(["admin", "recover", "--executor", GOES], environ=access)
    assert told.returncode == 0, told.stderr
    assert {one["id"] for one in json.loads(told.stdout)["workflows"]} == {running, claimed}
    check(rig, running, claimed)


@pytest.mark.soak  # as test_takeover.py, with another name
def test_the_other_pod_goes_on_by_itself(rig: Rig) -> None:
    """B140: with automatic recovery, and nobody does anything."""
    rig.configure({"recovery": {**BEATS, "auto_recover_after": "8s"}})
    rig.stop(STAYS)
    for pod in (STAYS, GOES):
        rig.start(pod, wait=False)
    running, claimed = lose(rig, "by-itself")
    check(rig, running, claimed)
    assert row(rig, GOES)["recovered_by"] == STAYS
