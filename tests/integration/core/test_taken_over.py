"""What a worker leaves to the one that takes over: work to happen once, questions, answers."""

import threading
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from manent_server.engine.handout import HandOut, Refusal
from manent_server.engine.identity import identify
from manent_server.recovery.start import Offer, Start
from manent_server.store import work
from manent_server.store.transaction import Transaction
from manent_server.store.work import Attempt
from manent_server.usecases import executors, recover
from manent_server.usecases.recover import Claim
from tests.integration.core.crew import Hand, ended, place
from tests.integration.core.running import Running
from tests.integration.core.test_once import NO, SEES, UNTOLD, YES, offer, say
from tests.integration.core.test_watcher import AFTER, Watching
from tests.rig.core import HOOKS, STALE_AFTER, Core, long_ago
from tests.rig.fake_runner import AGAIN, BAD, Crashed
from tests.rig.process import until


@pytest.fixture
def hand(core: Core, tmp_path: Path) -> Hand:
    """A worker whose hooks have leases; automatic recovery is on."""
    place(core, (("a",), ("b",)))
    core.recover_automatically(AFTER)
    return Hand(core, tmp_path, core.worker(), lease=AFTER - timedelta(seconds=6))


def silence(core: Core) -> None:
    """w1 beats no more until w2 takes over from it."""
    core.set_worker("w1", heartbeat_at=core.at() - AFTER * 2)
    assert Watching(core).go_on(AFTER) == ["w1"]


def lose(hand: Hand, deploy: str, at: str) -> Hand:
    """The worker dies under a step and is taken over from; who goes on, its lease passed."""
    core, next_one = hand.core, hand.beside()
    hand.runner.held.add(at)
    trip = hand.begin(deploy)
    hand.runner.await_running(at)
    hand.crash()
    assert trip.join() is Crashed
    silence(core)
    assert core.deploy(deploy).phase == "interrupted"
    with core.store.write() as tx:
        a = tx.tables.attempts
        is_open = sa.update(a).where(a.c.ended_at.is_(None))
        tx.connection.execute(is_open.values(lease_until=long_ago()))
    return next_one


@pytest.mark.parametrize(
    ("seen", "ran"),
    [(YES, ["observe:a", "verify:a"]), (NO, ["observe:a", "deploy:a", "verify:a"])],
    ids=["in place", "not in place"],
)
def test_who_takes_over_asks_before_it_repeats_what_must_happen_once(
    core: Core, hand: Hand, seen: object, ran: list[str]
):
    offer(core, HOOKS | SEES)
    deploy = core.submit(version="1")
    second = lose(hand, deploy, "deploy:a")
    second.runner.ends["observe:a"] = [seen]  # type: ignore[list-item]
    assert second.run(deploy) is None
    assert ended(core, deploy) == ("SUCCESS", "deployed")
    assert second.runner.names() == [*ran, "deploy:b", "verify:b"]
    first = core.attempts(deploy)[0]
    assert (first.executor, first.result, first.died) == ("w1", "interrupted", True)


def test_what_nobody_can_tell_waits_for_a_person_who_lives_longer_than_its_worker(
    core: Core, hand: Hand
):
    """I5, I8: the worker that asked may be lost as well; the question stays."""
    offer(core, HOOKS | SEES)
    deploy = core.submit(version="1")
    second = lose(hand, deploy, "deploy:a")
    second.runner.ends["observe:a"] = [UNTOLD]
    assert second.run(deploy) is None
    before = core.deploy(deploy)
    assert before.phase == "unknown"
    third = hand.beside("w3")
    core.set_worker("w2", stopped_at=core.at())
    assert Watching(core, "w3").go_on(AFTER) == []
    assert core.reconciler().round() == []
    assert core.deploy(deploy) == before
    say(core, deploy, "succeeded")
    assert third.run(deploy) is None
    assert ended(core, deploy) == ("SUCCESS", "deployed")
    assert third.runner.names() == ["verify:a", "deploy:b", "verify:b"]


def test_tries_that_are_used_up_stay_so_after_a_takeover(core: Core, hand: Hand):
    """Two failures before it and one after it are the three of the policy: it pauses."""
    core.change_environment("staging", on_exhausted="pause")
    deploy = core.submit(version="1")
    second = lose(hand, deploy, "deploy:b")
    with core.store.write() as tx:
        work.update_step(tx, deploy, 1, "deploy:b", failures=2)
    second.runner.ends["deploy:b"] = [AGAIN, AGAIN]
    assert second.run(deploy) is None
    assert core.deploy(deploy).phase == "paused"
    assert second.runner.names() == ["deploy:b"]
    say(core, deploy, "retry")
    assert second.run(deploy) is None
    assert ended(core, deploy) == ("SUCCESS", "deployed")


