"""One `serve` process: probes, listeners, its signals, and who else may be there."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.conftest import StartRig
from tests.rig.ledger import Ledger
from tests.rig.matrix import only
from tests.rig.postgres import Postgres
from tests.rig.process import until
from tests.rig.rules import AtMost
from tests.rig.serve import Config, Rig

pytestmark = pytest.mark.e2e
QUICK = {"recovery": {"heartbeat_interval": "500ms", "stale_after": "2s"}}


def config(ledger: Ledger) -> Config:
    return QUICK


@pytest.fixture(scope="module")
def fragile() -> Iterator[Postgres]:
    """A Postgres that is stopped and started; it runs again when a test of it ends."""
    server = Postgres()
    yield server
    server.close()


@pytest.fixture(scope="module")
def parted(fragile: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rig]:
    """A server whose database is that Postgres."""
    with Rig(tmp_path_factory.mktemp("parted"), fragile.create_database(), QUICK) as rig:
        yield rig


def probe(rig: Rig, path: str, *, name: str = "w0", where: str = "") -> httpx2.Response:
    """One probe, at the API or, for `metrics`, at the listener beside it."""
    base = rig.metrics_url(name) if where == "metrics" else rig.url
    answer: httpx2.Response = rig._http().get(f"{base}{path}", timeout=30)
    return answer


def answers(rig: Rig, path: str) -> bool:
    try:
        return bool(probe(rig, path).status_code)
    except httpx2.TransportError:
        return False


def explained(rig: Rig, deploy: str) -> dict[str, object]:
    found: dict[str, object] = rig.get(f"/deploys/{deploy}/explain")
    return found


def test_probes_tell_an_absent_database_from_a_dead_process(parted: Rig, fragile: Postgres) -> None:
    """B142, B37: livez is 200 throughout; readyz 503 while starting and while it is away."""
    pid = parted.process().pid
    for where in ("", "metrics"):
        assert probe(parted, "/livez", where=where).status_code == 200
        ready = probe(parted, "/readyz", where=where)
        assert (ready.status_code, ready.json()["ready"]) == (200, True)
    assert probe(parted, "/metrics").status_code == 401
    fragile.stop()
    assert_away(parted)
    fragile.start()
    until(parted.is_ready, what="ready again")
    assert parted.process().pid == pid
    until(
        lambda: "manent_database_up 1.0" in probe(parted, "/metrics", where="metrics").text,
        what="metrics that were read anew",
    )  # fmt: skip
    assert parted.get("/deploys")["items"] == []
    assert "Traceback" not in parted.logs()
    assert parted.deployed("1")["outcome"] == "deployed"


def assert_away(rig: Rig) -> None:
    """Every route says when to come back, and the process lives."""
    away = until(
        lambda: (found := probe(rig, "/readyz")).status_code == 503 and found,
        what="not ready",
    )  # fmt: skip
    assert away.json()["reasons"]
    began = time.monotonic()
    assert probe(rig, "/livez").status_code == 200
    assert probe(rig, "/livez", where="metrics").status_code == 200
    # What asks the database waits five seconds for it, each time.
    assert time.monotonic() - began < 8
    until(
        lambda: "manent_database_up 0.0" in probe(rig, "/metrics", where="metrics").text,
        what="metrics that were read anew",
    )  # fmt: skip
    asked = [rig.http("GET", path) for path in ("/deploys", "/environments/staging", "/locks")]
    body = {"application": "shop", "environment": "staging", "version": "1"}
    for refused in (*asked, rig.http("POST", "/deploys", json=body)):
        assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
        assert refused.headers["retry-after"]


def test_an_outage_of_the_database_in_mid_hook_costs_nothing(
    parted: Rig, fragile: Postgres
) -> None:
    """The database is away for ten seconds: one hook run, the same worker process."""
    pid = parted.process().pid
    parted.ledger.tell({"sleep": 10}, version="away")
    deploy = parted.deploy("away")["id"]
    until(lambda: parted.ledger.runs(deploy=deploy), what="the hook to begin")
    fragile.stop()
    until(lambda: parted.ledger.runs(deploy=deploy)[0].ended, what="the hook to end")
    fragile.start()
    assert parted.ended(deploy, limit=60)["outcome"] == "deployed"
    assert len(parted.ledger.runs(deploy=deploy)) == 1
    assert parted.process().pid == pid
    assert parted.process().is_running()


def test_a_database_that_restarts_during_a_recovery_strands_nothing(
    parted: Rig, fragile: Postgres
) -> None:
    """DBOS 716: while a start takes up what the one before left, and right after it has."""
    parted.ledger.tell({"sleep": 60}, version="stranded", attempt=1)
    deploys = [parted.deploy("stranded")["id"], parted.deploy("behind")["id"]]
    until(lambda: parted.ledger.runs(deploy=deploys[0]), what="the hook to begin")
    parted.kill()
    parted.start(wait=False)
    until(lambda: answers(parted, "/livez"), what="the listeners", limit=90)
    pid = parted.process().pid
    for _ in range(2):
        fragile.stop(signal.SIGQUIT)
        fragile.start()
        until(parted.is_ready, what="ready", limit=90)
    assert [parted.ended(deploy)["outcome"] for deploy in deploys] == ["deployed"] * 2
    assert len(parted.ledger.runs(deploy=deploys[0])) == 2
    assert parted.process().pid == pid


@pytest.mark.promise
def test_a_start_without_a_database_is_stopped_at_once(
    parted: Rig, fragile: Postgres, at_most: AtMost
) -> None:
    """B130, B37: until then it lives, is not ready and says so; the next start finds it."""
    parted.stop()
    fragile.stop()
    parted.start(wait=False)
    until(lambda: answers(parted, "/livez"), what="the listeners", limit=90)
    assert "starting" in probe(parted, "/readyz").json()["reasons"]
    began = time.monotonic()
    assert parted.stop() == 0
    assert time.monotonic() - began < at_most(5, beside=15)
    parted.start(wait=False)
    until(lambda: answers(parted, "/livez"), what="the listeners", limit=90)
    fragile.start()
    until(parted.is_ready, what="ready", limit=90)


def test_a_drain_takes_requests_and_finishes_what_runs(shared: Rig) -> None:
    """B127: not ready at once, the API answers, what is asked for waits, exit 0."""
    go = shared.folder / "drained"
    shared.ledger.tell({"wait_for": str(go)}, version="drain.1")
    running = shared.deploy("drain.1")["id"]
    until(lambda: shared.ledger.runs(deploy=running), what="the hook")
    shared.send(signal.SIGTERM)
    draining = until(
        lambda: (found := probe(shared, "/readyz")).status_code == 503 and found, what="draining"
    )
    assert draining.json()["draining"] is True
    assert draining.json()["running"] == 1
    assert probe(shared, "/livez").status_code == 200
    waiting = shared.deploy("drain.2")
    go.touch()
    assert shared.process().wait() == 0
    assert [run.exit for run in shared.ledger.runs(deploy=running)] == [0]
    assert shared.ledger.runs(deploy=waiting["id"]) == []
    assert "draining" in shared.process().output()
    shared.start()
    assert shared.get(f"/deploys/{running}")["outcome"] == "deployed"
    assert shared.ended(waiting["id"])["outcome"] == "deployed"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_now_and_nothing_is_lost(
    shared: Rig, number: signal.Signals
) -> None:
    """B130: 128 + n, hooks dead, the deploy goes on after the next start."""
    shared.ledger.tell({"sleep": 30, "tick": 0.1, "child": 30}, attempt=1)
    deploy = shared.deploy(f"signal.{int(number)}")["id"]
    until(lambda: shared.ledger.children(deploy=deploy), what="the hook")
    shared.send(number)
    until(lambda: probe(shared, "/readyz").status_code == 503, what="draining")
    shared.send(number)
    assert shared.process().wait() == 128 + number
    shared.start()
    assert shared.ended(deploy, limit=60)["outcome"] == "deployed"
    first, second = shared.ledger.runs(deploy=deploy)
    (child,) = shared.ledger.children(deploy=deploy, attempt=1)
    assert max(first.until, child.until) < second.started


@pytest.mark.parametrize(
    "database_url", ["sqlite", pytest.param("postgres", marks=pytest.mark.soak)], indirect=True
)
def test_without_a_worker_a_deploy_waits_and_says_for_whom(
    start_rig: StartRig, database_url: str
) -> None:
    rig = start_rig(database_url, options=["--no-worker"])
    deploy = rig.deploy("waits")
    assert (deploy["state"], deploy["phase"]) == ("ENQUEUED", "queued")
    why = explained(rig, deploy["id"])
    assert why["summary"] == "position 1 in the queue, no worker of pool default is alive"
    assert why["workers"] == {"pool": "default", "alive": [], "lacking": ["a live worker"]}
    told = rig.cli(["explain", deploy["id"]])
    assert (told.returncode, "no worker" in told.stdout) == (0, True)
    assert rig.ledger.runs(deploy=deploy["id"]) == []
    assert "manent_executor_up{" not in probe(rig, "/metrics", where="metrics").text
    assert rig.stop() == 0
    rig._options["w0"] = ()
    rig.start()
    assert rig.ended(deploy["id"])["outcome"] == "deployed"


@pytest.fixture(scope="module")
def lone(tmp_path_factory: pytest.TempPathFactory, postgres_server: Postgres) -> Iterator[Rig]:
    """An API without a worker, and one worker beside it."""
    folder: Path = tmp_path_factory.mktemp("lone")
    url = postgres_server.create_database()
    with Rig(folder, url, QUICK, options=["--no-worker"]) as rig:
        rig.start_worker("w1")
        yield rig


def is_up(rig: Rig, executor: str) -> float:
    """What the API's process says of a worker elsewhere."""
    text = probe(rig, "/metrics", where="metrics").text
    (line,) = [li for li in text.splitlines() if f'manent_executor_up{{executor="{executor}"' in li]
    return float(line.split()[-1])


