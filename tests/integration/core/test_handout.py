"""The hand-out and the end of an attempt: what keeps hooks apart."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from manent_server.engine.handout import HandOut, Refusal
from manent_server.plugins.protocol import boottime
from manent_server.plugins.runner import HookEnd
from manent_server.store import work, workers
from manent_server.store.work import StepRow
from tests.integration.core.running import BAD, GOOD, Running
from tests.rig.core import Core, long_ago


@pytest.fixture
def running(core: Core) -> Running:
    return Running(core)


def test_an_attempt_is_recorded_before_anything_acts(core: Core, running: Running):
    errand = running.errand()
    assert running.hand_out(errand) == HandOut(None, 1, None)
    (attempt,) = core.attempts(running.deploy.id)
    assert (attempt.id, attempt.step, attempt.attempt) == (errand.id, "deploy:web", 1)
    assert (attempt.epoch, attempt.incarnation) == (
        running.deploy.epoch,
        running.worker.incarnation,
    )
    assert (attempt.lease_until, attempt.ended_at) == (None, None)
    row = core.deploy(running.deploy.id)
    assert (row.phase, row.handed_out_at) == ("deploying", attempt.handed_out_at)
    assert running.step().state == "running"


def test_repeated_it_answers_the_same(core: Core, running: Running):
    """The answer to its COMMIT was lost."""
    errand = running.errand()
    assert running.hand_out(errand) == running.hand_out(errand)
    assert len(core.attempts(running.deploy.id)) == 1


@pytest.mark.parametrize("change", [{"cancel_requested_at": long_ago()}, {"epoch": 10_000}])
def test_refused_when_repeated_it_leaves_nothing_at_work(
    core: Core, running: Running, change: dict[str, Any]
):
    """The answer was lost, then a cancel came: what nobody was told of never begins."""
    errand = running.errand()
    running.hand_out(errand)
    core.set(running.deploy.id, **change)
    assert running.hand_out(errand).refusal in (Refusal.CANCELLED, Refusal.NOT_MINE)
    (attempt,) = core.attempts(running.deploy.id)
    assert attempt.result == "not_started"
    assert attempt.ended_at is not None


@pytest.mark.parametrize(
    "change",
    [
        {"state": "SUCCESS"},
        {"state": "ENQUEUED"},
        {"epoch": 10_000},
        {"incarnation": "another"},
    ],
)
def test_a_deploy_that_is_no_longer_this_runs_is_refused(
    core: Core, running: Running, change: dict[str, Any]
):
    core.set(running.deploy.id, **change)
    assert running.hand_out(running.errand()) == HandOut(Refusal.NOT_MINE)
    assert core.attempts(running.deploy.id) == []


def test_a_deploy_that_is_not_there_is_refused(running: Running):
    gone = replace(running.deploy, id="0" * 20)
    assert running.hand_out(running.errand(deploy=gone)).refusal == Refusal.NOT_MINE


@pytest.mark.parametrize("how", ["restarted", "claimed"])
def test_a_worker_whose_row_is_anothers_is_refused(core: Core, running: Running, how: str):
    """I19"""
    if how == "restarted":
        core.worker()
    else:
        core.set_worker("w1", recovered_by="w2")
    assert running.hand_out(running.errand()).refusal == Refusal.NOT_MINE


def test_after_a_cancel_nothing_begins(core: Core, running: Running):
    """I10"""
    core.set(running.deploy.id, cancel_requested_at=core.at())
    assert running.hand_out(running.errand()).refusal == Refusal.CANCELLED
    with core.store.write() as tx:
        work.write_steps(tx, running.deploy, [running.errand("rollback:web").step])
    assert running.hand_out(running.errand("rollback:web")).refusal == Refusal.CANCELLED
    core.set(running.deploy.id, cancel_rollback=True)
    assert running.hand_out(running.errand()).refusal == Refusal.CANCELLED
    assert running.hand_out(running.errand("rollback:web")).refusal is None
    assert core.deploy(running.deploy.id).phase == "rolling_back"


def test_past_the_deadline_only_an_undoing_begins(core: Core, running: Running):
    core.set(running.deploy.id, deadline_at=long_ago())
    assert running.hand_out(running.errand()).refusal == Refusal.OVERDUE
    with core.store.write() as tx:
        work.write_steps(tx, running.deploy, [running.errand("rollback:web").step])
    assert running.hand_out(running.errand("rollback:web")).refusal is None


def test_a_finished_step_is_never_begun_again(running: Running):
    """I3"""
    errand = running.errand()
    running.hand_out(errand)
    running.finish(errand, GOOD)
    assert running.hand_out(running.errand()).refusal == Refusal.DONE


def test_a_step_that_is_not_recorded_is_not_begun(running: Running):
    assert running.hand_out(running.errand("rollback:web")).refusal == Refusal.DONE


def other_attempt(core: Core, running: Running, **changes: Any) -> str:
    """An open attempt that some earlier run left."""
    errand = running.errand()
    running.hand_out(errand)
    (attempt,) = core.attempts(running.deploy.id)
    with core.store.write() as tx:
        work.update_attempt(tx, attempt.id, **{"epoch": attempt.epoch - 1} | changes)
        work.update_step(tx, running.deploy.id, 1, "deploy:web", state="waiting")
    return attempt.id


def test_an_earlier_attempt_in_the_same_place_blocks(core: Core, running: Running):
    """I1"""
    attempt = other_attempt(core, running)
    assert running.hand_out(running.errand()) == HandOut(Refusal.OCCUPIED)
    with core.store.write() as tx:
        work.update_attempt(tx, attempt, ended_at=tx.now(), result="interrupted")
    assert running.hand_out(running.errand()).attempt == 2


def test_an_attempt_of_another_deploy_of_the_application_blocks_too(core: Core, running: Running):
    other = core.submit("shop")
    other_attempt(core, running, deploy=other, step="x")
    assert running.hand_out(running.errand()).refusal == Refusal.OCCUPIED


@pytest.mark.parametrize("place", [{"application": "mail"}, {"environment": "production"}])
def test_an_attempt_elsewhere_does_not(core: Core, running: Running, place: dict[str, str]):
    other_attempt(core, running, **place)
    assert running.hand_out(running.errand()).refusal is None


def test_a_lease_that_has_passed_does_not_block(core: Core, running: Running):
    other_attempt(core, running, lease_until=long_ago())
    assert running.hand_out(running.errand()).refusal is None


@pytest.mark.parametrize(
    ("worker", "died"),
    [
        ({"recovered_by": None}, False),
        ({"recovered_by": "w2"}, True),
        ({"stopped_at": long_ago(), "recovered_by": "w2"}, False),
    ],
)
def test_an_attempt_whose_lease_has_passed_is_ended_by_the_next(
    core: Core, running: Running, worker: dict[str, Any], *, died: bool
):
    """It died only where its worker was taken for lost: one cut off has killed it itself."""
    core.worker("w0")
    core.set_worker("w0", **worker)
    with core.store.read() as tx:
        owner = workers.read(tx, "w0")
    assert owner is not None
    lost = other_attempt(
        core, running, lease_until=long_ago(), executor="w0", incarnation=owner.incarnation
    )
    assert running.hand_out(running.errand()).refusal is None
    found = next(a for a in core.attempts(running.deploy.id) if a.id == lost)
    assert (found.result, found.died) == ("interrupted", died)


@pytest.mark.postgres
def test_a_lease_that_somebody_may_be_moving_is_waited_for(postgres_core: Core):
    running = Running(postgres_core)
    lost = other_attempt(postgres_core, running, lease_until=long_ago())
    with postgres_core.store.write() as tx:
        work.lock_attempts(tx, [lost])
        assert running.hand_out(running.errand()).refusal == Refusal.OCCUPIED
    assert running.hand_out(running.errand()).refusal is None


def test_one_target_of_one_run_has_one_attempt_at_a_time(core: Core, running: Running):
    """I1: also under the same epoch."""
    running.hand_out(running.errand(lease=timedelta(minutes=1)))
    assert running.hand_out(running.errand("verify:web")).refusal == Refusal.OCCUPIED


def test_the_lease_of_an_attempt_is_counted_from_before_it_was_handed_out(
    core: Core, running: Running
):
    lease, before, at = timedelta(minutes=1), boottime(), core.at()
    answer = running.hand_out(running.errand(lease=lease))
    assert answer.lease_until is not None
    assert before <= answer.lease_until - 60 <= boottime()
    (attempt,) = core.attempts(running.deploy.id)
    assert attempt.lease_until is not None
    assert at <= attempt.lease_until - lease <= core.at()


def test_repeated_it_counts_the_lease_anew(core: Core, running: Running):
    """The database was away for longer than a lease before it answered again."""
    errand = running.errand(lease=timedelta(minutes=1))
    first = running.hand_out(errand)
    with core.store.write() as tx:
        work.update_attempt(tx, errand.id, lease_until=long_ago())
    again = running.hand_out(errand)
    assert again.attempt == first.attempt
    assert again.lease_until is not None
    assert first.lease_until is not None
    assert again.lease_until >= first.lease_until
    (attempt,) = core.attempts(running.deploy.id)
    assert attempt.lease_until is not None
    assert attempt.lease_until > core.at()


def test_repeated_after_somebody_ended_it_it_does_not_act(core: Core, running: Running):
    errand = running.errand(lease=timedelta(minutes=1))
    running.hand_out(errand)
    with core.store.write() as tx:
        work.end_lost(tx, errand.id, died=True, message="lost")
    assert running.hand_out(errand).refusal == Refusal.DONE
    assert running.hand_out(running.errand()).attempt == 2


def test_a_lease_that_runs_says_until_when(core: Core, running: Running):
    until = core.at() + timedelta(minutes=1)
    other_attempt(core, running, lease_until=until)
    answer = running.hand_out(running.errand())
    assert answer.refusal == Refusal.OCCUPIED
    assert answer.until is not None
    assert abs(answer.until - until) < timedelta(milliseconds=2)


def test_targets_of_one_run_do_not_block_each_other(core: Core):
    core.change_placement("shop", "staging", targets={"a": {}, "b": {}}, waves=(("a", "b"),))
    running = Running(core)
    assert running.hand_out(running.errand("deploy:a")).refusal is None
    assert running.hand_out(running.errand("deploy:b")).refusal is None


def test_a_step_that_succeeded_keeps_its_outputs(core: Core, running: Running):
    errand = running.errand()
    running.hand_out(errand)
    step = running.finish(errand, GOOD)
    assert step is not None
    assert (step.state, step.outputs, step.failures) == ("succeeded", {"port": 80}, 0)
    assert running.finish(errand, GOOD) == step
    (attempt,) = core.attempts(running.deploy.id)
    assert (attempt.result, attempt.outputs) == ("succeeded", {"port": 80})


def fail(running: Running, end: HookEnd = BAD, **more: Any) -> StepRow:
    errand = running.errand()
    assert running.hand_out(errand).refusal is None
    first = running.finish(errand, end, **more)
    again = running.finish(errand, end, **more)
    assert first is not None
    assert again is not None
    assert (first.state, first.failures) == (again.state, again.failures)
    return again


def test_failures_are_counted_and_tried_again_within_the_policy(core: Core, running: Running):
    states = []
    for _ in range(3):
        step = fail(running)
        states.append((step.state, step.failures))
    assert states == [("waiting", 1), ("waiting", 2), ("failed", 3)]
    assert running.step().error == {"code": "no", "message": "no"}
    assert [a.attempt for a in core.attempts(running.deploy.id)] == [1, 2, 3]


def test_a_timeout_counts_like_a_failure(running: Running):
    assert fail(running, replace(BAD, result="timed_out")).failures == 1


def test_a_permanent_failure_is_the_last(running: Running):
    assert fail(running, replace(BAD, retryable=False)).state == "failed"


def test_the_hook_may_ask_for_its_own_wait(core: Core, running: Running):
    step = fail(running, replace(BAD, retry_after=timedelta(seconds=30)))
    assert step.next_try_at is not None
    assert step.next_try_at - core.at() > timedelta(seconds=25)


def test_an_interruption_costs_nothing(running: Running):
    step = fail(running, HookEnd(result="interrupted"))
    assert (step.state, step.failures) == ("waiting", 0)


def test_what_never_began_costs_nothing_but_is_not_tried_at_once(core: Core, running: Running):
    step = fail(running, HookEnd(result="not_started"))
    assert (step.state, step.failures) == ("waiting", 0)
    assert step.next_try_at is not None
    assert step.next_try_at > core.at()


def test_a_cancelled_hook_fails_its_step(running: Running):
    step = fail(running, HookEnd(result="cancelled", error={"code": "cancelled"}))
    assert (step.state, step.failures) == ("failed", 0)


def test_past_the_deadline_a_failure_is_the_last(running: Running):
    step = fail(running, BAD, overdue=True)
    assert step.state == "failed"
    assert (step.error or {})["code"] == "deadline"


def test_a_late_result_of_an_old_epoch_only_ends_its_attempt(core: Core, running: Running):
    """I2"""
    errand = running.errand()
    running.hand_out(errand)
    with core.store.write() as tx:
        core.dispatcher.hand_back(tx, running.deploy)
    before = running.step()
    assert running.finish(errand, GOOD) is None
    assert running.step() == before
    assert core.attempts(running.deploy.id)[0].result == "succeeded"


def test_a_late_result_frees_the_place_for_the_next_epoch(core: Core, running: Running):
    late = running.errand()
    running.hand_out(late)
    with core.store.write() as tx:
        core.dispatcher.hand_back(tx, running.deploy)
    held, running.worker = running.worker, core.worker("w2")
    old, running.deploy = running.deploy, running.begin(running.deploy.id)
    assert running.hand_out(running.errand()).refusal == Refusal.OCCUPIED
    running.finish(replace(late, deploy=old, identity=held), GOOD)
    assert running.hand_out(running.errand()) == HandOut(None, 2, None)


def test_the_next_attempt_is_given_the_checkpoint(core: Core, running: Running):
    fail(running)
    with core.store.write() as tx:
        work.update_step(tx, running.deploy.id, 1, "deploy:web", checkpoint={"at": 3})
    assert running.hand_out(running.errand()) == HandOut(None, 2, {"at": 3})


def test_a_result_for_a_step_that_ended_meanwhile_changes_nothing(core: Core, running: Running):
    errand = running.errand()
    running.hand_out(errand)
    with core.store.write() as tx:
        work.update_step(tx, running.deploy.id, 1, "deploy:web", state="failed", ended_at=tx.now())
    before = running.step()
    assert running.finish(errand, GOOD) == before
