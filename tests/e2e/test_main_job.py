"""The main job at the door: real processes, real hooks, both databases."""

import concurrent.futures as cf
import uuid

import pytest

from tests.conftest import StartRig
from tests.rig.postgres import Postgres
from tests.rig.process import until
from tests.rig.serve import Rig

pytestmark = pytest.mark.e2e


def test_a_deploy_runs_from_the_call_to_the_inventory(rig: Rig) -> None:
    ended = rig.deployed("1.0.0", reason="first", links={"ci": "https://ci.example/1"})
    assert (ended["state"], ended["outcome"], ended["phase"]) == ("SUCCESS", "deployed", None)
    assert ended["number"] == 1
    assert ended["links"] == {"ci": "https://ci.example/1"}
    (run,) = rig.ledger.runs()
    assert (run.version, run.target, run.attempt, run.kind) == ("1.0.0", "host", 1, "deploy")
    (row,) = rig.get("/inventory")["items"]
    assert (row["version"], row["state"], row["deploy"]) == ("1.0.0", "known", ended["id"])
    steps = rig.get(f"/deploys/{ended['id']}/steps")["items"]
    assert [(step["step"], step["state"]) for step in steps][:2] == [
        ("prepare", "succeeded"),
        ("deploy:host", "succeeded"),
    ]
    (first, *_) = rig.get(f"/deploys/{ended['id']}/attempts")["items"]
    assert (first["result"], first["attempt"], first["executor"]) == ("succeeded", 1, "w0")


def test_what_a_hook_prints_is_the_log_of_its_deploy(rig: Rig) -> None:
    rig.ledger.tell({"print": "one\ntwo"})
    ended = rig.deployed("1")
    lines = rig.get(f"/deploys/{ended['id']}/logs")["items"]
    printed = [line["text"] for line in lines if line["stream"] == "out"]
    assert printed == ["one", "two"]
    assert [line["sequence"] for line in lines] == list(range(1, len(lines) + 1))


def test_a_deploy_is_found_by_number_and_by_a_beginning_of_its_id(rig: Rig) -> None:
    ended = rig.deployed("1")
    for address in (ended["id"], ended["id"][:6], "shop%2Fstaging%231", "shop/staging%231"):
        assert rig.get(f"/deploys/{address}")["id"] == ended["id"]


def test_one_idempotency_key_is_one_deploy(rig: Rig) -> None:
    """B120: a hundred parallel requests, another body, another path."""
    key = str(uuid.uuid4())
    body = {"application": "shop", "environment": "staging", "version": "1"}

    def ask(_: int) -> tuple[int, str]:
        answer = rig.http("POST", "/deploys", json=body, headers={"Idempotency-Key": key})
        return answer.status_code, answer.json()["id"]

    with cf.ThreadPoolExecutor(20) as pool:
        answers = set(pool.map(ask, range(100)))
    assert len(answers) == 1
    assert answers.pop()[0] == 202
    other = rig.http(
        "POST", "/deploys", json=body | {"version": "2"}, headers={"Idempotency-Key": key}
    )
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    assert len(rig.get("/deploys")["items"]) == 1
    lock = {"environment": "staging", "reason": "same key, other path"}
    elsewhere = rig.http("POST", "/locks", json=lock, headers={"Idempotency-Key": key})
    assert elsewhere.status_code == 201


def test_deploys_of_one_environment_run_one_after_the_other(
    start_rig: StartRig, postgres_url: str
) -> None:
    """B13: twenty clients, twenty deploys in the same instant, three workers."""
    rig = start_rig(postgres_url)
    rig.start_worker("w1")
    rig.start_worker("w2")
    rig.ledger.tell({"sleep": 0.2})

    def ask(number: int) -> str:
        application = ("shop", "billing")[number % 2]
        return str(rig.deploy(f"1.{number}", application=application)["id"])

    with cf.ThreadPoolExecutor(20) as pool:
        deploys = list(pool.map(ask, range(20)))
    ended = [rig.ended(deploy, limit=60) for deploy in deploys]
    assert {deploy["outcome"] for deploy in ended} == {"deployed"}
    assert rig.ledger.overlaps() == []
    assert rig.ledger.peak("staging") == 1
    numbers = {deploy["id"]: deploy["number"] for deploy in ended}
    assert [numbers[run.deploy] for run in rig.ledger.runs()] == list(range(1, 21))
    workers = {deploy["executor"] for deploy in ended}
    assert workers <= {"w0", "w1", "w2"}


