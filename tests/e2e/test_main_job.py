"""The main job at the door: real processes, real hooks, both databases."""

import concurrent.futures as cf
import signal
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rig.ledger import Ledger
from tests.rig.postgres import Postgres
from tests.rig.process import until
from tests.rig.serve import Config, Rig

pytestmark = [pytest.mark.e2e, pytest.mark.each_database]

CROWD = [f"app{number}" for number in range(4)]


def config(ledger: Ledger) -> Config:
    return {
        # A start waits until the row of the one before is stale.
        "recovery": {"heartbeat_interval": "500ms", "stale_after": "2s"},
        "environments": {"own": {"tier": "staging"}},
        "applications": {
            "first": ledger.application(environments=("own",)),
            "dies": ledger.application(hooks=("deploy", "verify")),
            **{name: ledger.application() for name in ("prints", "once", "halts")},
        },
    }


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory, postgres_server: Postgres) -> Iterator[Rig]:
    """Three workers; one deploy at a time in staging, five in the wide environment."""
    folder: Path = tmp_path_factory.mktemp("crew")
    crowd = {name: Ledger(folder).application(environments=("wide",)) for name in CROWD}
    wide = {"wide": {"tier": "staging", "concurrency": 5}}
    url = postgres_server.create_database()
    with Rig(folder, url, {"environments": wide, "applications": crowd}) as rig:
        for name in ("w1", "w2"):
            rig.start_worker(name)
        yield rig


def test_a_deploy_runs_from_the_call_to_the_inventory(shared: Rig) -> None:
    where = {"application": "first", "environment": "own"}
    ended = shared.deployed("1.0.0", reason="first", links={"ci": "https://ci.example/1"}, **where)
    assert (ended["state"], ended["outcome"], ended["phase"]) == ("SUCCESS", "deployed", None)
    assert ended["number"] == 1
    assert ended["links"] == {"ci": "https://ci.example/1"}
    (run,) = shared.ledger.runs(deploy=ended["id"])
    assert (run.version, run.target, run.attempt, run.kind) == ("1.0.0", "host", 1, "deploy")
    (row,) = shared.get("/inventory", **where)["items"]
    assert (row["version"], row["state"], row["deploy"]) == ("1.0.0", "known", ended["id"])
    steps = shared.get(f"/deploys/{ended['id']}/steps")["items"]
    assert [(step["step"], step["state"]) for step in steps][:2] == [
        ("prepare", "succeeded"),
        ("deploy:host", "succeeded"),
    ]
    (first, *_) = shared.get(f"/deploys/{ended['id']}/attempts")["items"]
    assert (first["result"], first["attempt"], first["executor"]) == ("succeeded", 1, "w0")
    for address in (ended["id"], ended["id"][:6], "first%2Fown%231", "first/own%231"):
        assert shared.get(f"/deploys/{address}")["id"] == ended["id"]


def test_what_a_hook_prints_is_the_log_of_its_deploy(shared: Rig) -> None:
    shared.ledger.tell({"print": "one\ntwo"})
    ended = shared.deployed("1", application="prints")
    lines = shared.get(f"/deploys/{ended['id']}/logs")["items"]
    printed = [line["text"] for line in lines if line["stream"] == "out"]
    assert printed == ["one", "two"]
    assert [line["sequence"] for line in lines] == list(range(1, len(lines) + 1))


def test_one_idempotency_key_is_one_deploy(shared: Rig) -> None:
    """B120: a hundred parallel requests, another body, another path."""
    key = str(uuid.uuid4())
    body = {"application": "once", "environment": "staging", "version": "1"}

    def ask(_: int) -> tuple[int, str]:
        answer = shared.http("POST", "/deploys", json=body, headers={"Idempotency-Key": key})
        return answer.status_code, answer.json()["id"]

    with cf.ThreadPoolExecutor(20) as pool:
        answers = set(pool.map(ask, range(100)))
    assert len(answers) == 1
    assert answers.pop()[0] == 202
    other = shared.http(
        "POST", "/deploys", json=body | {"version": "2"}, headers={"Idempotency-Key": key}
    )
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    assert len(shared.get("/deploys", application="once")["items"]) == 1
    lock = {"environment": "staging", "reason": "same key, other path"}
    elsewhere = shared.http("POST", "/locks", json=lock, headers={"Idempotency-Key": key})
    assert elsewhere.status_code == 201
    shared.http("DELETE", f"/locks/{elsewhere.json()['id']}")


