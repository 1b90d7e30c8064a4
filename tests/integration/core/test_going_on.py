"""What happens to a run from outside: the drain, a crash, a takeover, an outage."""

import os
import re
from datetime import timedelta
from pathlib import Path

import pytest

from manent_server.domain.errors import Unavailable
from manent_server.engine.journey import Journey
from manent_server.engine.shop import Caps, Outrun, Unwound
from manent_server.plugins import lockfile
from manent_server.plugins.events import LogLine
from manent_server.plugins.runner import HookEnd
from manent_server.store import logs
from manent_server.usecases import cancel
from manent_server.usecases.requests import CancelRequest
from tests.integration.core.crew import Hand, assert_steps_were_kept, ended, good_before, place
from tests.rig.core import ADMIN, Core, long_ago
from tests.rig.fake_runner import AGAIN, BAD, Crashed
from tests.rig.process import until


@pytest.fixture
def hand(core: Core, tmp_path: Path) -> Hand:
    return Hand(core, tmp_path, core.worker())


def test_a_crashed_run_is_gone_on_with_where_it_stood(core: Core, hand: Hand):
    """I3, I4"""
    place(core, (("a",), ("b",)))
    hand.runner.held.add("deploy:b")
    deploy = core.submit()
    trip = hand.begin(deploy)
    hand.runner.await_running("deploy:b")
    hand.crash()
    assert trip.join() is Crashed
    assert core.deploy(deploy).state == "PENDING"
    again = hand.restart()
    assert again.run(deploy) is None
    assert ended(core, deploy) == ("SUCCESS", "deployed")
    assert again.runner.names() == ["deploy:b", "verify:b"]
    assert again.runner.ran[0].context["attempt"] == 2
    assert core.steps(deploy)["deploy:b"].failures == 0
    assert core.deploy(deploy).epoch > hand.runner.ran[0].context["epoch"]
    prepared = [a.step for a in core.attempts(deploy)]
    assert prepared == ["deploy:a", "verify:a", "deploy:b", "deploy:b", "verify:b"]


@pytest.mark.parametrize("at", ["deploy:a", "deploy:b", "verify:a", "verify:b"])
def test_a_crash_anywhere_repeats_no_finished_step(core: Core, hand: Hand, at: str):
    """I3"""
    place(core, (("a", "b"),))
    hand.runner.held.add(at)
    deploy = core.submit()
    trip = hand.begin(deploy)
    hand.runner.await_running(at)
    hand.crash()
    trip.join()
    finished = {name for name, row in core.steps(deploy).items() if row.ended_at}
    again = hand.restart()
    again.run(deploy)
    assert ended(core, deploy) == ("SUCCESS", "deployed")
    assert not finished & set(again.runner.names())
    assert at in again.runner.names()


def test_a_crash_while_undoing_goes_on_undoing(core: Core, hand: Hand):
    """Beside the failed target another had not finished: it is not gone on with."""
    place(core, (("a", "b"),))
    good_before(core, hand)
    hand.runner.ends["verify:b"] = [BAD]
    hand.runner.held |= {"rollback:a"}
    deploy = core.submit()
    trip = hand.begin(deploy)
    hand.runner.await_running("rollback:a")
    hand.crash()
    trip.join()
    again = hand.restart()
    again.run(deploy)
    assert ended(core, deploy) == ("ERROR", "rolled_back")
    assert again.runner.names() == ["rollback:a"]


def test_after_a_crash_nothing_begins_beside_what_had_failed(core: Core, hand: Hand):
    place(core, (("a", "b"),))
    good_before(core, hand)
    hand.runner.ends["deploy:b"] = [BAD]
    hand.runner.held.add("deploy:a")
    deploy = core.submit()
    trip = hand.begin(deploy)
    hand.runner.await_running("deploy:a")
    until(lambda: core.steps(deploy)["deploy:b"].ended_at, what="the failure of the other")
    hand.crash()
    trip.join()
    again = hand.restart()
    again.run(deploy)
    assert ended(core, deploy) == ("ERROR", "rolled_back")
    assert again.runner.names() == ["rollback:b", "rollback:a"]