def test_a_process_without_the_api_opens_the_listener_of_probes_alone(lone: Rig) -> None:
    with pytest.raises(httpx2.TransportError):
        lone._http().get(f"http://127.0.0.1:{lone._ports['w1'][0]}/livez")
    for path in ("/livez", "/readyz", "/metrics"):
        assert probe(lone, path, name="w1", where="metrics").status_code == 200
    refused = probe(lone, "/api/v1/deploys", name="w1", where="metrics")
    assert refused.status_code in (401, 404)
    assert is_up(lone, "w1") == 1
    assert lone.deployed("probed")["executor"] == "w1"


def test_one_worker_lost_blocks_with_a_name_and_is_freed_by_a_cancel(lone: Rig) -> None:
    """B12, B09: the next deploy says who is in the way; cancel frees the place; no surgery."""
    lone.ledger.tell({"sleep": 60, "tick": 0.1}, version="1")
    lost = lone.deploy("1")["id"]
    until(lambda: lone.ledger.runs(version="1"), what="the hook")
    behind = [lone.deploy(version)["id"] for version in ("2", "3")]
    why = explained(lone, behind[1])
    assert (why["position"], why["ahead"]) == (2, [behind[0]])
    assert why["blocked_by"] == {"id": lost, "executor": "w1", "alive": True}
    lone.kill("w1")
    dead = {"id": lost, "executor": "w1", "alive": False}
    until(lambda: explained(lone, behind[0])["blocked_by"] == dead, what="the loss")
    summary = str(explained(lone, behind[0])["summary"])
    assert lost in summary
    assert "w1" in summary
    until(lambda: is_up(lone, "w1") == 0, what="the loss in the metrics, which are read anew")
    assert lone.get(f"/deploys/{lost}")["state"] == "PENDING"
    assert lone.cli(["cancel", lost]).returncode == 0
    ended = lone.ended(lost)
    assert (ended["state"], ended["outcome"]) == ("CANCELLED", "cancelled")
    assert "no worker" in str(explained(lone, behind[0])["summary"])
    lone.start("w1")
    assert [lone.ended(deploy)["outcome"] for deploy in behind] == ["deployed", "deployed"]
    assert len(lone.ledger.runs(version="1")) == 1
    assert lone.ledger.overlaps() == []


