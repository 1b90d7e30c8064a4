"""The heartbeat: what it says, what it renews, and what it learns."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from manent_server.engine.control import Control
from manent_server.plugins.protocol import boottime
from manent_server.recovery.heartbeat import Heartbeat
from manent_server.store import heartbeats, work, workers
from manent_server.store.transaction import Transaction
from manent_server.store.work import Attempt
from tests.integration.core.crew import Hand
from tests.integration.core.running import GOOD, Running
from tests.rig.core import Core, long_ago

LEASE = timedelta(minutes=1)


class Beating:
    """The runner as a heartbeat sees it, and what it was told."""

    def __init__(self, *attempts: str) -> None:
        self.attempts, self.killed = frozenset(attempts), list[str]()
        self.extended: dict[str, float | None] = {}

    def running(self) -> frozenset[str]:
        return self.attempts

    def kill(self, attempt: str) -> None:
        self.killed.append(attempt)

    def extend(self, attempt: str, until: float | None) -> None:
        self.extended[attempt] = until


class Heart:
    """One worker's heartbeat; `lost` says whether it was told that its row is another's."""

    def __init__(self, running: Running, folder: Path, lease: timedelta | None = LEASE) -> None:
        self.core, self.running, self.lost = running.core, running, list[str]()
        self.runner = Beating()
        self.configuration = "c1"
        hand = Hand(running.core, folder, running.worker)
        shop = replace(hand.shop, runner=self.runner, lease=lease)  # type: ignore[arg-type]
        self.lifeline = shop.lifeline
        self.watch = hand.watch
        self._heartbeat = Heartbeat(
            running.core.store,
            shop,
            self.watch,
            every=timedelta(hours=1),
            on_lost=lambda: self.lost.append("lost"),
            configuration=lambda: self.configuration,
        )
        self._lease = lease

    def hand_out(self) -> str:
        """An attempt whose guard this worker has."""
        errand = self.running.errand(lease=self._lease)
        assert self.running.hand_out(errand).refusal is None
        self.runner.attempts |= {errand.id}
        return errand.id

    def beat(self) -> None:
        self._heartbeat.beat()

    def attempt(self) -> Attempt:
        (attempt,) = self.core.attempts(self.running.deploy.id)
        return attempt

    def age(self, attempt: str) -> None:
        """Let most of its lease have passed."""
        with self.core.store.write() as tx:
            work.update_attempt(tx, attempt, lease_until=tx.now() + timedelta(seconds=20))


@pytest.fixture
def heart(core: Core, tmp_path: Path) -> Heart:
    return Heart(Running(core), tmp_path)


def row(core: Core) -> workers.Executor:
    with core.store.read() as tx:
        found = workers.read(tx, "w1")
    assert found is not None
    return found


def test_it_says_what_runs(core: Core, heart: Heart):
    core.set_worker("w1", heartbeat_at=long_ago())
    heart.watch.add(Control("some", 1, grace=timedelta(0)))
    heart.configuration = "as reloaded"
    heart.beat()
    assert row(core).running == ["some"]
    assert row(core).configuration == "as reloaded"
    assert core.at() - row(core).heartbeat_at < timedelta(seconds=10)


def test_it_renews_what_is_still_its_own(core: Core, heart: Heart):
    """The hook counts from before the send, the database from later on."""
    attempt = heart.hand_out()
    heart.age(attempt)
    before, at = boottime(), core.at()
    heart.beat()
    until = heart.runner.extended[attempt]
    assert until is not None
    assert before <= until - LEASE.total_seconds() <= boottime()
    lease_until = heart.attempt().lease_until
    assert lease_until is not None
    assert at <= lease_until - LEASE <= core.at()
    assert heart.lifeline.holds_until == until
    assert heart.runner.killed == []


@pytest.mark.parametrize(
    "change",
    [{"epoch": 10_000}, {"state": "CANCELLED"}, {"executor": "w2"}, {"incarnation": "another"}],
)
def test_a_hook_whose_deploy_is_anothers_is_killed_and_not_renewed(
    core: Core, heart: Heart, change: dict[str, Any]
):
    """I19"""
    attempt = heart.hand_out()
    before = heart.attempt().lease_until
    core.set(heart.running.deploy.id, **change)
    heart.beat()
    assert heart.runner.killed == [attempt]
    assert heart.runner.extended == {}
    assert heart.attempt().lease_until == before


def test_a_hook_that_no_row_speaks_of_is_killed(heart: Heart):
    """A failover lost the hand-out."""
    heart.runner.attempts = frozenset({"unheard-of"})
    heart.beat()
    assert heart.runner.killed == ["unheard-of"]


def test_a_hook_that_begins_while_the_database_is_asked_lives(
    heart: Heart, monkeypatch: pytest.MonkeyPatch
):
    """It was not named: that the answer does not name it either says nothing."""
    asked = heartbeats.beat

    def beat(tx: Transaction, said: heartbeats.Beat) -> heartbeats.Answer | None:
        answer = asked(tx, said)
        heart.runner.attempts |= {"begun meanwhile"}
        return answer

    monkeypatch.setattr(heartbeats, "beat", beat)
    attempt = heart.hand_out()
    heart.beat()
    assert heart.runner.killed == []
    assert set(heart.runner.extended) == {attempt}


def test_an_attempt_that_has_ended_is_not_renewed(core: Core, heart: Heart):
    attempt = heart.hand_out()
    before = heart.attempt().lease_until
    with core.store.write() as tx:
        work.end_lost(tx, attempt, died=True, message="lost")
    heart.beat()
    assert heart.attempt().lease_until == before
    assert heart.runner.extended == {}


def test_without_leases_nothing_is_moved_and_nothing_ends(core: Core, tmp_path: Path):
    heart = Heart(Running(core), tmp_path, lease=None)
    heart.hand_out()
    heart.beat()
    assert heart.attempt().lease_until is None
    assert (heart.runner.extended, heart.runner.killed) == ({}, [])
    assert heart.lifeline.holds_until is None
    assert not heart.lifeline.is_fenced


@pytest.mark.postgres
def test_an_attempt_whose_row_is_held_keeps_its_lease_and_lives(
    postgres_core: Core, tmp_path: Path
):
    heart = Heart(Running(postgres_core), tmp_path)
    attempt = heart.hand_out()
    heart.age(attempt)
    before = heart.attempt().lease_until
    postgres_core.set_worker("w1", heartbeat_at=long_ago())
    with postgres_core.store.write() as tx:
        assert [found.id for found in work.lock_attempts(tx, [attempt])] == [attempt]
        heart.beat()
    assert row(postgres_core).heartbeat_at > long_ago()
    assert heart.attempt().lease_until == before
    assert (heart.runner.extended, heart.runner.killed) == ({}, [])
    heart.beat()
    assert set(heart.runner.extended) == {attempt}


@pytest.mark.parametrize("how", ["restarted", "claimed", "forgotten"])
def test_without_its_row_it_kills_everything_and_says_why(
    core: Core, heart: Heart, how: str, caplog: pytest.LogCaptureFixture
):
    attempt = heart.hand_out()
    before = heart.attempt().lease_until
    if how == "restarted":
        core.worker(hostname="elsewhere")
    elif how == "claimed":
        core.set_worker("w1", recovered_by="w2")
    else:
        with core.store.write() as tx:
            tx.connection.execute(sa.delete(tx.tables.executors))
    heart.beat()
    assert heart.lost == ["lost"]
    assert heart.lifeline.lost.is_set()
    assert heart.runner.killed == [attempt]
    assert heart.attempt().lease_until == before
    words = {
        "restarted": "another process has started as w1 on elsewhere",
        "claimed": "recovered by w2",
        "forgotten": "not in the registry",
    }
    assert words[how] in caplog.text
    assert "must be restarted" in caplog.text


def test_a_worker_whose_leases_have_ended_is_fenced_until_the_next_answer(heart: Heart):
    heart.beat()
    assert not heart.lifeline.is_fenced
    heart.lifeline.holds_until = boottime() - 0.001
    assert heart.lifeline.is_fenced
    heart.beat()
    assert not heart.lifeline.is_fenced


def test_a_hook_that_ended_meanwhile_is_not_told(core: Core, heart: Heart):
    """Its end came while the database was asked."""
    errand = heart.running.errand(lease=LEASE)
    heart.running.hand_out(errand)
    heart.running.finish(errand, GOOD)
    heart.beat()
    assert heart.runner.killed == []
