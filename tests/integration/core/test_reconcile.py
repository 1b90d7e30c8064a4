"""The standing query: no live deploy stays where nobody looks at it again."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from manent_server.engine import prelude
from manent_server.recovery.reconcile import Reconciler
from manent_server.store import deploys, queue, records, work
from tests.integration.core.running import Running
from tests.rig.core import BEAT, Core, long_ago


def reasons(reconciler: Reconciler) -> dict[str, str]:
    return {finding.deploy.id: finding.reason for finding in reconciler.findings()}


def owner(running: Running) -> str:
    return running.worker.engine_id


@pytest.fixture
def running(core: Core) -> Running:
    running = Running(core)
    core.set_worker("w1", running=[running.deploy.id])
    core.set_delivery(running.deploy.id, "PENDING", owner(running))
    return running


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [
        (lambda c, _: c.worker(), "incarnation replaced"),
        (lambda c, _: c.set_worker("w1", recovered_by="w2"), "incarnation claimed"),
    ],
)
def test_a_deploy_whose_run_is_over_is_dispatched_anew(
    core: Core, running: Running, break_it: Callable[[Core, str], Any], reason: str
):
    deploy = running.deploy.id
    core.worker("w2")
    break_it(core, deploy)
    found = core.reconciler().round()
    assert [(finding.deploy.id, finding.reason) for finding in found] == [(deploy, reason)]
    row = core.deploy(deploy)
    assert (row.state, row.phase, row.dispatch) == ("ENQUEUED", "interrupted", 2)
    assert row.executor is None
    assert core.slots() == [deploy]
    assert core.reconciler().round() == []


LEFT = [
    (lambda c, d: c.set(d, executor="gone"), "executor unknown"),
    (lambda c, _: c.set_worker("w1", stopped_at=c.at()), "incarnation stopped"),
]


@pytest.mark.parametrize(("leave", "reason"), LEFT)
def test_what_a_lost_worker_holds_is_left_to_a_person_and_said_once(
    core: Core,
    running: Running,
    leave: Callable[[Core, str], Any],
    reason: str,
    caplog: pytest.LogCaptureFixture,
):
    """Without automatic recovery only its return or somebody's word goes on with it."""
    deploy = running.deploy.id
    core.worker("w2")
    leave(core, deploy)
    reconciler = core.reconciler()
    assert (reconciler.round(), reconciler.round()) == ([], [])
    assert core.deploy(deploy).state == "PENDING"
    assert [line for line in caplog.messages if "waits for" in line and deploy in line] != []
    assert sum(deploy in line for line in caplog.messages) == 1


@pytest.mark.parametrize(("leave", "reason"), LEFT)
def test_with_automatic_recovery_nothing_is_left(
    core: Core, running: Running, leave: Callable[[Core, str], Any], reason: str
):
    deploy = running.deploy.id
    core.worker("w2")
    core.recover_automatically()
    leave(core, deploy)
    assert [(f.deploy.id, f.reason) for f in core.reconciler().round()] == [(deploy, reason)]
    assert core.deploy(deploy).executor is None


@pytest.mark.parametrize("automatic", [False, True])
def test_a_dispatch_a_stopped_worker_took_waits_for_automatic_recovery(
    core: Core, caplog: pytest.LogCaptureFixture, *, automatic: bool
):
    """B140: just claimed, never begun: till then it counts as pending under its worker."""
    worker = core.worker()
    deploy = core.submit()
    core.set_delivery(deploy, "PENDING", worker.engine_id)
    core.set_worker("w1", stopped_at=core.at())
    if automatic:
        core.recover_automatically()
    found = ["dispatch taken by a stopped worker"] if automatic else []
    reconciler = core.reconciler()
    assert list(reasons(reconciler).values()) == found
    reconciler.findings()
    said = [line for line in caplog.messages if deploy in line and "waits for w1" in line]
    assert len(said) == (0 if automatic else 1)


def test_a_claimed_deploy_waits_for_a_worker_of_its_version(core: Core, running: Running):
    """It stays under the lost worker until one appears."""
    deploy, reconciler = running.deploy.id, core.reconciler()
    core.worker("w2", version="9.9")
    core.set_worker("w1", recovered_by="w2")
    assert (reconciler.round(), reconciler.round()) == ([], [])
    assert core.deploy(deploy).executor == "w1"
    core.worker("w3")
    assert [finding.deploy.id for finding in reconciler.round()] == [deploy]


