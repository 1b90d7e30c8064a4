"""The drain at the door: its limit is kept, its end recorded, and nothing of it is lost."""

import random
import signal
import time
from typing import Any

import psycopg
import pytest

from tests.conftest import StartRig
from tests.rig.process import is_alive, until
from tests.rig.rules import AtMost
from tests.rig.serve import Rig

pytestmark = [pytest.mark.e2e, pytest.mark.postgres]

SHORT = {
    "dbos": {"drain_timeout": "3s"},
    "recovery": {"heartbeat_interval": "500ms", "stale_after": "3s", "auto_recover_after": "6s"},
}


def executor(rig: Rig) -> dict[str, Any]:
    """The worker's row."""
    query = "SELECT stopped_at, draining, running FROM manent.executors WHERE id = 'w0'"
    with psycopg.connect(rig.database_url) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return dict(zip(("stopped_at", "draining", "running"), row, strict=True))


@pytest.mark.promise
def test_a_drain_ends_at_its_limit_and_the_deploy_goes_on_later(
    start_rig: StartRig, postgres_url: str, at_most: AtMost
) -> None:
    """B128, I17: exit 0, the shutdown recorded, hook and child dead, nothing failed."""
    rig = start_rig(postgres_url, SHORT)
    long = {"sleep": 600, "tick": 0.1, "child": 600, "ignore_term": True}
    rig.ledger.tell(long, version="1", attempt=1)
    deploy = rig.deploy("1")["id"]
    (child,) = until(rig.ledger.children, what="the hook")
    rig.send(signal.SIGTERM)
    began = time.monotonic()
    waiting = rig.deploy("2")["id"]
    assert rig.process().wait(limit=60) == 0
    assert 3 <= time.monotonic() - began < 3 + at_most(5, beside=16)
    (run,) = rig.ledger.runs()
    assert not is_alive(run.pid)
    assert not is_alive(child.pid)
    assert "the drain limit is reached" in rig.process().output()
    stopped = executor(rig)
    assert stopped["stopped_at"] is not None
    assert (stopped["draining"], stopped["running"]) == (False, [])
    rig.start()
    ended = [rig.ended(name)["outcome"] for name in (deploy, waiting)]
    assert ended == ["deployed", "deployed"]
    attempts = rig.get(f"/deploys/{deploy}/attempts")["items"]
    results = [a["result"] for a in attempts if a["step"].startswith("deploy:")]
    assert results == ["interrupted", "succeeded"]
    assert rig.ledger.overlaps() == []
    began = time.monotonic()
    assert rig.stop() == 0
    assert time.monotonic() - began < at_most(3, beside=15), "an idle worker"


def start_twin(rig: Rig) -> None:
    """A second process under the executor id of the first."""
    rig._options["w1"] = ("--no-api",)
    rig.write_config("w1")
    file = rig.config_file("w1")
    file.write_text(file.read_text().replace("executor_id: w1", "executor_id: w0"))
    rig.start("w1", wait=False)


@pytest.mark.soak
@pytest.mark.parametrize("turn", range(20))
def test_twenty_drains_beside_a_start_of_the_same_id(
    start_rig: StartRig, postgres_url: str, turn: int
) -> None:
    """B06: at random offsets nothing is taken twice, nothing stays with the dead."""
    rig = start_rig(postgres_url, SHORT)
    rig.ledger.tell({"sleep": random.uniform(0.5, 5), "tick": 0.1})  # noqa: S311 - on purpose
    deploys = [rig.deploy(f"{turn}.{n}")["id"] for n in range(3)]
    until(rig.ledger.runs, what="a hook")
    start_twin(rig)
    time.sleep(random.uniform(0, 4))  # noqa: S311 - as above
    rig.send(signal.SIGTERM)
    assert rig.process().wait(limit=30) == 0
    until(lambda: rig.is_ready("w1"), what="the second to take over", limit=30)
    rig._options["w0"] = ("--no-worker",)
    rig.start()
    for deploy in deploys:
        assert rig.ended(deploy, limit=60)["outcome"] == "deployed"
    assert len(rig.ledger.runs()) <= len(deploys) + 1
    assert rig.ledger.overlaps() == []
