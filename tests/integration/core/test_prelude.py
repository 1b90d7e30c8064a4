"""The prelude: may this dispatch run, and whose is the deploy now."""

from datetime import timedelta

import pytest

from manent_server.domain.marks import Sort
from manent_server.domain.plan import Step
from manent_server.engine import prelude
from manent_server.engine.identity import Identity, identify
from manent_server.engine.prelude import Start, Verdict
from manent_server.store import queue, work
from manent_server.usecases import mark
from manent_server.usecases.requests import MarkRequest
from tests.rig.core import ADMIN, Core, long_ago


@pytest.fixture
def worker(core: Core) -> Identity:
    return core.worker()


@pytest.fixture
def deploy(core: Core, worker: Identity) -> str:
    return core.submit()


def begin(
    core: Core, deploy: str, worker: Identity, number: int = 1, *, draining: bool = False
) -> Start:
    claim = core.claim(deploy, number, worker, draining=draining)
    with core.store.write() as tx:
        return prelude.begin(tx, claim, core.dispatcher)


def test_a_dispatch_that_runs_makes_the_deploy_its_workers(
    core: Core, deploy: str, worker: Identity
):
    before = core.deploy(deploy)
    start = begin(core, deploy, worker)
    row = core.deploy(deploy)
    assert (start.verdict, start.deploy) == (Verdict.RUN, row)
    assert (row.state, row.phase) == ("PENDING", "preparing")
    assert (row.executor, row.incarnation) == (worker.executor, worker.incarnation)
    assert row.epoch > before.epoch
    assert row.started_at is not None
    assert row.deadline_at == row.started_at + timedelta(hours=1)


def test_asked_again_it_answers_the_same(core: Core, deploy: str, worker: Identity):
    """The answer to its COMMIT was lost."""
    assert begin(core, deploy, worker) == begin(core, deploy, worker)
    assert begin(core, deploy, worker, draining=True).verdict == Verdict.RUN


def test_an_older_dispatch_is_stale(core: Core, deploy: str, worker: Identity):
    with core.store.write() as tx:
        core.dispatcher.dispatch(tx, deploy)
    before = core.deploy(deploy)
    assert begin(core, deploy, worker, 1) == Start(Verdict.STALE, None)
    assert core.deploy(deploy) == before
    assert begin(core, deploy, worker, 2).verdict == Verdict.RUN


def test_a_dispatch_of_an_ended_deploy_is_stale(core: Core, deploy: str, worker: Identity):
    core.set(deploy, state="CANCELLED", outcome="cancelled")
    assert begin(core, deploy, worker).verdict == Verdict.STALE
    assert begin(core, "0" * 20, worker).verdict == Verdict.STALE


@pytest.mark.parametrize("how", ["restarted", "claimed", "unknown"])
def test_a_start_that_is_no_longer_its_rows_puts_the_deploy_back(
    core: Core, deploy: str, worker: Identity, how: str
):
    if how == "restarted":
        core.worker()
    elif how == "claimed":
        core.set_worker(worker.executor, recovered_by="w2")
    else:
        worker = identify("nobody")
    assert begin(core, deploy, worker).verdict == Verdict.FOREIGN
    row = core.deploy(deploy)
    assert (row.state, row.phase, row.dispatch) == ("ENQUEUED", "dispatched", 2)
    assert row.executor is None
    assert core.slots() == [deploy]


def test_a_draining_worker_puts_back_what_it_took(core: Core, deploy: str, worker: Identity):
    """I17"""
    assert begin(core, deploy, worker, draining=True).verdict == Verdict.FOREIGN
    assert core.deploy(deploy).dispatch == 2


def test_a_deploy_that_waited_keeps_its_state_when_it_is_put_back(
    core: Core, deploy: str, worker: Identity
):
    core.set(deploy, state="PENDING", started_at=core.at())
    assert begin(core, deploy, worker, draining=True).verdict == Verdict.FOREIGN
    row = core.deploy(deploy)
    assert (row.state, row.phase) == ("PENDING", "interrupted")


