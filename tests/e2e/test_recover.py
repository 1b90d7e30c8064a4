"""Lost workers without automatic recovery: an operator's commands, on real processes."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rig.frozen import freeze
from tests.rig.postgres import Postgres
from tests.rig.process import is_alive, until
from tests.rig.rules import AtMost
from tests.rig.serve import Rig

pytestmark = [pytest.mark.e2e, pytest.mark.postgres, pytest.mark.xdist_group("recover")]

WORKERS = ("w1", "w2")
CONFIG = {"recovery": {"heartbeat_interval": "500ms", "stale_after": "2500ms"}}


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory, postgres_server: Postgres) -> Iterator[Rig]:
    """An API without a worker, and two workers."""
    folder, url = tmp_path_factory.mktemp("recover"), postgres_server.create_database()
    with Rig(folder, url, CONFIG, options=["--no-worker"]) as rig:
        for name in WORKERS:
            rig.start_worker(name, wait=False)
        yield rig


@pytest.fixture(autouse=True)
def crew(rig: Rig) -> Iterator[None]:
    """Both workers live when a test begins."""
    rig.ledger.tell()
    for name in WORKERS:
        if not rig.process(name).is_running():
            rig.start(name, wait=False)
        rig.send(signal.SIGCONT, name)  # where a test that failed has left it stopped
        try:
            until(lambda name=name: rig.is_ready(name), what=f"{name} ready", limit=90)
        except TimeoutError as error:
            error.add_note(rig.process(name).output()[-3000:])
            rig.kill(name)  # the next test has another try
            raise
    return


def begin(rig: Rig, version: str, **fields: Any) -> tuple[str, str]:
    """A deploy whose first hook takes long; its id and its worker, once the hook runs."""
    rig.ledger.tell({"sleep": 60, "tick": 0.05}, version=version, attempt=1)
    deploy = rig.deploy(version, **fields)["id"]
    until(lambda: rig.ledger.runs(deploy=deploy), what="its hook to run")
    return deploy, rig.get(f"/deploys/{deploy}")["executor"]


def admin(rig: Rig, *arguments: str, **environ: str) -> tuple[int, Any, str]:
    access = {"MANENT_URL": rig.url, "MANENT_TOKEN": rig.token, **environ}
    ended = rig.server_cli(["admin", *arguments], environ=access)
    return ended.returncode, json.loads(ended.stdout) if ended.stdout else None, ended.stderr


def row(rig: Rig, executor: str) -> dict[str, Any]:
    rows = rig.get("/admin/executors")["executors"]
    return next(found for found in rows if found["id"] == executor)


def metrics(rig: Rig) -> str:
    return rig._http().get(f"{rig.metrics_url()}/metrics").text


def lose(rig: Rig, executor: str, number: signal.Signals | None = None) -> None:
    if number is None:
        rig.kill(executor)
    else:
        rig.send(number, executor)
    until(lambda: not row(rig, executor)["alive"], what=f"{executor} lost")


@pytest.mark.promise
def test_an_operator_recovers_what_a_lost_worker_left(rig: Rig, at_most: AtMost) -> None:
    """B12, DBOS 805: the queued deploy names its blocker; recover frees the place within 10 s."""
    first, lost = begin(rig, "r1")
    lose(rig, lost)
    second = rig.deploy("r2")["id"]
    told = rig.get(f"/deploys/{second}/explain")
    assert told["blocked_by"] == {"id": first, "executor": lost, "alive": False}
    assert f"manent-server admin recover --executor {lost}" in told["summary"]
    assert f"manent cancel {first}" in told["summary"]
    down = f'manent_executor_up{{executor="{lost}"}} 0.0'
    until(lambda: down in metrics(rig), what="the loss in the metrics, which are read anew")
    code, listed, _ = admin(rig, "executors")
    [seen] = [one for one in listed["executors"] if one["id"] == lost]
    assert (code, seen["alive"], seen["pending"]) == (0, False, {"0.1.0": 1})

    code, planned, _ = admin(rig, "recover", "--executor", lost, "--dry-run")
    assert (code, [one["id"] for one in planned["workflows"]]) == (0, [first])
    code, done, said = admin(rig, "recover", "--executor", lost, "--reason", "gone")
    assert (code, done["recovered_by"]) == (0, "user:ci")
    assert "rests on the word of user:ci" in said
    for deploy in (first, second):
        assert rig.ended(deploy, limit=at_most(10, beside=30))["outcome"] == "deployed"
    assert rig.get(f"/deploys/{first}")["executor"] != lost
    assert len(rig.ledger.runs(deploy=first)) == 2
    assert rig.ledger.overlaps() == []

    for executor, word in ((lost, "recovered already"), ("nobody", "does not know")):
        code, _, said = admin(rig, "recover", "--executor", executor)
        assert (code, word in said) == (5, True), said
    code, _, said = admin(rig, "recover", "--executor", rig.get(f"/deploys/{first}")["executor"])
    assert (code, "is alive" in said) == (5, True), said
    rig.start(lost)
    assert "recovered_by" not in row(rig, lost)


def test_without_a_token_the_way_out_is_named_and_works(rig: Rig) -> None:
    """For the night when no API is up."""
    code, _, said = admin(rig, "executors", MANENT_TOKEN="")
    assert (code, "--local" in said) == (4, True), said
    code, found, _ = admin(rig, "executors", "--local", MANENT_TOKEN="", MANENT_URL="")
    assert (code, {one["id"] for one in found["executors"]}) == (0, {*WORKERS})
    code, _, said = admin(rig, "recover", "--local", "--executor", "nobody")
    assert (code, "does not know" in said) == (5, True), said
    code, _, said = admin(rig, "executors", "forget", "nobody")
    assert code == 6, said
    table = rig.server_cli(["admin", "executors", "--local", "-o", "table"]).stdout
    assert table.splitlines()[0].split()[:2] == ["ID", "ALIVE"]


@pytest.mark.promise
def test_a_cancelled_deploy_of_a_killed_worker_ends(rig: Rig, at_most: AtMost) -> None:
    """B09: (b) killed with its hook, then cancelled: the place is free soon after."""
    deploy, lost = begin(rig, "c1")
    rig.kill(lost)
    assert rig.http("POST", f"/deploys/{deploy}/cancel", json={}).status_code == 200
    assert rig.ended(deploy, limit=at_most(11, beside=30))["outcome"] == "cancelled"
    assert rig.deployed("c2")["outcome"] == "deployed"
    assert rig.ledger.overlaps() == []


def test_a_cancelled_deploy_of_a_silent_worker_keeps_its_place_until_it_ends(rig: Rig) -> None:
    """B09: (c) the worker is stopped in mid-hook; its end frees the place, nothing else does."""
    deploy, silent = begin(rig, "s1")
    # At once: of a worker that is lost already the cancel itself would end it.
    freeze(rig, silent)
    answer = cancelled(rig, deploy)
    assert answer is not None
    assert (answer["state"], answer["phase"]) == ("PENDING", "cancelling")
    until(lambda: not row(rig, silent)["alive"], what="it counts as lost")
    waiting = rig.deploy("s2")["id"]
    told = rig.get(f"/deploys/{deploy}/explain")["summary"]
    assert f"cancelling on {silent}, silent since" in told
    assert rig.get(f"/deploys/{waiting}/explain")["blocked_by"]["executor"] == silent
    assert rig.get(f"/deploys/{deploy}")["state"] == "PENDING"
    rig.kill(silent)
    assert rig.ended(deploy)["outcome"] == "cancelled"
    assert rig.ended(waiting)["outcome"] == "deployed"
    assert rig.ledger.overlaps() == []


def test_a_cancel_of_a_lost_worker_frees_its_place_on_that_persons_word(rig: Rig) -> None:
    """B12: given once the worker counts as lost, and no API of its host is asked."""
    deploy, silent = begin(rig, "w1")
    lose(rig, silent, signal.SIGSTOP)
    ended = rig.cli(["cancel", deploy])
    assert (ended.returncode, "rests on the word of ci" in ended.stderr) == (0, True), ended.stderr
    assert rig.get(f"/deploys/{deploy}")["outcome"] == "cancelled"
    rig.send(signal.SIGCONT, silent)
    # The worker is told at its next heartbeat: the hook dies, its result is nobody's.
    until(lambda: row(rig, silent)["alive"], what="it beats again")
    [run] = rig.ledger.runs(deploy=deploy)
    until(lambda: not is_alive(run.pid), what="its hook to die")
    assert rig.deployed("w2")["outcome"] == "deployed"


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_right_after_an_outage_a_cancel_waits_for_the_worker_that_lives(tmp_path: Path) -> None:
    """I1, I19: longer than `stale_after`; the cancel comes before the first heartbeat."""
    server = Postgres()
    try:
        config = {"recovery": {"heartbeat_interval": "1s", "stale_after": "3s"}}
        with Rig(tmp_path, server.create_database(), config, options=["--no-worker"]) as rig:
            rig.start_worker("w1")
            for turn in range(3):
                deploy, _ = begin(rig, f"o{turn}")
                waiting = rig.deploy(f"n{turn}")["id"]
                server.stop()
                time.sleep(5)
                server.start()
                answer = until(lambda deploy=deploy: cancelled(rig, deploy), what="an answer")
                assert (answer["state"], answer["phase"]) == ("PENDING", "cancelling")
                assert rig.ended(deploy, limit=20)["outcome"] == "cancelled"
                assert rig.ended(waiting, limit=20)["outcome"] == "deployed"
            assert rig.ledger.overlaps() == []
    finally:
        server.close()


def cancelled(rig: Rig, deploy: str) -> dict[str, Any] | None:
    """The first answer to a cancel."""
    answer = rig.http("POST", f"/deploys/{deploy}/cancel", json={})
    return answer.json() if answer.status_code == 200 else None
