"""Every mutation is caught by one interleaving, which the product passes."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import sqlalchemy as sa

from manent_server.engine.dispatch import EndedDeploy
from manent_server.engine.handout import Refusal
from manent_server.plugins import protocol
from manent_server.store import queue
from tests.chaos import mutants
from tests.chaos.conftest import OpenBench
from tests.integration.core.planning import MINUTE, NOON, plans
from tests.integration.core.running import Running
from tests.integration.core.test_heartbeat import LEASE as LONG
from tests.integration.core.test_heartbeat import Heart
from tests.plugins.bench import Bench, alive, pids_in
from tests.plugins.bench import Running as Hook
from tests.rig.core import Core

pytestmark = pytest.mark.timeout(60)

LEASE, SLACK = 1.5, 0.7


@dataclass(frozen=True)
class Scene:
    """What an interleaving is played on."""

    core: Core
    open_bench: OpenBench


def an_earlier_run_of_the_same_worker_hands_out(scene: Scene) -> None:
    """R4: dispatched anew and taken by the same start, while the run before goes on."""
    running = Running(scene.core)
    before = running.errand()
    deploy = running.deploy.id
    with scene.core.store.write() as tx:
        scene.core.dispatcher.dispatch(tx, deploy)
    running.deploy = running.begin(deploy)
    assert running.hand_out(before).refusal == Refusal.NOT_MINE


def two_take_one_place(scene: Scene) -> None:
    """B13: both have seen the place free."""
    core, taken = scene.core, 0
    for version in ("1", "2"):
        row = core.deploy(core.submit(version=version))
        try:
            with core.store.write() as tx:
                queue.take_slot(tx, row, place=0, at=tx.now())
            taken += 1
        except sa.exc.IntegrityError:
            continue
    assert taken == 1


def the_next_owner_finds_a_hook_at_work(scene: Scene) -> None:
    """R1: taken over while an attempt is open and its lease has not passed."""
    running = Running(scene.core)
    assert running.hand_out(running.errand()).refusal is None
    deploy = running.deploy.id
    with scene.core.store.write() as tx:
        scene.core.dispatcher.dispatch(tx, deploy)
    running.worker = scene.core.worker("w2")
    running.deploy = running.begin(deploy)
    assert running.hand_out(running.errand()).refusal == Refusal.OCCUPIED


def a_deploy_turns_up_under_a_claimed_start(scene: Scene) -> None:
    """R5: taken from the queue before the claim and recorded after it."""
    core = scene.core
    running = Running(core)
    core.worker("w2")
    core.set_worker("w1", recovered_by="w2", running=[running.deploy.id])
    core.reconciler().round()
    row = core.deploy(running.deploy.id)
    assert (row.executor, row.dispatch) == (None, 2)


def an_ended_deploy_is_dispatched(scene: Scene) -> None:
    """R9: closed after it was found and before it is repaired."""
    core = scene.core
    running = Running(core)
    running.close()
    with pytest.raises(EndedDeploy), core.store.write() as tx:
        core.dispatcher.dispatch(tx, running.deploy.id)
    assert core.deploy(running.deploy.id).state == "ERROR"


def a_lease_ends(scene: Scene) -> None:
    """R2: nobody moves it; the hook must be dead by its end, also one that ignores SIGTERM."""
    with scene.open_bench() as bench:
        lease = protocol.boottime() + LEASE
        _, pids = _deaf_tree(bench, lease_until=lease)
        time.sleep(max(0.0, lease + SLACK - protocol.boottime()))
        left = alive(pids)
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert not left, "the hook outlived its lease"


def the_answer_to_a_heartbeat_is_late(scene: Scene) -> None:
    """R2: the database counts from when it was asked, and so must the guard."""
    heart = Heart(Running(scene.core), scene.core.settings.path.parent)
    attempt, ours = heart.hand_out(), scene.core.engines.ours

    def dawdle(_: sa.Connection) -> None:
        time.sleep(SLACK)

    sa.event.listen(ours, "commit", dawdle)
    try:
        sent = protocol.boottime()
        heart.beat()
    finally:
        sa.event.remove(ours, "commit", dawdle)
    until = heart.runner.extended[attempt]
    assert until is not None
    assert until < sent + LONG.total_seconds() + SLACK


def a_guard_dies_alone(scene: Scene) -> None:
    """Nobody has said that the tree is dead."""
    with scene.open_bench() as bench:
        hook, pids = _deaf_tree(bench)
        sessions = [os.getsid(pid) for pid in pids]
        # Two of its processes have left the guard's session.
        os.kill(max(sessions, key=sessions.count), signal.SIGKILL)
        assert not hook.end().is_dead


def an_instant_comes_again(scene: Scene) -> None:
    """I14: a schedule whose next time was set back, as by a row that was restored."""
    core = scene.core
    made = plans(core)
    made.make()
    made.look(10 * MINUTE)
    with core.store.write() as tx:
        tx.connection.execute(sa.update(tx.tables.schedules).values(next_at=NOON + 10 * MINUTE))
    made.look()
    assert len(core.rows("deploys")) == 1
    assert len(core.rows("schedule_runs")) == 1


def _deaf_tree(bench: Bench, **more: object) -> tuple[Hook, list[int]]:
    file = bench.folder / "pids"
    hook = bench.start("tree", pids=str(file), stubborn=True, **more)
    hook.says("deaf")
    return hook, pids_in(file)


CAUGHT: dict[str, Callable[[Scene], None]] = {
    "no_epoch_check": an_earlier_run_of_the_same_worker_hands_out,
    "no_slot_key": two_take_one_place,
    "no_attempt_lease": a_lease_ends,
    "lease_from_the_answer": the_answer_to_a_heartbeat_is_late,
    "no_standing_put_back": a_deploy_turns_up_under_a_claimed_start,
    "no_look_at_earlier_attempts": the_next_owner_finds_a_hook_at_work,
    "term_at_lease_end": a_lease_ends,
    "guard_death_is_exit": a_guard_dies_alone,
    "dispatch_of_the_ended": an_ended_deploy_is_dispatched,
    "no_word_on_an_instant": an_instant_comes_again,
}


def test_every_mutation_has_its_interleaving() -> None:
    assert set(CAUGHT) == set(mutants.MUTATIONS)


@pytest.mark.parametrize("name", CAUGHT)
def test_a_mutation_is_caught(name: str, core: Core, open_bench: OpenBench) -> None:
    play, scene = CAUGHT[name], Scene(core, open_bench)
    with mutants.mutated(name), pytest.raises((AssertionError, pytest.fail.Exception)):
        play(scene)


@pytest.mark.parametrize("play", sorted(set(CAUGHT.values()), key=lambda play: play.__name__),
                         ids=lambda play: play.__name__)  # fmt: skip
def test_the_product_passes(
    play: Callable[[Scene], None], core: Core, open_bench: OpenBench
) -> None:
    play(Scene(core, open_bench))