def test_a_gate_that_closed_before_the_first_attempt_frees_the_place(
    core: Core, deploy: str, worker: Identity
):
    """I9"""
    until = core.at() + timedelta(hours=1)
    mark.put(core.desk, MarkRequest(Sort.LOCK, "audit", "shop", expires_at=until), caller=ADMIN)
    start = begin(core, deploy, worker)
    row = core.deploy(deploy)
    assert start.verdict == Verdict.CLOSED
    assert (row.state, row.phase, row.ticket) == ("DELAYED", "locked", None)
    assert row.executor is None
    assert core.slots() == []
    assert [(wake["deploy"], wake["reason"]) for wake in core.rows("wakes")] == [(deploy, "gate")]
    assert "deploy.delayed" in [row["action"] for row in core.rows("audit")]


def test_a_lock_without_an_end_needs_no_wake(core: Core, deploy: str, worker: Identity):
    mark.put(core.desk, MarkRequest(Sort.LOCK, "audit", "shop"), caller=ADMIN)
    assert begin(core, deploy, worker).verdict == Verdict.CLOSED
    assert core.rows("wakes") == []


def test_what_was_prepared_is_forgotten_with_the_place(core: Core, deploy: str, worker: Identity):
    """Another deploy may run in between: what is gone back to is fixed while the slot is held."""
    taken = begin(core, deploy, worker).deploy
    assert taken is not None
    with core.store.write() as tx:
        work.write_steps(tx, taken, [Step("prepare", 0, "prepare")])
        work.update_step(tx, deploy, 1, "prepare", state="succeeded", ended_at=tx.now())
        core.dispatcher.hand_back(tx, taken)
    core.set(deploy, prepared={"past": {}}, warnings=["old"])
    mark.put(core.desk, MarkRequest(Sort.LOCK, "audit", "shop"), caller=ADMIN)
    assert begin(core, deploy, worker, 2).verdict == Verdict.CLOSED
    row = core.deploy(deploy)
    assert (row.prepared, row.replaces, row.warnings) == (None, None, None)
    assert core.steps(deploy) == {}


def test_what_expired_before_its_first_attempt_ends(core: Core, deploy: str, worker: Identity):
    core.set(deploy, not_after=long_ago())
    assert begin(core, deploy, worker).verdict == Verdict.CLOSED
    assert core.deploy(deploy).outcome == "expired"
    assert core.slots() == []


def test_a_deploy_that_was_handed_out_is_asked_nothing_more(
    core: Core, deploy: str, worker: Identity
):
    core.set(deploy, handed_out_at=core.at(), started_at=core.at(), not_after=long_ago())
    mark.put(core.desk, MarkRequest(Sort.LOCK, "audit", "shop"), caller=ADMIN)
    assert begin(core, deploy, worker).verdict == Verdict.RUN
    assert core.deploy(deploy).phase == "deploying"


def test_the_deadline_counts_from_the_first_start(core: Core, deploy: str, worker: Identity):
    first = begin(core, deploy, worker).deploy
    with core.store.write() as tx:
        core.dispatcher.dispatch(tx, deploy)
    again = begin(core, deploy, core.worker(), 2).deploy
    assert first is not None
    assert again is not None
    assert (again.started_at, again.deadline_at) == (first.started_at, first.deadline_at)
    assert again.epoch > first.epoch


def test_who_starts_is_no_longer_woken(core: Core, deploy: str, worker: Identity):
    with core.store.write() as tx:
        core_wake = core.at() + timedelta(hours=1)
        tx.connection.execute(
            tx.tables.wakes.insert().values(deploy=deploy, at=core_wake, reason="gate")
        )
    begin(core, deploy, worker)
    assert core.rows("wakes") == []


def test_a_worker_without_the_plugin_puts_the_deploy_back_for_a_while(
    core: Core, deploy: str, worker: Identity
):
    core.set(deploy, order_body={**core.deploy(deploy).order_body, "plugin": "other"})
    assert begin(core, deploy, worker).verdict == Verdict.FOREIGN
    row = core.deploy(deploy)
    assert (row.state, row.executor, row.dispatch) == ("ENQUEUED", None, 1)
    assert core.slots() == [deploy]
    assert [wake["reason"] for wake in core.rows("wakes")] == ["plugin"]


def test_a_dispatch_without_a_place_is_stale(core: Core, deploy: str, worker: Identity):
    with core.store.write() as tx:
        queue.free_slot(tx, deploy)
    assert begin(core, deploy, worker).verdict == Verdict.STALE
