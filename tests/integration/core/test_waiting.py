"""What a run waits for: its next try, a soak, a gate, a place."""

from datetime import timedelta
from pathlib import Path

import pytest

from manent_server.domain.marks import Sort
from manent_server.domain.rules import WAVE, Rules
from manent_server.plugins.events import Heartbeat, LogLine
from manent_server.plugins.runner import HookEnd
from manent_server.store import work
from manent_server.usecases import cancel, explain, mark, view
from manent_server.usecases.requests import CancelRequest, MarkRequest
from tests.integration.core.crew import Hand, ended, good_before, inventory, log, place
from tests.integration.core.running import Running
from tests.rig.core import ADMIN, Core, long_ago
from tests.rig.fake_runner import AGAIN, BAD, FakeRunner
from tests.rig.process import until


@pytest.fixture
def hand(core: Core, tmp_path: Path) -> Hand:
    return Hand(core, tmp_path, core.worker())


@pytest.fixture
def runner(hand: Hand) -> FakeRunner:
    return hand.runner


def test_a_failed_hook_is_tried_again(core: Core, hand: Hand, runner: FakeRunner):
    runner.ends["deploy:web"] = [AGAIN, AGAIN]
    deploy = core.submit()
    hand.run(deploy)
    assert ended(core, deploy) == ("SUCCESS", "deployed")
    assert runner.names() == ["deploy:web"] * 3 + ["verify:web"]
    assert [ran.context["attempt"] for ran in runner.ran] == [1, 2, 3, 1]
    keys = {ran.context["idempotency_key"] for ran in runner.ran[:3]}
    assert len(keys) == 1
    assert any("deploy:web failed: busy; tried again at" in line for line in log(core, deploy))


@pytest.mark.parametrize(
    "end",
    [
        HookEnd(result="failed", error={"code": "x", "message": "busy"}),
        HookEnd(result="not_started", error={"code": "workdir", "message": "no space left"}),
    ],
)
def test_a_wait_for_the_next_try_is_explained(core: Core, hand: Hand, end: HookEnd):
    """I5: also one that is too short to let go of the deploy."""
    running = Running(core)
    running.perform("deploy:web", end)
    next_try_at = core.at() + timedelta(seconds=50)
    with core.store.write() as tx:
        work.update_step(tx, running.deploy.id, 1, "deploy:web", next_try_at=next_try_at)
    summary = explain.explain(core.desk, running.deploy.id)["summary"]
    message = (end.error or {})["message"]
    assert f"deploy:web is tried again at {view.instant(next_try_at)}: {message}" in summary


def test_the_checkpoint_of_a_hook_reaches_its_next_attempt(
    core: Core, hand: Hand, runner: FakeRunner
):
    runner.says["deploy:web"] = [
        LogLine("out", "info", "half way"),
        Heartbeat({"at": 5}, {"done": 0.5}),
        Heartbeat(None, None),
        LogLine("err", "info", "oh"),
    ]
    runner.ends["deploy:web"] = [AGAIN]
    deploy = core.submit()
    hand.run(deploy)
    assert [ran.context["checkpoint"] for ran in runner.ran[:2]] == [None, {"at": 5}]
    assert log(core, deploy).count("half way") == 2


@pytest.mark.parametrize(
    ("sort", "phase"), [(Sort.LOCK, "locked"), (Sort.STOP, "stopped"), (Sort.FREEZE, "frozen")]
)
def test_what_was_set_since_the_start_holds_the_next_wave_back(
    core: Core, hand: Hand, sort: Sort, phase: str
):
    """I9"""
    place(core)
    core.change_environment("staging", rules=Rules(freeze_running=WAVE))
    hand.runner.held.add("deploy:a")
    deploy = core.submit()
    trip = hand.begin(deploy)
    hand.runner.await_running("deploy:a")
    held = mark.put(core.desk, MarkRequest(sort, "audit"), caller=ADMIN)
    hand.runner.release("deploy:a")
    assert trip.join() is None
    row = core.deploy(deploy)
    assert (row.state, row.phase, row.executor) == ("PENDING", phase, None)
    (gate,) = explain.explain(core.desk, deploy)["gates"]
    assert gate["gate"] == sort
    assert core.slots() == [deploy]
    assert [wake["reason"] for wake in core.rows("wakes")] == ["gate"]
    mark.lift(core.desk, sort, held["id"], caller=ADMIN)
    with core.store.write() as tx:
        core.dispatcher.dispatch(tx, deploy)
    hand.run(deploy)
    assert ended(core, deploy) == ("SUCCESS", "deployed")
    assert sorted(hand.runner.names()) == [
        "deploy:a", "deploy:b", "deploy:c", "verify:a", "verify:b", "verify:c",
    ]  # fmt: skip


def test_a_freeze_lets_what_runs_finish_by_default(core: Core, hand: Hand):
    place(core)
    hand.runner.held.add("deploy:a")
    deploy = core.submit()
    trip = hand.begin(deploy)
    hand.runner.await_running("deploy:a")
    mark.put(core.desk, MarkRequest(Sort.FREEZE, "audit"), caller=ADMIN)
    hand.runner.release("deploy:a")
    trip.join()
    assert ended(core, deploy) == ("SUCCESS", "deployed")


