"""A worker that may not go on: its leases have ended, or its deploy is another's."""

from pathlib import Path

import pytest

from manent_server.engine.shop import Unwound
from tests.integration.core.crew import Hand, ended
from tests.rig.core import Core
from tests.rig.process import until


@pytest.fixture
def hand(core: Core, tmp_path: Path) -> Hand:
    return Hand(core, tmp_path, core.worker())


def test_a_drain_hands_back_nothing_that_another_worker_has(core: Core, hand: Hand):
    """I2: it was taken over while its hook was at work."""
    hand.runner.held.add("deploy:web")
    deploy = core.submit()
    trip = hand.begin(deploy)
    hand.runner.await_running("deploy:web")
    with core.store.write() as tx:
        core.dispatcher.hand_back(tx, core.deploy(deploy))
    following = hand.beside().begin(deploy)
    until(lambda: core.deploy(deploy).executor == "w2", what="its next owner")
    hand.cut()
    assert trip.join() is Unwound
    assert following.join() is None
    assert ended(core, deploy) == ("SUCCESS", "deployed")
    assert core.deploy(deploy).dispatch == 2


def test_a_worker_whose_leases_have_ended_begins_nothing(core: Core, hand: Hand):
    """Others may take over from it at any moment: it waits until a heartbeat is answered."""
    hand.runner.held.add("deploy:web")
    hand.lifeline.holds_until = 0.0
    deploy = core.submit()
    trip = hand.begin(deploy)
    trip.thread.join(0.3)
    assert core.deploy(deploy).executor is None
    hand.lifeline.holds_until = None
    hand.runner.await_running("deploy:web")
    hand.lifeline.holds_until = 0.0
    hand.runner.release("deploy:web")
    until(lambda: core.steps(deploy)["deploy:web"].ended_at, what="the end of its hook")
    trip.thread.join(0.3)
    assert [attempt.step for attempt in core.attempts(deploy)] == ["deploy:web"]
    hand.lifeline.holds_until = None
    assert trip.join() is None
    assert ended(core, deploy) == ("SUCCESS", "deployed")
