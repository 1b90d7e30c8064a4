"""Another build, another pass, and giving up: what operators do to deploys that are not new."""

import signal
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from tests.rig import build
from tests.rig.frozen import freeze
from tests.rig.ledger import Ledger
from tests.rig.postgres import Postgres
from tests.rig.process import is_alive, until
from tests.rig.serve import MAIN, Config, Rig

pytestmark = [pytest.mark.e2e, pytest.mark.postgres, pytest.mark.xdist_group("upgrade")]

NEXT = "0.1.1"


def config(ledger: Ledger) -> Config:
    rule = {"name": "release", "quorum": 2, "unknown_requester": "allow"}
    more: Any = {"environments": ("staging", "production", "asking"), "hooks": ("deploy", "verify")}
    store = ledger.application(("t1", "t2"), **more)
    return {
        "recovery": {"heartbeat_interval": "500ms", "stale_after": "3s"},
        "dbos": {"drain_timeout": "1s", "polling_interval": "100ms"},
        "environments": {
            "production": {"concurrency": 5},
            "asking": {"tier": "staging", "concurrency": 5, "approvals": [rule]},
        },
        "applications": {"store": {**store, "max_parallel": 1}},
    }


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory, postgres_server: Postgres) -> Iterator[Rig]:
    """One server of this build."""
    folder, url = tmp_path_factory.mktemp("upgrade"), postgres_server.create_database()
    with Rig(folder, url, config(Ledger(folder))) as rig:
        yield rig


@pytest.fixture(autouse=True)
def _no_orders(rig: Rig) -> None:
    rig.ledger.tell()


def ran(rig: Rig, deploy: str) -> list[str]:
    return [f"{run.hook}:{run.target}" for run in rig.ledger.runs(deploy=deploy)]


def age_cancel(rig: Rig, deploy: str) -> None:
    """Let the minute after a cancel pass at once."""
    engine = sa.create_engine(rig.database_url.replace("postgresql:", "postgresql+psycopg:"))
    change = sa.text(
        "UPDATE manent.deploys SET cancel_requested_at = "
        "cancel_requested_at - interval '2 minutes' WHERE id = :deploy"
    )
    with engine.begin() as connection:
        connection.execute(change, {"deploy": deploy})
    engine.dispose()


def test_a_rerun_and_a_retry_do_only_what_is_left(rig: Rig) -> None:
    """Time travel by the command line: keys of a pass of their own, earlier steps carried over."""
    rig.ledger.tell({"exit": 65}, hook="verify", target="t2", version="1")
    first = rig.deployed("1", application="store", environment="production")
    assert first["state"] == "ERROR"
    rig.ledger.tell()
    shown = rig.cli(["retry", first["id"], "--dry-run"])
    assert "carried over  prepare, deploy:t1, verify:t1, deploy:t2" in shown.stdout
    retried = rig.cli(["retry", first["id"], "--reason", "mended"])
    assert retried.returncode == 0, retried.stderr
    second = retried.stdout.strip()
    assert ran(rig, second) == ["verify:t2"]
    again = rig.cli(["rerun", second, "--from", "deploy:t2"])
    assert again.returncode == 0, again.stderr
    third = again.stdout.strip()
    assert ran(rig, third) == ["deploy:t2", "verify:t2"]
    keys = [run.key for run in rig.ledger.runs(deploy=third)]
    assert keys == [f"{first['id']}/{name}/3" for name in ("deploy:t2", "verify:t2")]
    inventory = rig.get("/inventory", environment="production")["items"]
    assert {(row["target"], row["version"], row["deploy"]) for row in inventory} == {
        ("t1", "1", third),
        ("t2", "1", third),
    }
    refused = rig.cli(["rerun", third, "--from", "deploy:t9"])
    assert refused.returncode == 6
    assert "did you mean deploy:t" in refused.stderr


