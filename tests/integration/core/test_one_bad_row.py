"""What is wrong with one deploy, or held by somebody, keeps no other from being looked after."""

from datetime import timedelta

import pytest

from manent_server.domain.rules import Rules
from manent_server.engine.identity import identify
from manent_server.recovery.start import Offer, Start
from manent_server.store import work
from manent_server.usecases import recover
from manent_server.usecases.requests import RecoverRequest
from tests.integration.core.running import Running
from tests.integration.core.test_reconcile import cancelled
from tests.rig.core import ADMIN, Core, long_ago


def test_a_cancelled_deploy_that_cannot_be_ended_keeps_no_other_open(
    core: Core, caplog: pytest.LogCaptureFixture
):
    """I5"""
    broken = cancelled(core, Running(core, "mail"), executor=None, incarnation=None, order_body=[])
    other = cancelled(core, Running(core, "shop", environment="production"))
    core.set(other, executor=None, incarnation=None)
    core.reconciler()._conclude_cancelled()
    assert core.deploy(other).outcome == "cancelled"
    assert core.deploy(broken).state == "PENDING"
    assert any(broken in line for line in caplog.messages)


def undispatchable(core: Core, deploy: str) -> None:
    """The engine has the id of its next dispatch already."""
    row = core.deploy(deploy)
    with core.store.write() as tx:
        core.dispatcher._enqueue(tx, deploy, row.dispatch + 1, pool=row.pool, version="0.1.0")


def mend(core: Core, deploy: str) -> None:
    core.set(deploy, dispatch=core.deploy(deploy).dispatch + 1)


@pytest.fixture
def left(core: Core) -> tuple[str, str]:
    """A deploy that cannot be dispatched anew and one that can, both of a lost w1; w2 lives."""
    bad = Running(core, "mail")
    good = Running(core, "shop", environment="production")
    core.set(bad.deploy.id, incarnation=good.worker.incarnation)
    core.worker("w2")
    core.set_worker("w1", heartbeat_at=long_ago())
    undispatchable(core, bad.deploy.id)
    return bad.deploy.id, good.deploy.id


def test_what_cannot_be_dispatched_keeps_no_other_from_being_taken_over(
    core: Core, left: tuple[str, str], caplog: pytest.LogCaptureFixture
):
    """I5: it is reported, stays as it was, and the next rounds try it again."""
    bad, good = left
    answer = recover.recover(core.desk, RecoverRequest("w1"), caller=ADMIN)
    found = {one["id"]: one for one in answer["workflows"]}
    assert (found[good]["resumable"], found[bad]["resumable"]) == (True, False)
    assert "cannot be dispatched" in found[bad]["why"]
    assert any(bad in line and "is not resumed now" in line for line in caplog.messages)
    assert (core.deploy(good).executor, core.deploy(bad).executor) == (None, "w1")
    assert not any("taken over" in row["text"] for row in core.rows("logs") if row["deploy"] == bad)
    assert core.reconciler().round() == []
    mend(core, bad)
    assert [one.deploy.id for one in core.reconciler().round()] == [bad]
    assert (core.deploy(bad).state, core.deploy(bad).executor) == ("ENQUEUED", None)


def test_what_cannot_be_dispatched_keeps_no_worker_from_starting(core: Core, left: tuple[str, str]):
    """I5: its row then names a start that is over, which the reconciler looks for."""
    bad, good = left
    offer = Offer(["default"], ["fake"], "digest", timedelta(seconds=5))
    resumed = Start(core.store, core.dispatcher, identify("w1"), offer).take(lambda _: False)
    assert list(resumed.deploys) == [good]
    mend(core, bad)
    found = core.reconciler().round()
    assert [(one.deploy.id, one.reason) for one in found] == [(bad, "incarnation replaced")]


def test_a_question_that_cannot_be_read_keeps_no_other_from_being_looked_after(
    core: Core, caplog: pytest.LogCaptureFixture
):
    bad = Running(core, "mail")
    other = Running(core, "shop", environment="production")
    for one in (bad, other):
        core.set(one.deploy.id, executor=None, incarnation=None)
        core.set_delivery(one.deploy.id, "ERROR")
    core.set(bad.deploy.id, question=[1])
    assert [one.deploy.id for one in core.reconciler().round()] == [other.deploy.id]
    assert any(bad.deploy.id in line for line in caplog.messages)


def test_an_older_one_that_cannot_be_judged_keeps_no_newer_one_back(
    core: Core, caplog: pytest.LogCaptureFixture
):
    """`latest` ends what it can."""
    core.change_environment("staging", rules=Rules(collision="latest"))
    Running(core)
    second = core.submit(version="2", collision="queue")
    core.set(second, order_body={"promotion": 5})
    third = core.submit(version="3")
    assert core.deploy(third).state == "ENQUEUED"
    assert core.deploy(second).is_live
    assert any(second in line for line in caplog.messages)


@pytest.mark.soak
@pytest.mark.postgres
def test_a_deploy_whose_attempt_somebody_holds_keeps_no_other_waiting(postgres_core: Core):
    """An operator's session may hold a row for as long as it likes."""
    core = postgres_core
    held = Running(core)
    errand = held.errand()
    assert held.hand_out(errand).refusal is None
    other = Running(core, "mail", environment="production")
    core.worker("w2")
    core.set_worker("w1", recovered_by="user:ann", heartbeat_at=long_ago())
    core.set(held.deploy.id, requested_at=long_ago(), incarnation=other.worker.incarnation)
    with core.store.write() as tx:
        tx.connection.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
        work.lock_attempts(tx, [errand.id])
        found = core.reconciler().round()
        assert [finding.deploy.id for finding in found] == [other.deploy.id]
    assert [f.deploy.id for f in core.reconciler().round()] == [held.deploy.id]