def test_tries_are_not_reset_by_a_restart(core: Core, hand: Hand):
    hand.runner.ends["deploy:web"] = [AGAIN, AGAIN]
    hand.runner.held.add("verify:web")
    deploy = core.submit()
    trip = hand.begin(deploy)
    hand.runner.await_running("verify:web")
    core.set(deploy, phase="deploying")
    hand.crash()
    trip.join()
    with core.store.write() as tx:  # as if its third try had been the one that was interrupted
        steps, attempts = tx.tables.steps, tx.tables.attempts
        open_again = {"state": "running", "ended_at": None}
        tx.connection.execute(
            steps.update().where(steps.c.name == "deploy:web").values(**open_again)
        )
        third = (attempts.c.step == "deploy:web") & (attempts.c.attempt == 3)
        tx.connection.execute(
            attempts.update()
            .where(third)
            .values(result=None, ended_at=None, handed_out_at=long_ago())
        )
    again = hand.restart()
    again.runner.ends["deploy:web"] = [AGAIN]
    again.run(deploy)
    row = core.deploy(deploy)
    assert (row.state, row.outcome) == ("ERROR", "failed")
    assert again.runner.names() == ["deploy:web"]
    assert core.steps(deploy)["deploy:web"].failures == 3


def test_a_drain_hands_back_what_its_hooks_did_not_finish(core: Core, hand: Hand):
    """I17"""
    hand.runner.held.add("deploy:web")
    deploy = core.submit()
    trip = hand.begin(deploy)
    hand.runner.await_running("deploy:web")
    hand.cut()
    assert trip.join() is Unwound
    row = core.deploy(deploy)
    assert (row.state, row.phase, row.dispatch) == ("ENQUEUED", "interrupted", 2)
    assert core.slots() == [deploy]
    (attempt,) = core.attempts(deploy)
    assert attempt.result == "interrupted"
    other = hand.beside()
    assert other.run(deploy) is None
    assert ended(core, deploy) == ("SUCCESS", "deployed")
    assert core.steps(deploy)["deploy:web"].failures == 0
    assert core.deploy(deploy).executor == "w2"


def test_a_hook_that_ended_while_its_worker_drained_counts(core: Core, hand: Hand):
    hand.runner.held.add("deploy:web")
    deploy = core.submit()
    trip = hand.begin(deploy)
    hand.runner.await_running("deploy:web")
    hand.lifeline.cut.set()
    hand.runner.release("deploy:web")
    assert trip.join() is Unwound
    assert core.steps(deploy)["deploy:web"].state == "succeeded"
    assert core.deploy(deploy).dispatch == 2
    other = hand.beside()
    other.run(deploy)
    assert other.runner.names() == ["verify:web"]
    assert_steps_were_kept(core, deploy)


def soaking(core: Core, hand: Hand, soak: timedelta):
    """A deploy that only waits, and its run."""
    place(core, soak=soak)
    deploy = core.submit()
    trip = hand.begin(deploy)
    until(lambda: core.deploy(deploy).phase == "soaking", what="the soak")
    return deploy, trip


def test_what_comes_too_late_without_a_hook_is_dropped_and_counted(core: Core, hand: Hand):
    """I2: another has the deploy while this worker waits for the soak to end."""
    deploy, trip = soaking(core, hand, timedelta(seconds=3))
    core.set(deploy, epoch=core.deploy(deploy).epoch + 1, incarnation="another")
    assert trip.join() is Outrun
    assert core.deploy(deploy).state == "PENDING"
    # Lines of its log that were not stored by then are a write too.
    found = re.search(r"^manent_stale_writes_total (\d)", hand.shop.metrics.render().decode(), re.M)
    assert found is not None
    assert found[1] in ("1", "2")


