"""Wake: what waited for an instant goes on."""

from datetime import timedelta

import pytest

from manent_server.domain.errors import Invalid, NotAllowed, NotFound
from manent_server.domain.marks import Sort
from manent_server.observability.metrics import Metrics
from manent_server.store import deploys, records
from manent_server.usecases import mark, wake
from manent_server.usecases.requests import IdempotencyKey, MarkRequest
from manent_server.worker import jobs
from manent_server.worker.lookout import Lookout
from tests.integration.core.running import Running
from tests.rig.core import ADMIN, VIEWER, Core, long_ago


def park(core: Core, deploy: str, *, due: bool = True, reason: str = "soak") -> None:
    core.set(deploy, state="PENDING", phase="soaking", executor=None, incarnation=None)
    with core.store.write() as tx:
        at = tx.now()
        records.wake(tx, deploy, at if due else at + timedelta(hours=1), reason)


def test_a_deploy_whose_wait_is_over_is_dispatched(core: Core):
    running = Running(core)
    park(core, running.deploy.id)
    assert wake.wake_due(core.desk) == 1
    row = core.deploy(running.deploy.id)
    assert (row.state, row.phase, row.dispatch) == ("PENDING", "soaking", 2)
    assert core.slots() == [row.id]
    assert wake.wake_due(core.desk) == 0


def test_nothing_goes_on_before_its_time(core: Core):
    running = Running(core)
    park(core, running.deploy.id, due=False)
    assert wake.wake_due(core.desk) == 0
    assert core.deploy(running.deploy.id).dispatch == 1


def test_one_wake_of_a_deploy_replaces_the_other(core: Core):
    running = Running(core)
    park(core, running.deploy.id)
    park(core, running.deploy.id, due=False, reason="retry")
    assert [row["reason"] for row in core.rows("wakes")] == ["retry"]


def test_a_wake_that_was_moved_meanwhile_is_left(core: Core):
    running = Running(core)
    park(core, running.deploy.id, due=False)
    with core.store.write() as tx:
        assert wake._wake(tx, desk=core.desk, deploy=running.deploy.id) is None
        assert wake._wake(tx, desk=core.desk, deploy="0" * 20) is None
    assert len(core.rows("wakes")) == 1


def test_a_deploy_that_runs_again_already_is_not_dispatched(core: Core):
    running = Running(core)
    with core.store.write() as tx:
        records.wake(tx, running.deploy.id, long_ago(), "soak")
    wake.wake_due(core.desk)
    assert core.deploy(running.deploy.id).dispatch == 1
    assert core.rows("wakes") == []


def test_a_start_in_the_future_is_admitted_when_its_time_comes(core: Core):
    core.worker()
    deploy = core.submit(not_before=core.at() + timedelta(hours=1))
    core.set(deploy, not_before=long_ago())
    with core.store.write() as tx:
        records.wake(tx, deploy, long_ago(), "gate")
    wake.wake_due(core.desk)
    assert core.slots() == [deploy]


def test_a_round_of_admission_covers_what_an_event_left(core: Core):
    """The process died between the event and its admission."""
    deploy = core.submit()
    core.worker()
    assert core.slots() == []
    jobs.admit_all(core.desk)
    assert core.slots() == [deploy]


def test_the_jobs_of_a_process_have_names_of_their_own(core: Core):
    found = jobs.jobs(core.desk.settings(), Metrics(), Lookout(core.store))
    assert len({job.name for job in found}) == len(found)
    core.worker()
    core.submit()
    for job in found:
        job.make(core.desk)()


def test_a_lock_holds_back_until_it_is_lifted(core: Core):
    core.worker()
    held = mark.put(core.desk, MarkRequest(Sort.LOCK, "audit", environment="staging"), caller=ADMIN)
    assert (held["owner"], held["application"], held["automatic"]) == ("ann", None, False)
    deploy = core.submit()
    assert core.deploy(deploy).phase == "locked"
    assert mark.lift(core.desk, Sort.LOCK, held["id"], caller=ADMIN)["id"] == held["id"]
    assert core.slots() == [deploy]
    assert {"lock.set", "lock.lifted"} <= {row["action"] for row in core.rows("audit")}


def test_lifting_a_lock_wakes_what_waits_between_waves(core: Core):
    held = mark.put(core.desk, MarkRequest(Sort.LOCK, "audit", "mail"), caller=ADMIN)
    mail, shop = Running(core), core.submit("shop", "production")
    core.set(mail.deploy.id, application="mail")
    for deploy in (mail.deploy.id, shop):
        park(core, deploy, due=False, reason="gate")
    mark.lift(core.desk, Sort.LOCK, held["id"], caller=ADMIN)
    assert wake.wake_due(core.desk) == 1
    assert core.deploy(mail.deploy.id).dispatch == 2