def test_what_turns_up_under_a_persons_claim_ends_on_that_persons_word(
    core: Core, running: Running
):
    """A row that was held while the claim was made: its attempt without end is ended as well."""
    errand = running.errand()
    running.hand_out(errand)
    core.worker("w2")
    core.set_worker("w1", recovered_by="user:ann", heartbeat_at=long_ago())
    core.reconciler().round()
    [attempt] = core.attempts(running.deploy.id)
    assert (attempt.result, attempt.died) == ("interrupted", True)


def test_a_workers_claim_ends_no_attempt(core: Core, running: Running):
    """Nobody has vouched for it: its lease is waited for."""
    running.hand_out(running.errand())
    core.worker("w2")
    core.set_worker("w1", recovered_by="w2", heartbeat_at=long_ago())
    core.reconciler().round()
    assert [attempt.ended_at for attempt in core.attempts(running.deploy.id)] == [None]


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("SUCCESS", "dispatch over in the engine"),
        ("CANCELLED", "dispatch over in the engine"),
        ("ERROR", "dispatch over in the engine"),
    ],
)
def test_a_dispatch_that_is_over_without_its_prelude_is_made_again(
    core: Core, status: str, reason: str
):
    core.worker()
    deploy = core.submit()
    core.set_delivery(deploy, status)
    assert reasons(core.reconciler()) == {deploy: reason}
    core.reconciler().round()
    row = core.deploy(deploy)
    assert (row.dispatch, row.phase) == (2, "dispatched")


def test_a_dispatch_the_engine_does_not_know_is_made_again(core: Core):
    core.worker()
    deploy = core.submit()
    core.set(deploy, dispatch=7)
    assert reasons(core.reconciler()) == {deploy: "dispatch missing in the engine"}


@pytest.mark.parametrize("taker", ["w1:older", "gone:i1"])
def test_a_dispatch_an_earlier_start_took_is_made_again(core: Core, taker: str):
    core.worker()
    deploy = core.submit()
    core.set_delivery(deploy, "PENDING", taker)
    reason = "dispatch taken by an earlier start of its worker"
    assert reasons(core.reconciler()) == {deploy: reason}


def test_a_dispatch_a_claimed_start_took_is_made_again(core: Core):
    worker = core.worker()
    deploy = core.submit()
    core.set_delivery(deploy, "PENDING", worker.engine_id)
    assert reasons(core.reconciler()) == {}
    core.set_worker("w1", recovered_by="w2")
    assert list(reasons(core.reconciler())) == [deploy]


def test_the_last_instant_of_a_queued_deploy_hides_no_lost_dispatch(core: Core):
    core.worker()
    deploy = core.submit(not_after=core.at() + timedelta(hours=1))
    assert [wake["deploy"] for wake in core.rows("wakes")] == [deploy]
    core.set_delivery(deploy, "CANCELLED")
    assert reasons(core.reconciler()) == {deploy: "dispatch over in the engine"}


def test_what_waits_without_a_wake_is_dispatched_anew(core: Core, running: Running):
    deploy = running.deploy.id
    core.set(deploy, executor=None, incarnation=None, phase="soaking")
    core.set_delivery(deploy, "SUCCESS")
    with core.store.write() as tx:
        records.wake(tx, deploy, tx.now() + timedelta(hours=1), "soak")
    assert reasons(core.reconciler()) == {}
    with core.store.write() as tx:
        records.unwake(tx, deploy)
    assert reasons(core.reconciler()) == {deploy: "dispatch over in the engine"}


def test_a_worker_that_does_not_name_a_deploy_is_given_two_heartbeats(core: Core, running: Running):
    deploy, reconciler = running.deploy.id, core.reconciler()
    at = core.at()
    core.set_worker("w1", running=[], heartbeat_at=at)
    assert reasons(reconciler) == {}
    core.set_worker("w1", heartbeat_at=at + BEAT)
    assert reasons(reconciler) == {}
    core.set_worker("w1", heartbeat_at=at + 2 * BEAT)
    assert reasons(reconciler) == {deploy: "not named by its worker"}


