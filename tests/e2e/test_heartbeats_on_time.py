"""Heartbeats keep to their time whatever the hooks of a worker do."""

import sys
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.rig.ledger import Ledger
from tests.rig.postgres import Postgres
from tests.rig.process import until
from tests.rig.serve import Rig

pytestmark = [pytest.mark.e2e, pytest.mark.postgres, pytest.mark.xdist_group("heartbeats")]

BEAT = 0.5
RECOVERY = {"heartbeat_interval": "500ms", "stale_after": "3s", "auto_recover_after": "6s"}
LEASE = 4.5
PLACES = tuple(f"place{number}" for number in range(50))
BUSY = [sys.executable, "-c", "import time; e = time.time() + 8\nwhile time.time() < e: pass"]
"""A hook that gives nothing of its processor away."""


def config(ledger: Ledger) -> dict[str, Any]:
    return {
        "recovery": RECOVERY,
        "worker": {"concurrency": 8, "hook_processes": 64, "warm": 8},
        "logs": {"deploy_limit": "1MiB", "tail": "100KiB"},
        "applications": {
            "shop": ledger.application(),
            "wide": ledger.application(targets=PLACES, max_parallel=50),
            "busy": {
                "plugin": "command",
                "options": {"deploy": BUSY},
                "environments": {"staging": {"targets": {"host": {}}}},
            },
        },
        "environments": {"staging": {"tier": "staging", "concurrency": 8}},
    }


class Beats:
    """Watches the age of one worker's heartbeat by the database's clock."""

    def __init__(self, rig: Rig) -> None:
        self._connection = psycopg.connect(rig.database_url, autocommit=True)
        self.oldest = 0.0

    def look(self) -> float:
        query = (
            "SELECT extract(epoch FROM clock_timestamp() - heartbeat_at)"
            " FROM manent.executors WHERE id = 'w0'"
        )
        row = self._connection.execute(query).fetchone()
        assert row is not None
        self.oldest = max(self.oldest, float(row[0]))
        return self.oldest

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def rig(tmp_path_factory: pytest.TempPathFactory, postgres_server: Postgres) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("beats")
    url = postgres_server.create_database()
    with Rig(folder, url, config(Ledger(folder))) as rig:
        yield rig


def measure(rig: Rig, deploys: list[str], *, limit: float) -> float:
    """The oldest heartbeat seen until all of these have ended; each ran each hook once."""
    beats = Beats(rig)

    def ended() -> bool:
        beats.look()
        return all(rig.get(f"/deploys/{name}")["state"] == "SUCCESS" for name in deploys)

    until(ended, what="the end of all", limit=limit)
    beats.close()
    return beats.oldest


def test_heartbeats_are_on_time_beside_busy_hooks_and_a_flood(rig: Rig) -> None:
    """B25: a busy loop, a flood and several hooks at once: nothing is renewed too late."""
    rig.ledger.tell({"flood": 400_000}, application="shop")
    began = time.monotonic()
    deploys = [rig.deploy("1", application=name)["id"] for name in ("busy", "shop")]
    oldest = measure(rig, deploys, limit=60)
    print(f"oldest heartbeat: {oldest:.2f} s")  # noqa: T201 - the figure is the point
    assert oldest < LEASE - BEAT, f"{oldest:.2f} s within {time.monotonic() - began:.0f} s"
    assert len(rig.ledger.runs(application="shop")) == 1


@pytest.mark.soak
def test_heartbeats_are_on_time_with_fifty_hooks_and_500_megabytes(rig: Rig) -> None:
    """B25: 50 hooks at once, a pure-Python busy hook and 500 MB of output."""
    rig.ledger.tell({"sleep": 30}, application="wide")
    # A line is `line 12345678`: 14 bytes.
    rig.ledger.tell({"flood": 36_000_000}, application="shop")
    deploys = [rig.deploy("1", application=name)["id"] for name in ("wide", "busy", "shop")]
    oldest = measure(rig, deploys, limit=600)
    print(f"oldest heartbeat: {oldest:.2f} s")  # noqa: T201 - the figure is the point
    assert oldest < LEASE - BEAT
    assert len(rig.ledger.runs(application="wide")) == len(PLACES)
    assert len(rig.ledger.runs(application="shop")) == 1
