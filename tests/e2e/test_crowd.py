"""Many clients, many environments, several workers: all are served, none is forgotten."""

import concurrent.futures as cf
import time
from pathlib import Path

import pytest

from tests.rig.ledger import Ledger
from tests.rig.postgres import Postgres
from tests.rig.serve import ENDED, Rig

pytestmark = [pytest.mark.e2e, pytest.mark.soak, pytest.mark.timeout(1200)]

CLIENTS, EACH = 10, 50
PLACES = tuple(f"e{number}" for number in range(50))
WORKERS = ("w0", "w1", "w2")
_LONG = 60.0


def left(rig: Rig) -> dict[str, str]:
    """The deploys that have not ended, by their state."""
    found: dict[str, str] = {}
    before: dict[str, str] = {}
    while True:
        states = ["DELAYED", "ENQUEUED", "PENDING"]
        page = rig.get("/deploys", state=states, limit=500, **before)
        found |= {row["id"]: row["state"] for row in page["items"]}
        if page["next"] is None:
            return found
        before = {"before": page["next"]}


def idle(rig: Rig) -> list[str]:
    """Workers that run nothing."""
    rows = rig.get("/admin/executors")["executors"]
    return [row["id"] for row in rows if not row.get("running")]


@pytest.mark.parametrize("turn", range(10))
def test_nobody_waits_while_a_worker_is_idle(
    postgres_server: Postgres, tmp_path: Path, turn: int
) -> None:
    """B10"""
    places = {name: {"tier": "staging"} for name in PLACES}
    config = {
        "environments": places,
        "applications": {"many": Ledger(tmp_path).application(environments=PLACES)},
    }
    with Rig(tmp_path, postgres_server.create_database(), config) as rig:
        for name in WORKERS[1:]:
            rig.start_worker(name)

        def ask(client: int) -> None:
            for number in range(EACH):
                place = PLACES[(client * 7 + number) % len(PLACES)]
                version = f"{turn}.{client}.{number}"
                rig.deploy(version, application="many", environment=place)

        with cf.ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(ask, range(CLIENTS)))
        since: dict[str, float] = {}
        while waiting := left(rig):
            now = time.monotonic()
            queued = {deploy for deploy, state in waiting.items() if state == "ENQUEUED"}
            since = {deploy: since.get(deploy, now) for deploy in queued}
            if idle(rig):
                assert all(now - at < _LONG for at in since.values())
            time.sleep(1)
        ends = [row for state in ENDED for row in every(rig, state)]
        assert [row["state"] for row in ends] == ["SUCCESS"] * CLIENTS * EACH
        assert rig.ledger.overlaps() == []


def every(rig: Rig, state: str) -> list[dict[str, object]]:
    """All deploys of a state."""
    items, before = [], {}
    while True:
        page = rig.get("/deploys", state=state, limit=500, **before)
        items += page["items"]
        if page["next"] is None:
            return items
        before = {"before": page["next"]}