def test_one_late_heartbeat_does_not_count_as_two(core: Core, running: Running):
    """A slow database makes a beat late, and old what it says of the running deploys."""
    deploy, reconciler, at = running.deploy.id, core.reconciler(), core.at()
    core.set_worker("w1", running=[], heartbeat_at=at)
    assert reasons(reconciler) == {}
    core.set_worker("w1", heartbeat_at=at + 5 * BEAT)
    assert reasons(reconciler) == {}
    core.set_worker("w1", running=[deploy], heartbeat_at=at + 6 * BEAT)
    assert reasons(reconciler) == {}


def test_silence_is_counted_anew_once_it_is_named(core: Core, running: Running):
    reconciler, at = core.reconciler(), core.at()
    for beats, named in ((0, []), (1, [running.deploy.id]), (2, []), (3, [])):
        core.set_worker("w1", running=named, heartbeat_at=at + beats * BEAT)
        assert reasons(reconciler) == {}
    core.set_worker("w1", heartbeat_at=at + 4 * BEAT)
    assert list(reasons(reconciler)) == [running.deploy.id]


def test_silence_of_a_worker_that_does_not_beat_says_nothing(core: Core, running: Running):
    core.set_worker("w1", running=[], heartbeat_at=long_ago())
    reconciler = core.reconciler()
    for _ in range(3):
        assert reasons(reconciler) == {}
    assert running.deploy.id


def test_another_epoch_begins_the_count_anew(core: Core, running: Running):
    reconciler, at = core.reconciler(), core.at()
    core.set_worker("w1", running=[], heartbeat_at=at)
    assert reasons(reconciler) == {}
    core.set(running.deploy.id, epoch=running.deploy.epoch + 100)
    for beats in (1, 2):
        core.set_worker("w1", heartbeat_at=at + beats * BEAT)
        assert reasons(reconciler) == {}
    core.set_worker("w1", heartbeat_at=at + 3 * BEAT)
    assert list(reasons(reconciler)) == [running.deploy.id]


def test_a_dispatch_that_was_taken_but_never_begun_is_given_two_heartbeats(core: Core):
    worker = core.worker()
    deploy, reconciler, at = core.submit(), core.reconciler(), core.at()
    core.set_delivery(deploy, "PENDING", worker.engine_id)
    for beats in (0, 1):
        core.set_worker("w1", heartbeat_at=at + beats * BEAT)
        assert reasons(reconciler) == {}
    core.set_worker("w1", heartbeat_at=at + 2 * BEAT)
    assert reasons(reconciler) == {deploy: "not named by its worker"}


def leave(what: str) -> Callable[[Core, str], None]:
    def change(core: Core, deploy: str) -> None:
        if what == "stopped":
            core.set_worker("w1", stopped_at=core.at(), running=[])
        elif what == "silent":
            core.set_worker("w1", heartbeat_at=long_ago())
        elif what == "ended":
            core.set(deploy, state="SUCCESS", outcome="deployed")
        elif what == "delayed":
            core.set(deploy, state="DELAYED", executor=None)
        elif what == "queued":
            core.set(deploy, state="ENQUEUED", executor=None)
            with core.store.write() as tx:
                queue.free_slot(tx, deploy)
        elif what == "dispatched":
            core.set(deploy, state="ENQUEUED", executor=None, incarnation=None)
            core.set_delivery(deploy, "ENQUEUED")

    return change


@pytest.mark.parametrize(
    "what", ["running", "stopped", "silent", "ended", "delayed", "queued", "dispatched"]
)
def test_what_somebody_goes_on_with_is_left_alone(core: Core, running: Running, what: str):
    """A stopped or silent worker that nobody claimed: its id starts again or a person decides."""
    leave(what)(core, running.deploy.id)
    reconciler = core.reconciler()
    for _ in range(3):
        assert reconciler.round() == []
    assert core.deploy(running.deploy.id).dispatch == 1


