"""A database that is away for a moment, away for long, and slow: who is alive, who is ready."""

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import httpx2
import pytest

from tests.rig.postgres import Postgres
from tests.rig.process import until
from tests.rig.proxy import Proxy
from tests.rig.rules import AtMost
from tests.rig.serve import Rig

pytestmark = [pytest.mark.e2e, pytest.mark.postgres, pytest.mark.xdist_group("slow-database")]

CONFIG = {"recovery": {"heartbeat_interval": "5s", "stale_after": "1m", "auto_recover_after": "5m"}}
# From the first question that fails; a little less, since the first may come late.
SUSTAINED = 5.0


@dataclass
class Kubelet:
    """Asks both probes as a kubelet does, twice a second, and writes down what it hears."""

    url: str
    alive: list[int] = field(default_factory=list)
    ready: list[tuple[float, int]] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        with httpx2.Client(base_url=self.url, trust_env=False, timeout=30) as client:
            while not self.over.wait(0.5):
                self.alive.append(client.get("/livez").status_code)
                self.ready.append((time.monotonic(), client.get("/readyz").status_code))

    def since(self, began: float) -> list[int]:
        return [code for at, code in self.ready if at >= began]


@dataclass
class Place:
    """A server whose database is behind a proxy, and who watches it."""

    rig: Rig
    proxy: Proxy
    kubelet: Kubelet
    pid: int

    def away(self, seconds: float) -> list[int]:
        """Cut the database off for so long; what readiness was meanwhile."""
        began = time.monotonic()
        self.proxy.cut()
        time.sleep(seconds)
        said = self.kubelet.since(began)
        self.proxy.restore()
        return said

    def check_alive(self) -> None:
        assert set(self.kubelet.alive) == {200}
        assert self.rig.process().pid == self.pid
        assert self.rig.process().is_running()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, postgres_server: Postgres) -> Iterator[Place]:
    folder, url = tmp_path_factory.mktemp("slow"), postgres_server.create_database()
    proxy = Proxy(int(url.rpartition("/")[0].rpartition(":")[2]))
    rig = Rig(folder, url, CONFIG)
    try:
        rig.prepare()
        rig.configure({"database": {"url": proxy.url(url).replace("+psycopg", "")}})
        rig.start()
        kubelet = Kubelet(rig.metrics_url())
        watching = threading.Thread(target=kubelet.run)
        watching.start()
        yield Place(rig, proxy, kubelet, rig.process().pid)
        kubelet.over.set()
        watching.join()
    finally:
        rig.close()
        proxy.close()


def begin(place: Place, version: str, seconds: float, *, limit: float = 60) -> str:
    """A deploy in the middle of its hook."""
    place.rig.ledger.tell({"sleep": seconds}, version=version)
    deploy: str = place.rig.deploy(version)["id"]
    until(lambda: place.rig.ledger.runs(deploy=deploy), what="the hook", limit=limit)
    return deploy


def check_ended(place: Place, deploy: str, *, limit: float) -> None:
    assert place.rig.ended(deploy, limit=limit)["outcome"] == "deployed"
    assert len(place.rig.ledger.runs(deploy=deploy)) == 1


@pytest.mark.promise
def test_only_a_long_outage_makes_a_process_unready_and_none_ends_it(
    place: Place, at_most: AtMost
) -> None:
    """B142: livez 200 throughout, readyz 503 after a while and 200 at once, one hook run."""
    deploy = begin(place, "away", 11)
    assert set(place.away(3)) == {200}
    until(lambda: place.kubelet.ready[-1][1] == 200, what="ready")
    said = place.away(9)
    healed = time.monotonic()
    assert said[: int(SUSTAINED / 2)] == [200] * int(SUSTAINED / 2)
    assert said[-1] == 503
    soon = at_most(4, beside=45)
    until(lambda: place.kubelet.since(healed)[-1:] == [200], what="ready again", limit=soon)
    check_ended(place, deploy, limit=60)
    place.check_alive()


def test_a_deploy_goes_on_where_every_answer_is_late(place: Place) -> None:
    """B142: readiness takes several answers, each late, and is 200 all the same."""
    deploy = begin(place, "late", 2)
    began = time.monotonic()
    place.proxy.delay = 0.25
    try:
        check_ended(place, deploy, limit=60)
    finally:
        place.proxy.delay = 0.0
    assert set(place.kubelet.since(began)) == {200}
    place.check_alive()


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_deploys_go_on_where_every_answer_is_two_seconds_late(place: Place) -> None:
    """B142: for five minutes."""
    began = time.monotonic()
    place.proxy.delay = 2.0
    try:
        while time.monotonic() - began < 300:
            version = f"later-{time.monotonic():.0f}"
            place.rig.ledger.tell({"sleep": 1}, version=version)
            # Some twenty answers, one after the other, until it is accepted.
            body = {"application": "shop", "environment": "staging", "version": version}
            accepted = place.rig.http("POST", "/deploys", json=body, timeout=200)
            assert accepted.status_code == 202, accepted.text
            deploy = accepted.json()["id"]
            check_ended(place, deploy, limit=400)
    finally:
        place.proxy.delay = 0.0
    assert set(place.kubelet.since(began)) == {200}
    place.check_alive()
