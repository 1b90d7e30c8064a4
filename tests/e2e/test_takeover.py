"""Automatic recovery on real processes: another worker goes on, and the lost one notices."""

import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.rig.ledger import Ledger
from tests.rig.postgres import Postgres
from tests.rig.process import until
from tests.rig.serve import Rig

pytestmark = [pytest.mark.e2e, pytest.mark.postgres, pytest.mark.xdist_group("takeover")]

WORKERS = ("w1", "w2")
# A watcher begins anew after a gap of one heartbeat: long enough for a busy machine.
AFTER = 8.0
BEAT = 2.0
LIMIT = AFTER + 60
HOOKS = ("deploy", "verify")


def config(ledger: Ledger) -> dict[str, Any]:
    return {
        "recovery": {
            "heartbeat_interval": "2s", "stale_after": "6s", "auto_recover_after": "8s",
        },
        "dbos": {"drain_timeout": "1s"},
        "applications": {
            "walk": ledger.application(targets=("a", "b"), waves=[1, "rest"], hooks=HOOKS),
        },
    }  # fmt: skip


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory, postgres_server: Postgres) -> Iterator[Rig]:
    """An API without a worker, and two workers that take over from each other."""
    folder, url = tmp_path_factory.mktemp("takeover"), postgres_server.create_database()
    with Rig(folder, url, config(Ledger(folder)), options=["--no-worker"]) as rig:
        for name in WORKERS:
            rig.start_worker(name, wait=False)
        yield rig


@pytest.fixture(autouse=True)
def crew(rig: Rig) -> None:
    """Both workers live when a test begins."""
    rig.ledger.tell()
    for name in WORKERS:
        if rig.process(name).is_running():
            rig.send(signal.SIGCONT, name)
        else:
            rig.start(name, wait=False)
        until(lambda name=name: rig.is_ready(name), what=f"{name} ready", limit=90)


def begin(rig: Rig, version: str) -> tuple[str, str, str]:
    """A deploy in the middle of its second target's hook; its id, its worker, the other one."""
    slow = {"version": version, "hook": "deploy", "target": "b", "attempt": 1}
    rig.ledger.tell({"sleep": 60, "tick": 0.02}, **slow)
    deploy = rig.deploy(version, application="walk")["id"]
    until(lambda: rig.ledger.runs(deploy=deploy, target="b"), what="its hook to run")
    lost = rig.get(f"/deploys/{deploy}")["executor"]
    return deploy, lost, next(name for name in WORKERS if name != lost)


def row(rig: Rig, executor: str) -> dict[str, Any]:
    rows = rig.get("/admin/executors")["executors"]
    found: dict[str, Any] = next(one for one in rows if one["id"] == executor)
    return found


def check(rig: Rig, deploy: str, *, by: str) -> None:
    """Finished steps once, the interrupted one once more, nothing at the same time."""
    ended = rig.ended(deploy, limit=LIMIT)
    assert (ended["outcome"], ended["executor"]) == ("deployed", by)
    runs = [(run.hook, run.target) for run in rig.ledger.runs(deploy=deploy)]
    again = ("deploy", "b")
    assert runs == [("deploy", "a"), ("verify", "a"), again, again, ("verify", "b")]
    assert rig.ledger.overlaps() == []


def test_after_a_kill_another_worker_goes_on(rig: Rig) -> None:
    """I3, I4: not before its lease has ended; the report says from which step."""
    deploy, lost, other = begin(rig, "k1")
    rig.kill(lost)
    killed = time.clock_gettime(time.CLOCK_BOOTTIME)
    check(rig, deploy, by=other)
    again = rig.ledger.runs(deploy=deploy, hook="deploy", target="b")[1]
    # How long it takes at most is measured by the bench.
    assert again.started - killed >= AFTER - BEAT
    assert row(rig, lost)["recovered_by"] == other
    assert f"{lost} was taken over by {other}" in rig.logs(other)
    assert f"{deploy} from deploy:b" in rig.logs(other)
    lines = [line["text"] for line in rig.get(f"/deploys/{deploy}/logs")["items"]]
    assert any(f"taken over from {lost}, silent for" in line for line in lines)


def test_a_stopped_worker_that_comes_back_does_nothing_more(rig: Rig) -> None:
    """B03: it was taken over from; its hook is dead, its result dropped, and it must restart."""
    deploy, lost, other = begin(rig, "p1")
    rig.send(signal.SIGSTOP, lost)
    check(rig, deploy, by=other)
    before = rig.get(f"/deploys/{deploy}")
    rig.send(signal.SIGCONT, lost)
    assert rig.process(lost).wait(limit=60) == 75
    assert "ERROR" in rig.logs(lost) or "error" in rig.logs(lost)
    assert rig.get(f"/deploys/{deploy}") == before
    assert rig.ledger.overlaps() == []
    rig.start(lost)
    assert "recovered_by" not in row(rig, lost)


def test_everybody_may_try_and_one_takes_over(rig: Rig) -> None:
    """B21: workers and two operators at the same moment: one claim, two lines of the hook."""
    deploy, lost, other = begin(rig, "b1")
    answers: list[int] = []
    over = threading.Event()

    def insist() -> None:
        while not over.is_set():
            body = {"executor": lost}
            answers.append(rig.http("POST", "/admin/recover", json=body).status_code)

    operators = [threading.Thread(target=insist) for _ in range(2)]
    rig.kill(lost)
    for operator in operators:
        operator.start()
    try:
        check(rig, deploy, by=other)
    finally:
        over.set()
        for operator in operators:
            operator.join()
    assert answers.count(200) <= 1
    assert set(answers) <= {200, 409, 503}  # so many want that row
    code = rig.http("POST", "/admin/recover", json={"executor": lost}).json()["code"]
    assert code == "already_recovered"


def test_a_drained_worker_leaves_nothing_and_the_other_goes_on(rig: Rig) -> None:
    """B140: scaled down in mid-hook; what it handed back or left goes on elsewhere at once."""
    deploy, lost, other = begin(rig, "d1")
    assert rig.stop(lost) == 0
    check(rig, deploy, by=other)
    assert "pending" not in row(rig, lost)


def rounds(rig: Rig, count: int) -> None:
    """Deploys whose ends coincide with rounds of watcher and reconciler."""
    deploys = []
    for number in range(count):
        seconds = 0.3 + (number % 10) * 0.1
        rig.ledger.tell({"sleep": seconds}, version=f"e{number}")
        application = ("shop", "billing")[number % 2]
        environment = ("staging", "production")[number // 2 % 2]
        deploys.append(rig.deploy(f"e{number}", application=application, environment=environment))
    for deploy in deploys:
        assert rig.ended(deploy["id"], limit=count * 3 + 30)["outcome"] == "deployed"
        assert len(rig.ledger.runs(deploy=deploy["id"])) == 1


def test_an_end_that_meets_a_round_is_an_end(rig: Rig) -> None:
    """B28: each ends once, as it was."""
    rounds(rig, 12)


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_two_hundred_ends_that_meet_rounds_are_ends(rig: Rig) -> None:
    """B28: two hundred of them."""
    rounds(rig, 200)