def start_twin(rig: Rig) -> None:
    """A second process under the executor id of the first."""
    rig._options["w1"] = ("--no-api",)
    rig.write_config("w1")
    file = rig.config_file("w1")
    file.write_text(file.read_text().replace("executor_id: w1", "executor_id: w0"))
    rig.start("w1", wait=False)


def test_a_second_process_of_one_executor_id_waits_for_the_first(
    start_rig: StartRig, postgres_url: str
) -> None:
    """B06, DBOS 804: while the first drains nothing is taken twice; then the second has it all."""
    rig = start_rig(postgres_url)
    go = rig.folder / "drained"
    rig.ledger.tell({"wait_for": str(go)}, version="1")
    deploy = rig.deploy("1")["id"]
    until(rig.ledger.runs, what="the hook")
    start_twin(rig)
    until(lambda: _starting(rig), what="the second to wait", limit=90)
    following = rig.deploy("2")["id"]
    rig.send(signal.SIGTERM)
    until(lambda: "draining" in rig.process().output(), what="the drain")
    go.touch()
    assert rig.process().wait() == 0
    until(lambda: rig.is_ready("w1"), what="the second to take over", limit=90)
    rig._options["w0"] = ("--no-worker",)
    rig.start()
    assert rig.ended(deploy)["outcome"] == "deployed"
    assert rig.ended(following)["outcome"] == "deployed"
    assert len(rig.ledger.runs()) == 2
    assert rig.ledger.overlaps() == []


