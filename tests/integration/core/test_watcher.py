"""The watcher: a worker is lost when two clocks say so, and one watcher takes over."""

from datetime import timedelta

import pytest

from manent_server.engine.version import WORKFLOW_VERSION
from manent_server.recovery.watcher import LEASE, Watcher
from manent_server.store import workers
from tests.integration.core.running import Running
from tests.rig.core import Core
from tests.rig.process import until

AFTER = timedelta(minutes=1)
BEAT = timedelta(seconds=15)


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Watching:
    """Some watcher with a clock of its own."""

    def __init__(self, core: Core, executor: str = "w2") -> None:
        self.clock = Clock()
        self.watcher = Watcher(core.desk, executor, clock=self.clock)

    def go_on(self, time: timedelta, *, step: float = 5) -> list[str]:
        """Rounds for so long; what was taken over from."""
        found: list[str] = []
        end = self.clock.now + time.total_seconds()
        while self.clock.now < end:
            found += self.watcher.round()
            self.clock.now += step
        return found + self.watcher.round()


@pytest.fixture
def running(core: Core) -> Running:
    """A deploy on w1; w2 lives. Automatic recovery is on."""
    core.recover_automatically(AFTER)
    running = Running(core)
    core.worker("w2")
    core.set_worker("w1", heartbeat_at=core.at() - AFTER * 2)
    return running


def test_a_silent_worker_is_taken_over_from(core: Core, running: Running):
    watching = Watching(core)
    assert watching.go_on(AFTER - timedelta(seconds=5)) == []
    assert watching.go_on(timedelta(seconds=5)) == ["w1"]
    row = core.deploy(running.deploy.id)
    assert (row.state, row.phase, row.executor) == ("ENQUEUED", "interrupted", None)
    assert [w["recovered_by"] for w in core.rows("executors") if w["id"] == "w1"] == ["w2"]
    [deed] = [row for row in core.rows("audit") if row["action"] == "executor.recovered"]
    assert (deed["actor"], deed["detail"]["recovered_by"]) == ("manent", "w2")
    assert b'manent_taken_over_deploys_total{kind="automatic"} 1.0' in core.desk.metrics.render()
    assert watching.go_on(AFTER) == []


def test_the_databases_clock_alone_takes_nobody_over(core: Core, running: Running):
    """R13: after an outage, or a step of that clock, every heartbeat is old at once."""
    watching = Watching(core)
    assert watching.watcher.round() == []
    watching.clock.now += 3600
    assert watching.watcher.round() == []


def test_the_watchers_clock_alone_takes_nobody_over(core: Core, running: Running):
    core.set_worker("w1", heartbeat_at=core.at())
    assert Watching(core).go_on(AFTER * 2) == []


def test_a_heartbeat_begins_the_silence_anew(core: Core, running: Running):
    watching = Watching(core)
    watching.go_on(AFTER - timedelta(seconds=10))
    core.set_worker("w1", heartbeat_at=core.at() - AFTER * 1.5)
    assert watching.go_on(AFTER - timedelta(seconds=5)) == []
    assert watching.go_on(timedelta(seconds=5)) == ["w1"]


def test_a_stopped_worker_is_taken_over_from_at_once(core: Core, running: Running):
    core.set_worker("w1", heartbeat_at=core.at(), stopped_at=core.at())
    assert Watching(core).watcher.round() == ["w1"]


def test_a_stopped_worker_that_left_nothing_is_left_alone(core: Core, running: Running):
    core.worker("w3")
    core.set_worker("w3", stopped_at=core.at())
    assert Watching(core).go_on(AFTER - timedelta(seconds=10)) == []


def test_one_of_many_watchers_takes_over(core: Core, running: Running):
    """B21: every worker watches, the holder of the lease acts."""
    crowd = [Watching(core, name) for name in ("w2", "w3", "w4")]
    found: list[str] = []
    for _ in range(20):
        for watching in crowd:
            found += watching.watcher.round()
            watching.clock.now += 5
    assert found == ["w1"]
    assert core.deploy(running.deploy.id).dispatch == 2
    [lease] = [row for row in core.rows("leases") if row["name"] == "recovery"]
    assert lease["holder"].startswith("w2:")


def test_a_watcher_that_lost_its_lease_meanwhile_takes_nothing(core: Core, running: Running):
    """R26: asked in the transaction that claims."""
    watching = Watching(core)
    watching.go_on(AFTER - timedelta(seconds=5))
    with core.store.write() as tx:
        leases = tx.tables.leases
        tx.connection.execute(leases.update().values(token=99, holder="w9:x"))
        assert workers.take_lease(tx, "other", "w9", lasts=AFTER, at=tx.now()) is not None
    watching.watcher._renew_at = watching.clock.now + 3600
    assert watching.go_on(timedelta(seconds=10)) == []
    assert core.deploy(running.deploy.id).executor == "w1"


def test_nobody_takes_over_from_itself(core: Core, running: Running):
    assert Watching(core, "w1").go_on(AFTER * 2) == []


def test_what_is_claimed_already_is_not_claimed_again(core: Core, running: Running):
    core.set_worker("w1", recovered_by="user:ann")
    assert Watching(core).go_on(AFTER * 2) == []


def test_without_automatic_recovery_nobody_watches(core: Core):
    watcher = Watcher(core.desk, "w2")
    watcher.start()
    assert not watcher._thread.is_alive()


def test_a_worker_that_cannot_be_taken_over_from_keeps_no_other_lost(core: Core, running: Running):
    """I5: one of its deploys cannot be dispatched; the worker after it in the list is lost too."""
    news = Running(core, "news", environment="production")
    core.worker("w3")
    core.set(news.deploy.id, executor="w3")
    with core.store.write() as tx:
        for number in (2, 3):
            core.dispatcher._enqueue(
                tx, running.deploy.id, number, pool="default", version=WORKFLOW_VERSION
            )
    for name in ("w1", "w3"):
        core.set_worker(name, heartbeat_at=core.at() - AFTER * 2)
    # It is claimed all the same; what cannot be dispatched waits for a later round.
    assert Watching(core).go_on(AFTER) == ["w1", "w3"]
    assert core.deploy(running.deploy.id).executor == "w1"
    assert core.deploy(news.deploy.id).executor is None


@pytest.mark.soak
@pytest.mark.postgres
def test_a_worker_whose_row_somebody_holds_keeps_no_other_lost(postgres_core: Core):
    core = postgres_core
    core.recover_automatically(AFTER)
    for name, application in (("w1", "shop"), ("w3", "mail")):
        deploy = Running(core, application, environment="production").deploy.id
        core.worker(name)
        core.set(deploy, executor=name)
    core.worker("w2")
    for name in ("w1", "w3"):
        core.set_worker(name, stopped_at=core.at())
    with core.store.write() as tx:
        tx.connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
        workers.lock(tx, "w1")
        assert Watching(core).watcher.round() == ["w3"]


def test_a_watcher_that_stops_gives_its_lease_up(core: Core, running: Running):
    """A drained worker keeps no other from taking over until its lease would have ended."""
    watching = Watching(core)
    watching.watcher.round()
    assert is_leased(core)
    watching.watcher.stop()
    watching.watcher.start()  # its loop ends at once, as it does when it was told to stop
    until(lambda: not is_leased(core), what="the end of the lease", limit=15)
    other = Watching(core, "w3")
    assert other.go_on(AFTER) == ["w1"]


def is_leased(core: Core) -> bool:
    with core.store.read() as tx:
        term = workers.term(tx, LEASE)
        return term is not None and term[1] > tx.now()
