"""Leases at the door: a worker that is stopped, cut off or robbed of a guard acts alone or not.

Real processes on Postgres, with automatic recovery after six seconds: a lease lasts 4.5 s.
"""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from manent_server.plugins import processes
from tests.rig.ledger import Run
from tests.rig.postgres import Postgres
from tests.rig.process import is_alive, until
from tests.rig.proxy import Proxy
from tests.rig.serve import Rig

pytestmark = [pytest.mark.e2e, pytest.mark.postgres]
with_lone = pytest.mark.xdist_group("fencing-lone")
with_pair = pytest.mark.xdist_group("fencing-pair")

LEASE = 4.5
AUTOMATIC = {"heartbeat_interval": "500ms", "stale_after": "3s", "auto_recover_after": "6s"}
# Scheduling, SIGKILL and the end of a process on a busy machine.
SLACK = 1.2


class Lone:
    """A server with its worker, and a proxy between it and its database."""

    def __init__(self, rig: Rig, proxy: Proxy, database_url: str) -> None:
        self.rig, self.proxy, self.database_url = rig, proxy, database_url

    def begin(self, application: str, version: str, order: dict[str, Any]) -> tuple[str, Run]:
        """A deploy whose first hook runs, telling the ledger so again and again."""
        rig = self.rig
        rig.ledger.tell({"tick": 0.05, **order}, version=version, attempt=1)
        deploy = str(rig.deploy(version, application=application)["id"])
        (run,) = until(lambda: rig.ledger.runs(deploy=deploy), what="the hook")
        return deploy, run

    def attempts(self, deploy: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.rig.get(f"/deploys/{deploy}/attempts")["items"]
        return [attempt for attempt in found if attempt["step"].startswith("deploy:")]

    def column(self, deploy: str, name: str) -> Any:
        """A column of its newest attempt."""
        query = f"SELECT {name} FROM manent.attempts WHERE deploy = %s ORDER BY handed_out_at DESC"  # noqa: S608 - a name of this file
        with psycopg.connect(self.database_url) as connection:
            row = connection.execute(query, [deploy]).fetchone()
        assert row is not None
        return row[0]

    @contextmanager
    def held(self, deploy: str) -> Iterator[None]:
        """Its attempts' rows locked by somebody else."""
        query = "SELECT id FROM manent.attempts WHERE deploy = %s FOR UPDATE"
        with psycopg.connect(self.database_url) as connection:
            connection.execute(query, [deploy])
            yield


@pytest.fixture(scope="module")
def lone(tmp_path_factory: pytest.TempPathFactory, postgres_server: Postgres) -> Iterator[Lone]:
    url = postgres_server.create_database()
    proxy = Proxy(postgres_server.port)
    folder = tmp_path_factory.mktemp("lone")
    with Rig(folder, proxy.url(url), {"recovery": AUTOMATIC}) as rig:
        yield Lone(rig, proxy, url)
    proxy.close()


def newest(rig: Rig, deploy: str) -> Run:
    return rig.ledger.runs(deploy=deploy)[-1]


def boot_of(wall: Any) -> float:
    """An instant of the database on the clock of the ledger: both are this machine's."""
    return float(wall.timestamp()) - time.time() + time.clock_gettime(time.CLOCK_BOOTTIME)


@with_lone
def test_a_worker_stopped_for_less_than_its_lease_goes_on_as_if_nothing_were(lone: Lone) -> None:
    deploy, _ = lone.begin("shop", "short", {"sleep": 4})
    lone.rig.send(signal.SIGSTOP)
    time.sleep(1.5)  # the thing under test: three heartbeats, a third of the lease
    lone.rig.send(signal.SIGCONT)
    assert lone.rig.ended(deploy)["outcome"] == "deployed"
    assert [attempt["result"] for attempt in lone.attempts(deploy)] == ["succeeded"]
    assert len(lone.rig.ledger.runs(deploy=deploy)) == 1


@with_lone
def test_an_attempt_lives_as_long_as_its_worker_does(lone: Lone) -> None:
    """B01: a lease follows the heartbeat, never the age of the attempt."""
    deploy, _ = lone.begin("shop", "long", {"sleep": 8})
    assert lone.rig.ended(deploy)["outcome"] == "deployed"
    assert len(lone.rig.ledger.runs(deploy=deploy)) == 1


@with_lone
def test_an_attempt_whose_row_somebody_holds_keeps_its_lease_and_lives(lone: Lone) -> None:
    deploy, _ = lone.begin("billing", "held", {"sleep": 4.5})
    with lone.held(deploy):
        before = lone.column(deploy, "lease_until")
        until(lambda: newest(lone.rig, deploy).last_seen > boot_of(before) - 1.5, what="most of it")
        assert lone.column(deploy, "lease_until") == before
    assert lone.rig.ended(deploy)["outcome"] == "deployed"
    assert len(lone.rig.ledger.runs(deploy=deploy)) == 1


@with_lone
def test_a_guard_killed_alone_leaves_its_attempt_to_the_lease(lone: Lone) -> None:
    """What it kept is dead at once, but only the end of the lease says so."""
    deploy, run = lone.begin("shop", "guard", {"sleep": 30, "child": 30})
    until(lambda: lone.rig.ledger.children(deploy=deploy), what="its child")
    os.kill(processes.snapshot()[run.pid].session, signal.SIGKILL)
    killed = time.clock_gettime(time.CLOCK_BOOTTIME)
    until(lambda: not is_alive(run.pid), what="the end of the hook")
    assert lone.column(deploy, "ended_at") is None
    lease_until = boot_of(lone.column(deploy, "lease_until"))
    assert killed < lease_until < killed + LEASE + SLACK
    assert lone.rig.ended(deploy)["outcome"] == "deployed"
    first, second = lone.rig.ledger.runs(deploy=deploy)
    (child,) = lone.rig.ledger.children(deploy=deploy)
    assert max(first.until, child.until) < killed + SLACK
    assert second.started >= lease_until - 0.01
    assert [attempt["result"] for attempt in lone.attempts(deploy)] == ["interrupted", "succeeded"]


@with_lone
def test_a_heartbeat_without_an_answer_is_sent_again_on_a_new_connection(lone: Lone) -> None:
    """A proxy that keeps the dead connection open: no hook dies of it."""
    deploy, run = lone.begin("shop", "hung", {"sleep": 60})
    lone.proxy.hang()
    before = lone.column(deploy, "lease_until")
    until(lambda: lone.column(deploy, "lease_until") > before, what="a new lease")
    assert is_alive(run.pid)
    lone.proxy.cut()  # what else hangs would take half a minute
    lone.proxy.restore()
    lone.rig.cli(["cancel", deploy], check=True)
    assert lone.rig.ended(deploy)["outcome"] == "cancelled"
    assert len(lone.rig.ledger.runs(deploy=deploy)) == 1


@with_lone
def test_a_worker_that_cannot_renew_kills_its_hook_and_goes_on_when_it_can(lone: Lone) -> None:
    """Self-fencing: nobody took over, so the same process runs it again, at no cost."""
    rig, pid = lone.rig, lone.rig.process().pid
    deploy, _ = lone.begin("billing", "fenced", {"sleep": 60, "child": 60})
    until(lambda: rig.ledger.children(deploy=deploy), what="its child")
    lone.proxy.cut()
    try:
        lease_until = boot_of(lone.column(deploy, "lease_until"))
        until(lambda: "leases" in str(reasons(rig)), what="the fence")
        until(lambda: "no heartbeat for a whole lease" in rig.logs(), what="a word of it")
    finally:
        lone.proxy.restore()
    assert rig.ended(deploy, limit=40)["outcome"] == "deployed"
    first, second = rig.ledger.runs(deploy=deploy)
    (child,) = rig.ledger.children(deploy=deploy)
    # A heartbeat that was on its way may have moved the lease once more.
    assert max(first.until, child.until) <= lease_until + 1.0 + SLACK
    assert second.started > max(first.until, child.until)
    results = [(a["result"], a["attempt"]) for a in lone.attempts(deploy)]
    assert results == [("interrupted", 1), ("succeeded", 2)]
    assert rig.process().pid == pid
    until(rig.is_ready, what="ready again")


def reasons(rig: Rig, name: str = "w0") -> list[str] | None:
    """Why `/readyz` says no; None while it says yes."""
    try:
        answer = rig._http().get(f"{rig.metrics_url(name)}/readyz", timeout=12)
    except httpx2.TransportError:
        return []
    found: list[str] | None = answer.json()["reasons"] if answer.status_code == 503 else None
    return found


class Pair:
    """An API without a worker, and two workers behind a proxy each."""

    def __init__(self, rig: Rig, proxies: dict[str, Proxy]) -> None:
        self.rig, self.proxies = rig, proxies

    def begin(self, version: str) -> tuple[str, str]:
        """A deploy with a hook at work; its id and its worker."""
        self.rig.ledger.tell({"sleep": 60, "tick": 0.05, "child": 60}, version=version, attempt=1)
        deploy = self.rig.deploy(version)["id"]
        until(lambda: self.rig.ledger.children(deploy=deploy), what="the hook")
        return deploy, self.rig.get(f"/deploys/{deploy}")["executor"]

    def taken_over(self, deploy: str, victim: str) -> None:
        """It was finished by the other worker, after everything of the first had ended."""
        ended = self.rig.ended(deploy, limit=40)
        assert ended["outcome"] == "deployed"
        first, second = self.rig.ledger.runs(deploy=deploy)
        (child,) = self.rig.ledger.children(deploy=deploy)
        assert max(first.until, child.until) < second.started
        assert self.rig.ledger.overlaps() == []
        executors = {attempt["executor"] for attempt in self.attempts(deploy)}
        assert executors == {"w1", "w2"}
        assert ended["executor"] != victim

    def attempts(self, deploy: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.rig.get(f"/deploys/{deploy}/attempts")["items"]
        return [attempt for attempt in found if attempt["step"].startswith("deploy:")]

    def must_be_restarted(self, victim: str) -> str:
        """It ends by itself with 75 and says why; started again it works."""
        process = self.rig.process(victim)
        assert process.wait(limit=60) == 75
        said = process.output()
        assert "recovered by" in said
        assert "must be restarted" in said
        self.rig.start(victim)
        return said


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, postgres_server: Postgres) -> Iterator[Pair]:
    url = postgres_server.create_database()
    proxies = {name: Proxy(postgres_server.port) for name in ("w1", "w2")}
    folder = tmp_path_factory.mktemp("pair")
    with Rig(folder, url, {"recovery": AUTOMATIC}, options=["--no-worker"]) as rig:
        for name, proxy in proxies.items():
            rig._options[name] = ("--no-api",)
            rig.write_config(name)
            _through(rig.config_file(name), url, proxy)
            rig.start(name)
        yield Pair(rig, proxies)
    for proxy in proxies.values():
        proxy.close()


def _through(file: Path, url: str, proxy: Proxy) -> None:
    text = file.read_text()
    assert url in text
    file.write_text(text.replace(url, proxy.url(url)))


@with_pair
def test_a_worker_stopped_for_longer_loses_its_hook_in_time_and_its_row(pair: Pair) -> None:
    """B03, I19: the hook of the stopped worker is dead at the lease's end, its result dropped."""
    deploy, victim = pair.begin("stopped")
    pair.rig.send(signal.SIGSTOP, victim)
    stopped = time.clock_gettime(time.CLOCK_BOOTTIME)
    try:
        pair.taken_over(deploy, victim)
    finally:
        pair.rig.send(signal.SIGCONT, victim)
    (first, _) = pair.rig.ledger.runs(deploy=deploy)
    assert first.until <= stopped + LEASE + SLACK
    said = pair.must_be_restarted(victim)
    assert "too late" in said
    assert pair.rig.get(f"/deploys/{deploy}")["state"] == "SUCCESS"
    assert [attempt["result"] for attempt in pair.attempts(deploy)] == ["interrupted", "succeeded"]


@with_pair
def test_a_worker_cut_off_for_longer_loses_its_hook_in_time_and_its_row(pair: Pair) -> None:
    """B23: it kills its own hook, is not ready, and ends once it hears that it was recovered."""
    deploy, victim = pair.begin("cut-off")
    pair.proxies[victim].stall()
    stalled = time.clock_gettime(time.CLOCK_BOOTTIME)
    try:
        until(lambda: "leases" in str(reasons(pair.rig, victim)), what="the fence")
        pair.taken_over(deploy, victim)
        (first, _) = pair.rig.ledger.runs(deploy=deploy)
        assert first.until <= stalled + LEASE + SLACK
    finally:
        pair.proxies[victim].restore()
    pair.must_be_restarted(victim)
    assert pair.rig.get(f"/deploys/{deploy}")["state"] == "SUCCESS"