def test_a_finding_that_is_true_no_more_is_not_repaired(core: Core, running: Running):
    deploy = running.deploy.id
    core.set(deploy, incarnation="old")
    (finding,) = core.reconciler().findings()
    with core.store.write() as tx:
        core.dispatcher.dispatch(tx, deploy)
    assert not core.reconciler()._repair(finding)
    core.set(deploy, dispatch=1, executor="w1", incarnation=running.worker.incarnation)
    assert not core.reconciler()._repair(finding)
    core.set(deploy, state="SUCCESS", incarnation="old")
    assert not core.reconciler()._repair(finding)


def cancelled(core: Core, running: Running, **more: Any) -> str:
    values = {"cancel_requested_at": core.at(), "cancel_by": "ann", "handed_out_at": core.at()}
    core.set(running.deploy.id, **(values | more))
    return running.deploy.id


@pytest.mark.parametrize("how", ["stopped", "silent"])
def test_a_cancelled_deploy_of_a_lost_worker_ends(core: Core, running: Running, how: str):
    deploy = cancelled(core, running)
    core.reconciler().round()
    assert core.deploy(deploy).state == "PENDING"  # its worker lives and sees to it
    leave(how)(core, deploy)
    core.reconciler().round()
    row = core.deploy(deploy)
    assert (row.state, row.outcome) == ("CANCELLED", "cancelled")
    assert core.slots() == []


def test_a_hook_that_may_live_keeps_a_cancelled_deploy_open(
    core: Core, running: Running, tmp_path: Path
):
    file = tmp_path / "attempt"
    errand = running.errand(lock_file=str(file))
    running.hand_out(errand)
    deploy = cancelled(core, running)
    leave("stopped")(core, deploy)
    core.reconciler().round()
    assert core.deploy(deploy).state == "PENDING"
    file.touch()  # the lock can be had: nothing of it lives on this host
    core.reconciler().round()
    assert core.deploy(deploy).outcome == "cancelled"
    (attempt,) = core.attempts(deploy)
    assert (attempt.result, attempt.died) == ("interrupted", False)  # its stop was recorded


@pytest.mark.postgres
def test_a_lease_that_somebody_may_be_moving_keeps_a_cancelled_deploy_open(postgres_core: Core):
    running = Running(postgres_core)
    errand = running.errand()
    running.hand_out(errand)
    with postgres_core.store.write() as tx:
        work.update_attempt(tx, errand.id, lease_until=long_ago())
    deploy = cancelled(postgres_core, running)
    leave("silent")(postgres_core, deploy)
    with postgres_core.store.write() as tx:
        work.lock_attempts(tx, [errand.id])
        postgres_core.reconciler().round()
        assert postgres_core.deploy(deploy).state == "PENDING"
    postgres_core.reconciler().round()
    assert postgres_core.deploy(deploy).outcome == "cancelled"


def test_the_deploy_of_a_lost_worker_is_dispatched_for_the_rollback_that_was_asked(
    core: Core, running: Running
):
    deploy = cancelled(core, running, cancel_rollback=True)
    leave("silent")(core, deploy)
    core.reconciler().round()
    row = core.deploy(deploy)
    assert (row.state, row.phase, row.dispatch) == ("PENDING", "rolling_back", 2)
    core.reconciler().round()
    assert core.deploy(deploy).dispatch == 2


def test_a_cancelled_deploy_nobody_has_ends(core: Core, running: Running):
    deploy = cancelled(core, running, executor=None, incarnation=None)
    core.set_delivery(deploy, "ENQUEUED")
    core.reconciler().round()
    assert core.deploy(deploy).outcome == "cancelled"


def test_what_was_begun_and_waits_by_the_time_it_is_looked_at_again_is_left(core: Core):
    """It was begun between the two looks of a round: its dispatch is over, and is the same."""
    worker = core.worker()
    deploy = core.submit()
    core.set_delivery(deploy, "SUCCESS")
    reconciler = core.reconciler()
    [finding] = reconciler.findings()
    with core.store.write() as tx:
        assert prelude.begin(tx, core.claim(deploy, 1, worker), core.dispatcher).deploy
        deploys.update(tx, deploy, executor=None, incarnation=None, phase="soaking")
        records.wake(tx, deploy, tx.now() + timedelta(hours=1), "soak")
    assert not reconciler._repair(finding)
    assert core.deploy(deploy).dispatch == 1