def test_a_drain_hands_back_what_only_waits(core: Core, hand: Hand):
    deploy, trip = soaking(core, hand, timedelta(seconds=50))
    hand.cut()
    for control in hand.watch.controls():
        with control.changed:
            control.changed.notify_all()
    assert trip.join() is Unwound
    row = core.deploy(deploy)
    assert (row.state, row.dispatch, row.executor) == ("ENQUEUED", 2, None)


def test_a_dispatch_taken_after_the_signal_is_put_back(core: Core, hand: Hand):
    """I17"""
    deploy = core.submit()
    hand.lifeline.draining.set()
    assert hand.run(deploy) is None
    assert hand.runner.ran == []
    assert core.deploy(deploy).dispatch == 2


def test_what_was_taken_over_is_killed_and_its_result_dropped(core: Core, hand: Hand):
    """I2, I19"""
    hand.runner.held.add("deploy:web")
    deploy = core.submit()
    trip = hand.begin(deploy)
    hand.runner.await_running("deploy:web")
    with core.store.write() as tx:
        core.dispatcher.hand_back(tx, core.deploy(deploy))
    hand.watch.look()
    assert trip.join() is Unwound
    assert hand.runner.told == [("deploy:web", "interrupted")]
    assert core.steps(deploy)["deploy:web"].ended_at is None
    other = hand.beside()
    other.run(deploy)
    assert ended(core, deploy) == ("SUCCESS", "deployed")


def test_a_late_success_of_an_old_epoch_does_not_finish_the_step(core: Core, hand: Hand):
    """I2"""
    hand.runner.held.add("deploy:web")
    deploy = core.submit()
    trip = hand.begin(deploy)
    hand.runner.await_running("deploy:web")
    with core.store.write() as tx:
        core.dispatcher.hand_back(tx, core.deploy(deploy))
    hand.runner.release("deploy:web")
    assert trip.join() is Unwound
    assert core.steps(deploy)["deploy:web"].ended_at is None
    hand.beside().run(deploy)
    results = [(a.step, a.attempt, a.result) for a in core.attempts(deploy)]
    assert results == [
        ("deploy:web", 1, "succeeded"),
        ("deploy:web", 2, "succeeded"),
        ("verify:web", 1, "succeeded"),
    ]
    assert core.deploy(deploy).outcome == "deployed"


def test_a_cancel_outlives_a_crash(core: Core, hand: Hand):
    """I10"""
    good_before(core, hand)
    hand.runner.held.add("deploy:web")
    deploy = core.submit()
    trip = hand.begin(deploy)
    hand.runner.await_running("deploy:web")
    cancel.cancel(core.desk, deploy, CancelRequest(rollback=True), caller=ADMIN)
    hand.crash()
    trip.join()
    again = hand.restart()
    again.run(deploy)
    assert ended(core, deploy) == ("CANCELLED", "cancelled")
    assert again.runner.names() == ["rollback:web"]


def test_a_dispatch_that_is_not_current_does_nothing(core: Core, hand: Hand):
    deploy = core.submit()
    hand.run(deploy)
    before = core.deploy(deploy)
    Journey(hand.shop, hand.watch)(deploy, 1)
    Journey(hand.shop, hand.watch)(deploy, 99)
    assert core.deploy(deploy) == before
    assert hand.runner.names() == ["deploy:web", "verify:web"]


def test_an_unexpected_error_leaves_the_deploy_live(core: Core, hand: Hand):
    """The reconciler dispatches it anew; no step fails by it."""
    deploy = core.submit()
    core.set(deploy, order_body={**core.deploy(deploy).order_body, "targets": {}})
    assert hand.run(deploy) is Unwound
    assert core.deploy(deploy).state == "PENDING"
    assert [row.state for row in core.steps(deploy).values()] == ["succeeded", "waiting", "waiting"]
    assert hand.watch.running() == []


