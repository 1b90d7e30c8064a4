"""Cancel through any server reaches the worker that runs the deploy, whichever it is."""

import concurrent.futures as cf
import random
import time

import pytest

from tests.conftest import StartRig
from tests.rig.ledger import Ledger
from tests.rig.process import is_alive, until
from tests.rig.rules import AtMost
from tests.rig.serve import Rig

pytestmark = pytest.mark.e2e

RUNNING, WAITING = 9, 3


def start_server(rig: Rig, name: str) -> None:
    """A further process with API and worker."""
    rig._options[name] = ()
    rig.write_config(name)
    rig.start(name)


def cancel(rig: Rig, server: str, deploy: str) -> int:
    answer = rig._http().post(
        f"http://127.0.0.1:{rig._ports[server][0]}/api/v1/deploys/{deploy}/cancel",
        json={"reason": "test"},
        headers={"Authorization": f"Bearer {rig.token}"},
    )
    return int(answer.status_code)


@pytest.mark.promise
def test_a_cancel_through_any_server_ends_what_any_worker_runs(
    start_rig: StartRig, ledger: Ledger, postgres_url: str, at_most: AtMost
) -> None:
    """B65, B67, B63: all CANCELLED and their processes gone within ten seconds."""
    names = [f"app{number}" for number in range(RUNNING)]
    rig = start_rig(
        postgres_url,
        {
            "environments": {"staging": {"concurrency": RUNNING}},
            "worker": {"concurrency": 4},
            "applications": {name: ledger.application() for name in names},
        },
    )
    for name in ("w1", "w2"):
        start_server(rig, name)
    rig.ledger.tell({"sleep": 120, "child": 120, "tick": 0.5, "ignore_term": True})
    running = [rig.deploy("1", application=name)["id"] for name in names]
    waiting = [rig.deploy("2", application=name)["id"] for name in names[:WAITING]]
    until(lambda: len(rig.ledger.children()) == RUNNING, what="all hooks", limit=60)
    workers = {rig.get(f"/deploys/{deploy}")["executor"] for deploy in running}
    assert len(workers) > 1, "the work was spread over several workers"
    began = time.monotonic()
    servers = [random.choice(("w0", "w1", "w2")) for _ in range(RUNNING + WAITING)]  # noqa: S311
    with cf.ThreadPoolExecutor(8) as pool:
        codes = list(pool.map(lambda pair: cancel(rig, *pair), zip(servers, waiting + running,
                              strict=True)))  # fmt: skip
    assert set(codes) == {200}
    for deploy in waiting:
        ended = rig.ended(deploy, limit=at_most(2, beside=30))
        assert (ended["state"], ended["started_at"]) == ("CANCELLED", None)
    for deploy in running:
        assert rig.ended(deploy)["state"] == "CANCELLED"
    pids = [run.pid for run in (*rig.ledger.runs(), *rig.ledger.children())]
    until(lambda: not any(map(is_alive, pids)), what="every process to be gone")
    assert time.monotonic() - began < at_most(10, beside=30)
    assert {run.deploy for run in rig.ledger.runs()} == set(running)
    rig.ledger.tell()
    assert rig.deployed("3", application=names[0])["outcome"] == "deployed"