def test_no_application_overlaps_itself_where_several_may_run(
    start_rig: StartRig, postgres_url: str
) -> None:
    names = [f"app{number}" for number in range(4)]
    rig = start_rig(postgres_url)
    rig.configure(
        {
            "environments": {"staging": {"concurrency": 5}},
            "applications": {name: rig.ledger.application() for name in names},
        }
    )
    rig.stop()
    rig.start()
    rig.start_worker("w1")
    rig.ledger.tell({"sleep": 0.3})

    def ask(number: int) -> str:
        return str(rig.deploy(f"1.{number}", application=names[number % 4])["id"])

    with cf.ThreadPoolExecutor(16) as pool:
        deploys = list(pool.map(ask, range(16)))
    for deploy in deploys:
        assert rig.ended(deploy, limit=60)["outcome"] == "deployed"
    assert rig.ledger.overlaps() == []
    assert 2 <= rig.ledger.peak("staging") <= 5


def test_an_outage_of_the_database_in_mid_hook_costs_nothing(
    start_rig: StartRig, own_postgres: Postgres
) -> None:
    """The database is away for ten seconds: one hook run, the same worker process."""
    rig = start_rig(own_postgres.create_database())
    pid = rig.process().pid
    rig.ledger.tell({"sleep": 6})
    deploy = rig.deploy("1")["id"]
    until(rig.ledger.runs, what="the hook to begin")
    own_postgres.stop()
    until(lambda: rig.ledger.runs()[0].ended, what="the hook to end", limit=15)
    own_postgres.start()
    assert rig.ended(deploy, limit=30)["outcome"] == "deployed"
    assert len(rig.ledger.runs()) == 1
    assert rig.process().pid == pid
    assert rig.process().is_running()


@pytest.mark.parametrize("hook", ["deploy", "verify"])
def test_a_killed_worker_goes_on_with_the_interrupted_step_alone(
    start_rig: StartRig, database_url: str, hook: str
) -> None:
    """kill -9 inside a hook: its tree dies before the rerun, what had finished stays done."""
    rig = start_rig(database_url)
    rig.configure({"applications": {"shop": {"options": rig.ledger.options("deploy", "verify")}}})
    rig.stop()
    rig.start()
    rig.ledger.tell({"sleep": 30, "tick": 0.05, "child": 30}, hook=hook, attempt=1)
    deploy = rig.deploy("1")["id"]
    until(lambda: rig.ledger.children(hook=hook), what="the grandchild to begin")
    rig.kill()
    rig.start()
    assert rig.ended(deploy, limit=40)["outcome"] == "deployed"
    runs = [(run.hook, run.attempt) for run in rig.ledger.runs()]
    expected = {"deploy": [("deploy", 1), ("deploy", 2), ("verify", 1)]}
    expected["verify"] = [("deploy", 1), ("verify", 1), ("verify", 2)]
    assert runs == expected[hook]
    assert rig.ledger.overlaps() == []
    again = rig.ledger.runs(hook=hook, attempt=2)[0].started
    (child,) = rig.ledger.children(hook=hook, attempt=1)
    assert child.until < again
    results = [a["result"] for a in rig.get(f"/deploys/{deploy}/attempts")["items"]]
    assert results.count("interrupted") == 1
    # The environment goes on.
    rig.ledger.tell()
    assert rig.deployed("2")["outcome"] == "deployed"


def test_a_stop_waits_for_running_deploys(rig: Rig) -> None:
    rig.ledger.tell({"sleep": 2})
    running = rig.deploy("1")["id"]
    until(rig.ledger.runs, what="the hook to begin")
    waiting = rig.deploy("2")["id"]
    assert rig.stop() == 0
    (run,) = rig.ledger.runs()
    assert (run.version, run.exit) == ("1", 0)
    rig.ledger.tell()
    rig.start()
    assert rig.ended(running)["outcome"] == "deployed"
    assert rig.ended(waiting)["outcome"] == "deployed"
    assert [run.version for run in rig.ledger.runs()] == ["1", "2"]


def test_without_a_token_nothing_is_answered(rig: Rig) -> None:
    for path in ("/deploys", "/inventory", "/environments", "/locks", "/nothing"):
        answer = rig.http("GET", path, headers={"Authorization": ""})
        assert answer.status_code == 401
        assert answer.headers["content-type"] == "application/problem+json"