def _starting(rig: Rig) -> bool:
    try:
        answer = rig._http().get(f"{rig.metrics_url('w1')}/readyz")
    except httpx2.TransportError:
        return False
    return answer.status_code == 503 and "starting" in answer.json()["reasons"]


@pytest.mark.soak
@pytest.mark.timeout(300)  # it waits for two minutes itself
def test_a_second_process_gives_up_naming_the_first(start_rig: StartRig, postgres_url: str) -> None:
    """B06: when the first goes on and on, exit 75 after two minutes."""
    rig = start_rig(postgres_url)
    start_twin(rig)
    assert rig.process("w1").wait(limit=200) == 75
    said = rig.process("w1").output()
    assert "executor_id w0 is in use by" in said
    assert "next:" in said
    assert rig.deployed("1")["outcome"] == "deployed"


@only("sqlite")
def test_a_second_process_on_one_sqlite_file_is_refused(shared: Rig) -> None:
    """B137: exit 75 naming the holder; the first goes on, and tokens are made beside it."""
    start_twin(shared)
    assert shared.process("w1").wait(limit=90) == 75
    said = shared.process("w1").output()
    assert f"process {shared.process().pid}" in said
    assert "is served by process" in said
    assert "next:" in said
    assert "Traceback" not in said
    token = shared.new_token("beside", "viewer")
    answer = shared.http("GET", "/deploys", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200
    assert shared.deployed("beside")["outcome"] == "deployed"


@only("postgres")
def test_a_taken_port_is_named(shared: Rig) -> None:
    told = shared.server_cli(["serve"])
    assert told.returncode not in (0, 1)
    assert "listen" in told.stderr
    assert "Traceback" not in told.stderr
