"""What is wrong with one deploy, or held by somebody, keeps no other from being looked after."""

import pytest

from manent_server.store import work
from tests.integration.core.running import Running
from tests.integration.core.test_reconcile import cancelled
from tests.rig.core import Core, long_ago


def test_a_cancelled_deploy_that_cannot_be_ended_keeps_no_other_open(
    core: Core, caplog: pytest.LogCaptureFixture
):
    """I5"""
    broken = cancelled(core, Running(core, "mail"), executor=None, incarnation=None, order_body={})
    other = cancelled(core, Running(core, "shop", environment="production"))
    core.set(other, executor=None, incarnation=None)
    core.reconciler()._conclude_cancelled()
    assert core.deploy(other).outcome == "cancelled"
    assert core.deploy(broken).state == "PENDING"
    assert any(broken in line for line in caplog.messages)


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