def test_a_pass_that_a_person_opened_is_gone_on_with(core: Core, hand: Hand):
    """I8: nobody is asked a second time, nothing of the first pass runs again."""
    core.change_environment("staging", on_exhausted="pause")
    hand.runner.ends["deploy:b"] = [BAD]
    deploy = core.submit(version="1")
    assert hand.run(deploy) is None
    say(core, deploy, "retry")
    second = lose(hand, deploy, "deploy:b")
    assert second.run(deploy) is None
    assert ended(core, deploy) == ("SUCCESS", "deployed")
    assert core.deploy(deploy).pass_number == 2
    assert second.runner.names() == ["deploy:b", "verify:b"]


def test_a_takeover_leaves_a_paused_deploy_to_its_person(core: Core, hand: Hand):
    core.change_environment("staging", on_exhausted="pause")
    hand.runner.ends["deploy:b"] = [BAD]
    deploy = core.submit(version="1")
    assert hand.run(deploy) is None
    before, second = core.deploy(deploy), hand.beside()
    core.set_worker("w1", stopped_at=core.at())
    assert Watching(core).go_on(AFTER) == []
    assert core.deploy(deploy) == before
    say(core, deploy, "failed")
    assert second.run(deploy) is None
    assert ended(core, deploy) == ("ERROR", "failed")


@pytest.mark.postgres
def test_a_restart_waits_for_the_recovery_that_is_under_way(postgres_core: Core):
    """B21, DBOS 742: both want the row; nothing the recovery has dispatched is so again."""
    core = postgres_core
    running = Running(core)
    core.worker("w2")
    core.set_worker("w1", heartbeat_at=long_ago())
    under_way, go_on = threading.Event(), threading.Event()

    def look(*_: object) -> None:
        under_way.set()
        assert go_on.wait(10)

    claim = Claim("c" * 32, "w1", "w2", "manent", look)
    taken = [held for held in executors.holdings(core.desk) if held.executor == "w1"]
    recovery = threading.Thread(
        target=core.store.once, args=[lambda tx: recover.take(tx, core.desk, claim, taken)]
    )
    recovery.start()
    assert under_way.wait(10)
    identity, resumed = identify("w1"), []
    start = Start(
        core.store, core.dispatcher, identity, Offer(["default"], ["fake"], "c", STALE_AFTER)
    )
    restart = threading.Thread(target=lambda: resumed.append(start.take(lambda _: False)))
    restart.start()
    until(lambda: core.has_waiting, what="the restart at the lock")
    assert resumed == []
    go_on.set()
    recovery.join(10)
    restart.join(10)
    assert [list(found.deploys) for found in resumed] == [[]]
    row = core.deploy(running.deploy.id)
    assert (row.state, row.dispatch, row.executor) == ("ENQUEUED", 2, None)
    (w1,) = (row for row in core.rows("executors") if row["id"] == "w1")
    assert (w1["incarnation"], w1["recovered_by"]) == (identity.incarnation, None)


@pytest.mark.postgres
def test_an_earlier_start_hands_nothing_out_while_its_row_is_taken(
    postgres_core: Core, monkeypatch: pytest.MonkeyPatch
):
    """It was only silent: what it handed out unseen would keep the place for ever."""
    core = postgres_core
    running = Running(core)
    core.set_worker("w1", heartbeat_at=long_ago())
    answers: list[HandOut] = []
    errand = running.errand()
    late = threading.Thread(target=lambda: answers.append(running.hand_out(errand)))
    look = Start._left

    def left(start: Start, tx: Transaction) -> list[Attempt]:
        found = look(start, tx)
        late.start()
        until(lambda: bool(answers) or core.has_waiting, what="the hand-out")
        return found

    monkeypatch.setattr(Start, "_left", left)
    offer = Offer(["default"], ["fake"], "c", STALE_AFTER)
    Start(core.store, core.dispatcher, identify("w1"), offer).take(lambda _: False)
    late.join(10)
    assert [answer.refusal for answer in answers] == [Refusal.NOT_MINE]
    assert core.attempts(running.deploy.id) == []