def test_deploys_of_one_environment_run_one_after_the_other(crew: Rig) -> None:
    """B13: twenty clients, twenty deploys in the same instant, three workers."""
    crew.ledger.tell({"sleep": 0.2})

    def ask(number: int) -> str:
        application = ("shop", "billing")[number % 2]
        return str(crew.deploy(f"1.{number}", application=application)["id"])

    with cf.ThreadPoolExecutor(20) as pool:
        deploys = list(pool.map(ask, range(20)))
    ended = [crew.ended(deploy, limit=60) for deploy in deploys]
    assert {deploy["outcome"] for deploy in ended} == {"deployed"}
    assert crew.ledger.overlaps() == []
    assert crew.ledger.peak("staging") == 1
    numbers = {deploy["id"]: deploy["number"] for deploy in ended}
    assert [numbers[run.deploy] for run in crew.ledger.runs(environment="staging")] == list(
        range(1, 21)
    )
    workers = {deploy["executor"] for deploy in ended}
    assert workers <= {"w0", "w1", "w2"}


def test_no_application_overlaps_itself_where_several_may_run(crew: Rig) -> None:
    crew.ledger.tell()
    crew.ledger.tell({"sleep": 0.3})

    def ask(number: int) -> str:
        where = {"application": CROWD[number % 4], "environment": "wide"}
        return str(crew.deploy(f"1.{number}", **where)["id"])

    with cf.ThreadPoolExecutor(16) as pool:
        deploys = list(pool.map(ask, range(16)))
    for deploy in deploys:
        assert crew.ended(deploy, limit=60)["outcome"] == "deployed"
    assert crew.ledger.overlaps() == []
    assert 2 <= crew.ledger.peak("wide") <= 5


@pytest.mark.parametrize("hook", ["deploy", "verify"])
def test_a_killed_worker_goes_on_with_the_interrupted_step_alone(shared: Rig, hook: str) -> None:
    """kill -9 inside a hook: its tree dies before the rerun, what had finished stays done."""
    shared.ledger.tell({"sleep": 30, "tick": 0.05, "child": 30}, hook=hook, attempt=1)
    deploy = shared.deploy(f"{hook}.1", application="dies")["id"]
    until(lambda: shared.ledger.children(deploy=deploy, hook=hook), what="the grandchild to begin")
    shared.kill()
    shared.start()
    assert shared.ended(deploy, limit=40)["outcome"] == "deployed"
    runs = [(run.hook, run.attempt) for run in shared.ledger.runs(deploy=deploy)]
    expected = {"deploy": [("deploy", 1), ("deploy", 2), ("verify", 1)]}
    expected["verify"] = [("deploy", 1), ("verify", 1), ("verify", 2)]
    assert runs == expected[hook]
    assert shared.ledger.overlaps() == []
    again = shared.ledger.runs(deploy=deploy, hook=hook, attempt=2)[0].started
    (child,) = shared.ledger.children(deploy=deploy, hook=hook, attempt=1)
    assert child.until < again
    results = [a["result"] for a in shared.get(f"/deploys/{deploy}/attempts")["items"]]
    assert results.count("interrupted") == 1
    # The environment goes on.
    shared.ledger.tell()
    assert shared.deployed(f"{hook}.2", application="dies")["outcome"] == "deployed"


def test_a_stop_waits_for_running_deploys(shared: Rig) -> None:
    go = shared.folder / "halts"
    shared.ledger.tell({"wait_for": str(go)})
    running = shared.deploy("1", application="halts")["id"]
    until(lambda: shared.ledger.runs(deploy=running), what="the hook to begin")
    waiting = shared.deploy("2", application="halts")["id"]
    shared.send(signal.SIGTERM)
    until(lambda: "draining" in shared.process().output(), what="the drain")
    go.touch()
    assert shared.process().wait() == 0
    (run,) = shared.ledger.runs(application="halts")
    assert (run.version, run.exit) == ("1", 0)
    shared.ledger.tell()
    shared.start()
    assert shared.ended(running)["outcome"] == "deployed"
    assert shared.ended(waiting)["outcome"] == "deployed"
    assert [run.version for run in shared.ledger.runs(application="halts")] == ["1", "2"]


def test_without_a_token_nothing_is_answered(shared: Rig) -> None:
    for path in ("/deploys", "/inventory", "/environments", "/locks", "/nothing"):
        answer = shared.http("GET", path, headers={"Authorization": ""})
        assert answer.status_code == 401
        assert answer.headers["content-type"] == "application/problem+json"