def test_a_short_soak_is_waited_for_and_does_not_count(core: Core, hand: Hand):
    place(core, soak=timedelta(milliseconds=150))
    deploy = core.submit()
    hand.run(deploy)
    assert ended(core, deploy) == ("SUCCESS", "deployed")
    step, row = core.steps(deploy)["soak:1"], core.deploy(deploy)
    assert step.ended_at is not None
    assert step.started_at is not None
    assert step.ended_at - step.started_at >= timedelta(milliseconds=150)
    assert row.deadline_at is not None
    assert row.started_at is not None
    assert row.deadline_at - row.started_at > timedelta(hours=1, milliseconds=149)


def test_a_long_soak_leaves_the_worker_and_goes_on_when_its_time_comes(core: Core, hand: Hand):
    place(core, soak=timedelta(minutes=10))
    deploy = core.submit()
    assert hand.run(deploy) is None
    row = core.deploy(deploy)
    assert (row.state, row.phase, row.executor) == ("PENDING", "soaking", None)
    assert core.slots() == [deploy]
    (wake,) = core.rows("wakes")
    assert wake["at"] - core.at() > timedelta(minutes=9)
    with core.store.write() as tx:
        tx.connection.execute(tx.tables.steps.update().values(started_at=long_ago()).where(
            tx.tables.steps.c.name == "soak:1"
        ))  # fmt: skip
        core.dispatcher.dispatch(tx, deploy, phase=row.phase)
    hand.run(deploy)
    assert core.deploy(deploy).outcome == "deployed"
    assert sorted(hand.runner.names())[:3] == ["deploy:a", "deploy:b", "deploy:c"]
    assert len(hand.runner.ran) == 6


def test_a_soak_that_is_cancelled_with_rollback_ends_at_once(core: Core, hand: Hand):
    place(core)
    good_before(core, hand)
    place(core, soak=timedelta(minutes=10))
    deploy = core.submit()
    hand.run(deploy)
    answer = cancel.cancel(core.desk, deploy, CancelRequest(rollback=True), caller=ADMIN)
    assert answer["dispatch"] == 2
    hand.run(deploy)
    assert ended(core, deploy) == ("CANCELLED", "cancelled")
    assert hand.runner.names()[-2:] == ["rollback:b", "rollback:a"]
    assert {version for _, version in inventory(core).values()} == {"0"}


def test_a_long_wait_for_the_next_try_leaves_the_worker(core: Core, hand: Hand):
    later = HookEnd(result="failed", error={"code": "x"}, retry_after=timedelta(minutes=5))
    retry = core.settings.applications["shop"].environments["staging"].retry
    place(core, (("web",),), retry=type(retry)(
        attempts=3, initial=retry.initial, factor=1, cap=retry.cap, total=timedelta(hours=1)
    ))  # fmt: skip
    hand.runner.ends["deploy:web"] = [later]
    deploy = core.submit()
    assert hand.run(deploy) is None
    assert [wake["reason"] for wake in core.rows("wakes")] == ["retry"]
    assert core.deploy(deploy).executor is None
    with core.store.write() as tx:
        tx.connection.execute(tx.tables.steps.update().values(next_try_at=long_ago()))
        core.dispatcher.dispatch(tx, deploy)
    hand.run(deploy)
    assert ended(core, deploy) == ("SUCCESS", "deployed")
    assert [ran.context["attempt"] for ran in hand.runner.ran] == [1, 2, 1]


def test_a_failure_beside_a_long_wait_decides(core: Core, hand: Hand):
    place(core, (("a", "b"),))
    good_before(core, hand)
    later = HookEnd(result="failed", error={"code": "x"}, retry_after=timedelta(seconds=30))
    place(core, (("a", "b"),))
    hand.runner.ends |= {"deploy:a": [BAD], "deploy:b": [later]}
    deploy = core.submit()
    trip = hand.begin(deploy)
    both = {"deploy:a", "deploy:b"}

    def have_failed() -> bool:
        return both <= {name for name, step in core.steps(deploy).items() if step.failures}

    until(have_failed, what="both to have failed")
    with core.store.write() as tx:
        tx.connection.execute(tx.tables.steps.update().values(next_try_at=long_ago()).where(
            tx.tables.steps.c.name == "deploy:b"
        ))  # fmt: skip
    trip.join()
    assert ended(core, deploy)[1] == "rolled_back"


def test_another_attempt_in_the_place_is_waited_for(core: Core, hand: Hand):
    """I1"""
    deploy = core.submit()
    other = core.submit("mail", "production")
    hand.run(other)
    with core.store.write() as tx:
        attempts = tx.tables.attempts
        tx.connection.execute(
            attempts.update().values(application="shop", environment="staging", ended_at=None)
        )
    trip = hand.begin(deploy)
    trip.thread.join(0.3)
    assert trip.thread.is_alive()
    assert not [ran for ran in hand.runner.ran if ran.context["deploy"] == deploy]
    with core.store.write() as tx:
        tx.connection.execute(tx.tables.attempts.update().values(ended_at=tx.now()))
    trip.join()
    assert core.deploy(deploy).outcome == "deployed"