def test_a_lock_that_is_not_in_force_cannot_be_lifted(core: Core):
    held = mark.put(core.desk, MarkRequest(Sort.LOCK, "audit"), caller=ADMIN)
    mark.lift(core.desk, Sort.LOCK, held["id"], caller=ADMIN)
    for gone in (held["id"], "nothing"):
        with pytest.raises(NotFound, match="there is no lock"):
            mark.lift(core.desk, Sort.LOCK, gone, caller=ADMIN)


def test_a_lock_expires_by_the_clock_of_the_database(core: Core):
    core.worker()
    soon = core.at() + timedelta(hours=1)
    held = mark.put(core.desk, MarkRequest(Sort.LOCK, "audit", expires_at=soon), caller=ADMIN)
    deploy = core.submit()
    assert core.slots() == []
    with core.store.write() as tx:
        tx.connection.execute(tx.tables.marks.update().values(expires_at=long_ago()))
    jobs.admit_all(core.desk)
    assert core.slots() == [deploy]
    with pytest.raises(NotFound):
        mark.lift(core.desk, Sort.LOCK, held["id"], caller=ADMIN)


@pytest.mark.parametrize(
    "asked",
    [MarkRequest(Sort.LOCK, " "), MarkRequest(Sort.LOCK, "audit", expires_at=long_ago())],
)
def test_a_lock_needs_a_reason_and_a_future(core: Core, asked: MarkRequest):
    with pytest.raises(Invalid):
        mark.put(core.desk, asked, caller=ADMIN)
    assert core.rows("marks") == []


def test_a_lock_on_what_is_not_there_is_refused(core: Core):
    for wrong in (
        MarkRequest(Sort.LOCK, "audit", "shopp"),
        MarkRequest(Sort.LOCK, "audit", environment="stagin"),
    ):
        with pytest.raises(NotFound, match="there is no") as caught:
            mark.put(core.desk, wrong, caller=ADMIN)
        assert caught.value.next.startswith("did you mean")


def test_a_viewer_may_not_lock(core: Core):
    with pytest.raises(NotAllowed):
        mark.put(core.desk, MarkRequest(Sort.LOCK, "audit"), caller=VIEWER)
    with pytest.raises(NotAllowed):
        mark.lift(core.desk, Sort.LOCK, "x", caller=VIEWER)


def test_a_repeated_key_sets_one_lock(core: Core):
    """I6"""
    key = IdempotencyKey("k", "/locks", "d")
    first = mark.put(core.desk, MarkRequest(Sort.LOCK, "audit"), caller=ADMIN, key=key)
    assert mark.put(core.desk, MarkRequest(Sort.LOCK, "audit"), caller=ADMIN, key=key) == first
    mark.lift(core.desk, Sort.LOCK, first["id"], caller=ADMIN)
    assert (
        mark.put(core.desk, MarkRequest(Sort.LOCK, "audit"), caller=ADMIN, key=key)["id"]
        == first["id"]
    )
    assert len(core.rows("marks")) == 1


@pytest.mark.postgres
def test_a_row_somebody_holds_keeps_no_other_waiting(postgres_core: Core):
    core = postgres_core
    held, other = Running(core), Running(core, "mail", environment="production")
    for running in (held, other):
        park(core, running.deploy.id)
    with core.store.write() as tx:
        deploys.lock(tx, held.deploy.id)
        wake.wake_due(core.desk)
        assert core.deploy(other.deploy.id).dispatch == 2
    wake.wake_due(core.desk)
    assert core.deploy(held.deploy.id).dispatch == 2


@pytest.mark.parametrize("reason", ["plugin", "gate"])
def test_what_has_a_place_and_is_not_begun_keeps_its_last_instant(core: Core, reason: str):
    """A deploy has one wake: one for another instant does not stand in for its end."""
    core.worker()
    last = core.at() + timedelta(hours=1)
    deploy = core.submit(not_after=last)
    assert core.slots() == [deploy]
    with core.store.write() as tx:
        records.wake(tx, deploy, long_ago(), reason)
    wake.wake_due(core.desk)
    assert core.deploy(deploy).state == "ENQUEUED"
    [row] = core.rows("wakes")
    assert row["at"] == last
    core.set(deploy, not_after=long_ago())
    with core.store.write() as tx:
        records.wake(tx, deploy, long_ago(), row["reason"])
    wake.wake_due(core.desk)
    assert (core.deploy(deploy).outcome, core.slots()) == ("expired", [])
