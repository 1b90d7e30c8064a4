"""Start: a worker takes its row and goes on with what it left."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa

from manent_server.domain.errors import StartRefused, Unavailable
from manent_server.engine.identity import Identity, identify
from manent_server.recovery import start
from manent_server.recovery.heartbeat import Heartbeat
from manent_server.recovery.start import Offer, Start
from manent_server.store import work, workers
from manent_server.worker.crew import Crew
from tests.integration.core.crew import Hand
from tests.integration.core.running import Running
from tests.rig.core import Core, long_ago

OFFER = Offer(["default"], ["fake", "command"], "digest", timedelta(seconds=5))


@pytest.fixture(autouse=True)
def short_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "PATIENCE", timedelta(seconds=1))


class Waits:
    """Counts the waits of a start; `ends` says that the process is to end."""

    def __init__(self, *, ends: bool = False) -> None:
        self.total = timedelta(0)
        self.ends = ends

    def __call__(self, wait: timedelta) -> bool:
        self.total += wait
        return self.ends


def take(core: Core, executor: str = "w1", wait: Waits | None = None) -> tuple[Identity, Any]:
    identity = identify(executor)
    start = Start(core.store, core.dispatcher, identity, OFFER)
    return identity, start.take(wait or Waits())


def row(core: Core, executor: str = "w1") -> workers.Executor:
    with core.store.read() as tx:
        found = workers.read(tx, executor)
    assert found is not None
    return found


def test_the_first_start_writes_the_row(core: Core):
    identity, resumed = take(core)
    found = row(core)
    assert (found.incarnation, found.plugins) == (identity.incarnation, ["command", "fake"])
    assert (found.pools, found.configuration, found.draining) == (["default"], "digest", False)
    assert (found.stopped_at, found.recovered_by) == (None, None)
    assert (list(resumed.deploys), list(resumed.attempts)) == ([], [])


@pytest.mark.parametrize(
    "how", [{"stopped_at": long_ago()}, {"heartbeat_at": long_ago()}, {"recovered_by": "w2"}]
)
def test_the_row_of_a_lost_worker_is_taken(core: Core, how: dict[str, Any]):
    core.worker("w1", **({"heartbeat_at": long_ago()} | how))
    wait = Waits()
    identity, _ = take(core, wait=wait)
    assert row(core).incarnation == identity.incarnation
    assert row(core).recovered_by is None
    assert wait.total == timedelta(0)


def test_a_row_that_beats_is_left_to_its_holder(core: Core):
    held = core.worker()
    wait = Waits()
    with pytest.raises(StartRefused, match="executor_id w1 is in use by") as caught:
        take(core, wait=wait)
    assert caught.value.code == "executor_id_in_use"
    assert wait.total >= start.PATIENCE
    assert row(core).incarnation == held.incarnation


def test_a_heartbeat_of_a_time_to_come_keeps_nobody_waiting_until_then(core: Core):
    """The clock was two days ahead and was set right: the worker that died then is not alive."""
    held = core.worker("w1", heartbeat_at=core.at() + timedelta(days=2))
    wait = Waits()
    identity, _ = take(core, wait=wait)
    assert row(core).incarnation == identity.incarnation != held.incarnation
    assert OFFER.stale_after <= wait.total < OFFER.stale_after * 2


def test_who_beats_after_the_clock_was_set_back_keeps_its_row(core: Core):
    held = core.worker("w1", heartbeat_at=core.at() + timedelta(days=2))

    class Beats(Waits):
        def __call__(self, wait: timedelta) -> bool:
            if not self.total:
                core.set_worker("w1", heartbeat_at=core.at())
            return super().__call__(wait)

    with pytest.raises(StartRefused, match="executor_id w1 is in use by"):
        take(core, wait=Beats())
    assert row(core).incarnation == held.incarnation


def test_a_start_that_is_to_end_gives_up(core: Core):
    core.worker()
    with pytest.raises(Unavailable, match="given up"):
        take(core, wait=Waits(ends=True))


def test_repeated_it_answers_that_the_row_is_its_own(core: Core):
    """The answer to its COMMIT was lost."""
    identity, _ = take(core)
    again = Start(core.store, core.dispatcher, identity, OFFER).take(Waits())
    assert (again.deploys, again.attempts) == ((), ())


def test_what_ran_under_the_id_is_dispatched_anew(core: Core):
    running = Running(core)
    errand = running.errand()
    running.hand_out(errand)
    core.set_worker("w1", heartbeat_at=long_ago())
    _, resumed = take(core)
    assert (list(resumed.deploys), list(resumed.attempts)) == ([running.deploy.id], [errand.id])
    deploy = core.deploy(running.deploy.id)
    assert (deploy.state, deploy.phase, deploy.dispatch) == ("ENQUEUED", "interrupted", 2)
    assert deploy.epoch > running.deploy.epoch
    assert core.slots() == [deploy.id]
    (attempt,) = core.attempts(deploy.id)
    assert (attempt.result, (attempt.error or {})["code"]) == ("interrupted", "interrupted")
    assert running.step().state == "running"
    assert running.step().failures == 0


@pytest.mark.parametrize(("stopped", "died"), [({}, True), ({"stopped_at": long_ago()}, False)])
def test_an_attempt_died_unless_its_worker_recorded_a_stop(
    core: Core, stopped: dict[str, Any], *, died: bool
):
    running = Running(core)
    running.hand_out(running.errand())
    core.set_worker("w1", heartbeat_at=long_ago(), **stopped)
    take(core)
    (attempt,) = core.attempts(running.deploy.id)
    assert (attempt.result, attempt.died) == ("interrupted", died)


def test_a_hook_that_left_no_lock_file_never_began(core: Core, tmp_path: Path):
    running = Running(core)
    running.hand_out(running.errand(lock_file=str(tmp_path / "none")))
    old = core.at() - timedelta(minutes=1)
    with core.store.write() as tx:
        tx.connection.execute(sa.update(tx.tables.attempts).values(handed_out_at=old))
    core.set_worker("w1", heartbeat_at=long_ago())
    take(core)
    (attempt,) = core.attempts(running.deploy.id)
    assert (attempt.result, attempt.died) == ("not_started", False)


def test_what_is_anothers_or_has_ended_is_left_alone(core: Core):
    running = Running(core)
    other = core.submit("shop", "production")
    core.set(other, executor="w2", state="PENDING")
    running.close()
    core.set(running.deploy.id, executor="w1")
    core.set_worker("w1", stopped_at=core.at())
    _, resumed = take(core)
    assert list(resumed.deploys) == []
    assert core.deploy(other).dispatch == 1


def test_a_deploy_that_waits_is_nobodys_and_stays(core: Core):
    running = Running(core)
    core.set(running.deploy.id, executor=None, incarnation=None)
    core.set_worker("w1", stopped_at=core.at())
    _, resumed = take(core)
    assert list(resumed.deploys) == []


@contextmanager
def held(file: Path) -> Iterator[None]:
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(descriptor)


def test_nothing_is_taken_while_a_process_of_it_lives_here(core: Core, tmp_path: Path):
    """I19"""
    running = Running(core)
    file = tmp_path / "attempt"
    running.hand_out(running.errand(lock_file=str(file)))
    core.set_worker("w1", stopped_at=core.at())
    with held(file), pytest.raises(StartRefused, match="still live here") as caught:
        take(core)
    assert caught.value.code == "attempt_alive"
    _, resumed = take(core)
    assert list(resumed.deploys) == [running.deploy.id]


def test_an_attempt_on_another_host_ends_on_the_word_of_the_start(
    core: Core, caplog: pytest.LogCaptureFixture
):
    running = Running(core)
    errand = running.errand()
    running.hand_out(errand)
    with core.store.write() as tx:
        work.update_attempt(tx, errand.id, boot="elsewhere", hostname="elsewhere")
    core.set_worker("w1", stopped_at=core.at())
    _, resumed = take(core)
    assert list(resumed.attempts) == [errand.id]
    assert "ran on host elsewhere" in caplog.text


@pytest.mark.parametrize(
    ("where", "is_over"),
    [
        ({"boot": "elsewhere"}, False),
        ({"pid_namespace": "pid:[1]"}, True),
        ({"boot": "elsewhere", "lease_until": long_ago()}, True),
        ({"lock_file": "/nowhere/at/all"}, False),
    ],
)
def test_an_attempt_with_a_lease_is_over_where_it_is_known(
    core: Core, where: dict[str, Any], *, is_over: bool
):
    """Its deploy goes on at once; the hand-out waits for a lease on another machine."""
    running = Running(core)
    errand = running.errand(lease=timedelta(minutes=1))
    running.hand_out(errand)
    with core.store.write() as tx:
        values = {"handed_out_at": long_ago()} | where
        tx.connection.execute(tx.tables.attempts.update().values(**values))
    core.set_worker("w1", stopped_at=core.at())
    _, resumed = take(core)
    assert list(resumed.deploys) == [running.deploy.id]
    assert list(resumed.attempts) == ([errand.id] if is_over else [])


def test_a_worker_signs_off_last(core: Core):
    identity, _ = take(core)
    start.announce_drain(core.store, identity)
    assert row(core).draining
    start.sign_off(core.store, identity)
    found = row(core)
    assert found.stopped_at is not None
    assert (found.draining, found.running) == (False, [])


def test_a_worker_whose_row_is_anothers_signs_nothing(core: Core):
    identity, _ = take(core)
    core.worker()
    start.sign_off(core.store, identity)
    assert row(core).stopped_at is None


def test_an_attempt_handed_out_a_moment_ago_is_given_time(core: Core, tmp_path: Path):
    """Its guard may not have taken the lock file yet."""
    running = Running(core)
    running.hand_out(running.errand(lock_file=str(tmp_path / "not-yet")))
    core.set_worker("w1", stopped_at=core.at())
    with pytest.raises(StartRefused):
        take(core)
    with core.store.write() as tx:
        tx.connection.execute(tx.tables.attempts.update().values(handed_out_at=long_ago()))
    _, resumed = take(core)
    assert list(resumed.deploys) == [running.deploy.id]


class Engine:
    """An engine that cannot be launched, ever."""

    def launch(self, **_: Any) -> None:
        raise ValueError("its tables are another release's")

    def destroy(self, **_: Any) -> None: ...

    def wait_idle(self, _: timedelta) -> bool:
        return True


def test_a_launch_that_fails_for_good_signs_off(core: Core, tmp_path: Path):
    """Nobody waits until its row is stale: the next start under the id is not kept out."""
    identity = identify("w1")
    hand = Hand(core, tmp_path, identity)
    heart = Heartbeat(
        core.store,
        hand.shop,
        hand.watch,
        every=timedelta(seconds=1),
        on_lost=lambda: None,
        configuration=lambda: "",
    )
    begun: Any = SimpleNamespace(start=lambda: None, stop=lambda: None)
    hand.shop.runner.start = hand.shop.runner.close = lambda: None  # type: ignore[method-assign]
    engine: Any = Engine()
    start = Start(core.store, core.dispatcher, identity, OFFER)
    crew = Crew(hand.shop, hand.watch, start, heart, begun, engine, timedelta(0))
    with pytest.raises(ValueError, match="another release"):
        crew.begin(Waits())
    assert row(core).stopped_at is not None
    assert not heart._thread.is_alive()
    wait = Waits()
    take(core, wait=wait)
    assert wait.total == timedelta(0)
