"""Who waits for whom: what of one application fills, what is looked after meanwhile."""

from datetime import timedelta

from manent_server.usecases import recover
from manent_server.usecases.requests import RecoverRequest
from tests.integration.core.planning import MINUTE, plans
from tests.rig.core import ADMIN, Core, long_ago

QUEUED = 30


def test_a_bulk_rollout_keeps_neither_ticks_nor_recovery_waiting(core: Core):
    """B44: they are no deploys in a queue; an application is passed over while it is at work."""
    core.worker("w1")
    first, *_ = [core.submit("shop") for _ in range(QUEUED)]
    core.change_environment("staging", concurrency=2)
    other = core.submit("mail")
    assert core.slots() == [first, other]
    made = plans(core)
    made.make(application="news", environment="production")
    assert made.look(10 * MINUTE) == 1
    assert made.results() == ["fired"]
    core.set_worker("w1", heartbeat_at=long_ago())
    answer = recover.recover(core.desk, RecoverRequest("w1", dry_run=True), caller=ADMIN)
    assert answer["executor"] == "w1"
    assert core.at() - core.deploy(first).requested_at < timedelta(minutes=1)