def test_an_attempt_whose_end_could_not_be_recorded_is_ended_by_its_living_worker(
    core: Core, hand: Hand
):
    """No lease ends it, and no restart comes: the place would stay taken."""
    hand.runner.ends["deploy:web"] = [HookEnd(result="succeeded", outputs={"port": object()})]
    deploy = core.submit()
    assert hand.run(deploy) is Unwound
    with core.store.write() as tx:
        core.dispatcher.dispatch(tx, deploy)
    (attempt,) = (a for a in core.attempts(deploy) if a.ended_at is None)
    alive = lockfile.take(attempt.lock_file)
    hand.shop.leftovers.settle(core.store)
    assert core.attempts(deploy)[-1].ended_at is None
    os.close(alive)
    hand.shop.leftovers.settle(core.store)
    assert hand.run(deploy) is None
    assert ended(core, deploy) == ("SUCCESS", "deployed")
    results = [(a.result, a.died) for a in core.attempts(deploy) if a.step == "deploy:web"]
    assert results == [("interrupted", False), ("succeeded", None)]


def test_a_gate_that_closes_while_it_is_dispatched_admits_the_next(core: Core, hand: Hand):
    first, second = core.submit("shop"), core.submit("mail")
    core.set(first, not_before=core.at() + timedelta(hours=1))
    assert hand.run(first) is None
    assert core.deploy(first).state == "DELAYED"
    assert core.slots() == [second]


def lines(core: Core, deploy: str) -> list[tuple[int, str]]:
    with core.store.read() as tx:
        found = logs.read(tx, deploy, after=0, limit=10**6, size=10**9)
        return [(line.sequence, line.text) for line in found]


def test_the_log_has_every_line_once_and_in_order(core: Core, hand: Hand):
    """I11"""
    said = [f"line {number}" for number in range(300)]
    hand.runner.says["deploy:web"] = [LogLine("out", "info", text) for text in said]
    deploy = core.submit()
    hand.run(deploy)
    with core.store.read() as tx:
        found, after = list[str](), 0
        while chunk := logs.read(tx, deploy, after=after, limit=37, size=10**6):
            assert [line.sequence for line in chunk] == list(
                range(after + 1, after + 1 + len(chunk))
            )
            after = chunk[-1].sequence
            found += [line.text for line in chunk if line.origin.stream == "out"]
    assert found == said
    assert core.deploy(deploy).log_next == after + 1


def test_a_flood_keeps_head_and_tail_and_names_the_gap(core: Core, tmp_path: Path):
    caps = Caps(line=1000, deploy=4000, tail=1000, kill_grace=timedelta(seconds=1))
    hand = Hand(core, tmp_path, core.worker(), caps=caps)
    said = [f"line {number:05}" for number in range(2000)]
    hand.runner.says["deploy:web"] = [LogLine("out", "info", text) for text in said]
    deploy = core.submit()
    hand.run(deploy)
    kept = [text for _, text in lines(core, deploy)]
    out = [text for text in kept if text.startswith("line ")]
    assert out[0] == "line 00000"
    assert out[-1] == "line 01999"
    assert out == sorted(out)
    assert len(out) < 500
    gap = [text for text in kept if "lines are left out here" in text]
    assert gap
    assert sum(len(text) + 1 for text in kept) < 6000
    numbers = [number for number, _ in lines(core, deploy)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_an_outage_fails_no_step(core: Core, hand: Hand):
    """Only a recorded outcome fails a step."""
    broken = {"left": 0}

    class Flaky(type(core.store)):
        def __init__(self) -> None:
            self.__dict__.update(core.store.__dict__)

        def read(self):
            if broken["left"]:
                broken["left"] -= 1
                raise Unavailable("the database does not answer")
            return super().read()

    flaky = Hand(core, hand.shop.workdir.parent, hand.identity, store=Flaky())
    flaky.runner.held.add("deploy:web")
    deploy = core.submit()
    trip = flaky.begin(deploy)
    flaky.runner.await_running("deploy:web")
    broken["left"] = 2
    flaky.runner.release("deploy:web")
    trip.join()
    row = core.deploy(deploy)
    assert (row.state, row.outcome) in {("SUCCESS", "deployed"), ("PENDING", None)}
    assert core.steps(deploy)["verify:web"].state != "failed"
