"""Workers that die under a step: free at first, then a suspect, in the end poisoned."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from manent_server.engine import prelude
from manent_server.engine.handout import Refusal
from manent_server.engine.shop import Unwound
from manent_server.store import aftermath, records, workers
from manent_server.usecases import cancel, explain, wake
from manent_server.usecases.requests import CancelRequest
from tests.integration.core.crew import Hand, ended, good_before, inventory, place
from tests.integration.core.running import Running
from tests.rig.core import ADMIN, Core, long_ago
from tests.rig.fake_runner import Crashed


@pytest.fixture
def hand(core: Core, tmp_path: Path) -> Hand:
    place(core, (("a",), ("b",)))
    return Hand(core, tmp_path, core.worker())


def die(hand: Hand, deploy: str, at: str = "deploy:a") -> Hand:
    """The worker dies under a step; its next start."""
    hand.runner.held.add(at)
    trip = hand.begin(deploy)
    hand.runner.await_running(at)
    hand.crash()
    assert trip.join() is Crashed
    return hand.restart()


def deaths(hand: Hand, deploy: str, count: int, at: str = "deploy:a") -> Hand:
    for _ in range(count):
        hand = die(hand, deploy, at)
    return hand


def wake_of(core: Core, deploy: str) -> tuple[Any, str] | None:
    with core.store.read() as tx:
        return records.wake_of(tx, deploy)


def wake_now(core: Core) -> None:
    with core.store.write() as tx:
        tx.connection.execute(sa.update(tx.tables.wakes).values(at=tx.now()))
    wake.wake_due(core.desk)


def test_the_third_death_under_a_step_ends_the_deploy_poisoned(core: Core, hand: Hand):
    """I5, I16: no rollback, the touched target unknown, the application locked there."""
    good_before(core, hand)
    deploy = core.submit(version="1")
    last = deaths(hand, deploy, 3)
    assert last.run(deploy) is None
    assert ended(core, deploy) == ("ERROR", "poisoned")
    assert last.runner.names() == []
    row = core.deploy(deploy)
    assert (row.error or {})["code"] == "poisoned"
    assert "3 workers died under deploy:a" in (row.error or {})["message"]
    assert inventory(core) == {"a": ("unknown", None), "b": ("known", "0")}
    (lock,) = core.rows("marks")
    assert (lock["application"], lock["environment"]) == ("shop", "staging")
    assert lock["automatic"]
    assert core.slots() == []
    assert [a.died for a in core.attempts(deploy)] == [True] * 3


def test_two_deaths_are_survived(core: Core, hand: Hand):
    deploy = core.submit()
    last = deaths(hand, deploy, 2)
    assert last.run(deploy) is None
    assert ended(core, deploy) == ("SUCCESS", "deployed")
    assert last.runner.ran[0].context["attempt"] == 3


def test_more_deaths_may_be_allowed(core: Core, hand: Hand):
    deploy = core.submit()
    last = deaths(hand, deploy, 3)
    number = core.deploy(deploy).dispatch
    claim = core.claim(deploy, number, last.identity)
    with core.store.write() as tx:
        patient = prelude.Claim(**{**vars(claim), "max_recoveries": 4})
        start = prelude.begin(tx, patient, core.dispatcher)
    assert (start.verdict, start.is_trial) == ("run", True)


def test_a_drain_is_no_death(core: Core, hand: Hand):
    deploy = core.submit()
    for _ in range(3):
        hand.runner.held.add("deploy:a")
        trip = hand.begin(deploy)
        hand.runner.await_running("deploy:a")
        hand.cut()
        assert trip.join() is Unwound
        hand = hand.restart()
    assert [a.died for a in core.attempts(deploy)] == [False] * 3
    assert hand.run(deploy) is None
    assert ended(core, deploy) == ("SUCCESS", "deployed")


@pytest.fixture
def suspects(core: Core, hand: Hand) -> Iterator[tuple[Hand, str, str]]:
    """Two deploys on a worker that died twice: either may be what kills it."""
    guilty, innocent = core.submit(), core.submit("mail", "production")
    for _ in range(2):
        hand.runner.held |= {"deploy:a", "deploy:web"}
        trips = [hand.begin(guilty), hand.begin(innocent)]
        hand.runner.await_running("deploy:a", "deploy:web")
        hand.crash()
        assert [trip.join() for trip in trips] == [Crashed, Crashed]
        hand = hand.restart()
    yield hand, guilty, innocent
    hand.runner.close()


def test_a_worker_tries_one_suspect_at_a_time(core: Core, suspects: tuple[Hand, str, str]):
    """I20: what only died beside it is not poisoned with it."""
    hand, guilty, innocent = suspects
    hand.runner.held.add("deploy:a")
    trip = hand.begin(guilty)
    hand.runner.await_running("deploy:a")
    assert hand.run(innocent) is None
    later = wake_of(core, innocent)
    assert later is not None
    assert later[1] == "suspect"
    assert timedelta(seconds=8) < later[0] - core.at() <= prelude.ELSEWHERE
    assert core.slots("production") == [innocent]
    assert "workers died under it" in explain.explain(core.desk, innocent)["summary"]
    assert list(core.reconciler().findings()) == []
    hand.crash()
    assert trip.join() is Crashed
    again = hand.restart()
    assert again.run(guilty) is None
    assert ended(core, guilty) == ("ERROR", "poisoned")
    wake_now(core)
    assert again.run(innocent) is None
    assert ended(core, innocent) == ("SUCCESS", "deployed")


def test_another_worker_may_try_the_other_suspect(core: Core, suspects: tuple[Hand, str, str]):
    hand, guilty, innocent = suspects
    hand.runner.held.add("deploy:a")
    trip = hand.begin(guilty)
    hand.runner.await_running("deploy:a")
    assert hand.beside().run(innocent) is None
    assert ended(core, innocent) == ("SUCCESS", "deployed")
    hand.runner.release("deploy:a")
    assert trip.join() is None
    assert ended(core, guilty) == ("SUCCESS", "deployed")


def test_a_cancelled_suspect_is_not_poisoned(core: Core, hand: Hand):
    deploy = core.submit()
    last = deaths(hand, deploy, 3)
    cancel.cancel(core.desk, deploy, CancelRequest(), caller=ADMIN)
    assert last.run(deploy) is None
    assert ended(core, deploy) == ("CANCELLED", "cancelled")


def test_a_suspect_that_is_cancelled_is_brought_back_where_that_was_asked(core: Core, hand: Hand):
    """The step that kills its workers does not run again: what undoes it may."""
    good_before(core, hand)
    deploy = core.submit(version="1")
    last = deaths(hand, deploy, 3)
    cancel.cancel(core.desk, deploy, CancelRequest(rollback=True), caller=ADMIN)
    assert last.run(deploy) is None
    assert ended(core, deploy) == ("CANCELLED", "cancelled")
    assert last.runner.names() == ["rollback:a"]
    assert inventory(core)["a"] == ("known", "0")


def lose(core: Core, running: Running, **left: Any) -> None:
    """The worker is claimed; its attempt's lease has passed, and nobody has ended it."""
    running.hand_out(running.errand())
    with core.store.write() as tx:
        tx.connection.execute(
            sa.update(tx.tables.attempts)
            .where(tx.tables.attempts.c.ended_at.is_(None))
            .values(lease_until=long_ago())
        )
        core.dispatcher.dispatch(tx, running.deploy.id)
    core.set_worker(running.worker.executor, recovered_by="w9", **left)