def test_a_rolling_restart_to_the_next_build_keeps_everything_going(
    rig: Rig, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """B134, B136: a comment changed; one deploy runs, one is queued, one delayed, two wait."""
    people = [person(rig, name) for name in ("bob", "eve")]
    waiting = [
        rig.deploy(version, application=name, environment="asking")["id"]
        for version, name in (("1", "store"), ("2", "store"))
    ]
    long = {"sleep": 60, "tick": 0.05}
    rig.ledger.tell(long, version="running", attempt=1, target="t2", hook="deploy")
    running = rig.deploy("running", application="store")
    until(lambda: rig.ledger.runs(deploy=running["id"], target="t2"), what="its second target")
    queued = rig.deploy("queued", application="store")
    soon = datetime.fromisoformat(queued["requested_at"]) + timedelta(seconds=10)
    delayed = rig.deploy(
        "delayed", application="store", environment="production", not_before=soon.isoformat()
    )
    assert [queued["state"], delayed["state"]] == ["ENQUEUED", "DELAYED"]

    assert vote(rig, waiting[0], people[0]) == "waiting"
    until(lambda: asked(rig, waiting[1]), what="the other asks too")

    following = build.copy(tmp_path_factory.mktemp("build"), NEXT)
    rig.start_worker("w1", "--only-version", "0.1.0", environ=following)
    assert builds(rig) == {MAIN: "0.1.0", "w1": NEXT}
    assert rig.stop(MAIN) == 0
    rig._own_environ[MAIN] = following
    rig.start()
    assert builds(rig) == {MAIN: NEXT, "w1": NEXT}
    for deploy in (running, queued, delayed):
        ended = rig.ended(deploy["id"])
        assert (ended["outcome"], ended["workflow_version"]) == ("deployed", "0.1.0")
    assert vote(rig, waiting[0], people[1]) == "approved", "the vote of before counts"
    assert [vote(rig, waiting[1], one) for one in people] == ["waiting", "approved"]
    assert [rig.ended(one)["outcome"] for one in waiting] == ["deployed"] * 2
    assert ran(rig, running["id"]) == [
        "deploy:t1", "verify:t1", "deploy:t2", "deploy:t2", "verify:t2"
    ]  # fmt: skip
    executors = {one["executor"] for one in rig.get(f"/deploys/{running['id']}/attempts")["items"]}
    assert executors == {MAIN, "w1"}
    assert rig.ledger.overlaps() == []
    assert all("pending" not in row for row in rig.get("/admin/executors")["executors"])


def person(rig: Rig, name: str) -> dict[str, str]:
    """What somebody new who may approve sends along."""
    given = ["token", "create", name, "--role", "approver", "--kind", "person"]
    return {"Authorization": f"Bearer {rig.server_cli(given, check=True).stdout.strip()}"}


def asked(rig: Rig, deploy: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = rig.get("/approvals", deploy=deploy)["items"]
    return items


def vote(rig: Rig, deploy: str, by: dict[str, str]) -> str:
    """Approve what a deploy asks, as soon as it asks; how it stands then."""
    found = until(lambda: asked(rig, deploy), what=f"{deploy} asks") or []
    path = f"/approvals/{found[0]['id']}/decisions"
    answer = rig.http("POST", path, json={"decision": "approve"}, headers=by)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["state"])


def builds(rig: Rig) -> dict[str, str]:
    return {row["id"]: row["build"] for row in rig.get("/admin/executors")["executors"]}


def test_only_a_version_this_build_can_run_is_served(rig: Rig) -> None:
    refused = rig.server_cli(["serve", "--only-version", "0.0.9"])
    assert refused.returncode == 2
    assert "cannot run workflow version 0.0.9" in refused.stderr
    assert "0.1.0" in refused.stderr


def demand_second_worker(rig: Rig) -> None:
    """The tests before start it; this one may run without them."""
    if "w1" not in rig._processes:
        rig.start_worker("w1")


def test_what_a_frozen_worker_holds_is_given_up_on_a_persons_word(rig: Rig) -> None:
    """B09(c): the slot is freed by an explicit act; the hook dies as soon as its worker wakes."""
    rig.stop(MAIN)
    rig._options[MAIN] = ("--no-worker",)
    rig.start()
    demand_second_worker(rig)
    rig.ledger.tell({"sleep": 60, "tick": 0.05}, version="stuck")
    deploy = rig.deploy("stuck", application="store")["id"]
    until(lambda: rig.ledger.runs(deploy=deploy), what="its hook")
    early = rig.cli(["abandon", deploy, "--reason", "frozen"])
    assert (early.returncode, "manent cancel" in early.stderr) == (5, True)
    freeze(rig, "w1")
    try:
        # At once: of a worker that is lost already the cancel itself would end it.
        assert rig.http("POST", f"/deploys/{deploy}/cancel", json={}).status_code == 200
        assert rig.cli(["abandon", deploy, "--reason", "frozen"]).returncode == 5
        age_cancel(rig, deploy)
        until(lambda: not rig.get("/admin/executors")["executors"][-1]["alive"], what="w1 lost")
        given_up = rig.cli(["abandon", deploy, "--reason", "frozen"])
        assert (given_up.returncode, given_up.stdout) == (0, f"{deploy}\n")
        assert "may still be at work" in given_up.stderr
        assert rig.cli(["wait", deploy]).returncode == 9
        place = rig.get("/environments/staging")
        assert place["slots"] == []
        assert [lock["automatic"] for lock in place["locks"]] == [True]
    finally:
        rig.send(signal.SIGCONT, "w1")
    [run] = rig.ledger.runs(deploy=deploy)
    until(lambda: not is_alive(run.pid), what="its hook to die")
    assert rig.get(f"/deploys/{deploy}")["outcome"] == "abandoned"
    assert rig.cli(["unlock", "staging", "--application", "store"]).returncode == 0