@pytest.mark.parametrize(("left", "died"), [({}, True), ({"stopped_at": long_ago()}, False)])
def test_the_hand_out_ends_what_a_lost_worker_left(core: Core, left: dict[str, Any], died: object):
    running = Running(core)
    lose(core, running, **left)
    running.worker = core.worker("w2")
    running.deploy = running.begin(running.deploy.id)
    assert running.hand_out(running.errand()).attempt == 2
    first, second = core.attempts(running.deploy.id)
    assert (first.result, first.died) == ("interrupted", died)
    assert second.ended_at is None


def test_the_hand_out_finds_a_suspect_that_the_prelude_could_not_see(core: Core):
    running = Running(core)
    for worker in ("w2", "w3"):
        lose(core, running)
        running.worker = core.worker(worker)
        running.deploy = running.begin(running.deploy.id)
    assert running.hand_out(running.errand()).refusal == Refusal.SUSPECT
    assert running.hand_out(running.errand(is_trial=True)).refusal is None


@pytest.mark.parametrize("is_late", [False, True])
def test_a_worker_that_was_only_silent_is_no_death(core: Core, *, is_late: bool):
    """Self-fencing: claimed, it comes back and says that it lives, before its successor or late."""
    running = Running(core)
    lose(core, running)
    silent = running.worker.incarnation

    def come_back() -> None:
        with core.store.write() as tx:
            assert workers.has_died(tx, "w1", silent)
            aftermath.spare(tx, silent)

    if not is_late:
        come_back()
    running.worker = core.worker("w2")
    running.deploy = running.begin(running.deploy.id)
    running.hand_out(running.errand())
    assert core.attempts(running.deploy.id)[0].died is is_late
    come_back()
    assert core.attempts(running.deploy.id)[0].died is False
