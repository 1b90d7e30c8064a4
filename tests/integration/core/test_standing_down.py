"""A worker that may not go on, or cannot: its leases have ended, its disk is full."""

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from manent_server.engine import handout
from manent_server.engine.shop import Unwound
from manent_server.engine.unable import TRIES
from manent_server.plugins.runner import HookEnd
from manent_server.worker.crew import Crew
from tests.integration.core.crew import Hand, ended, log, place
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


NOT_BEGUN = HookEnd(result="not_started", error={"code": "workdir", "message": "no space left"})


def test_a_worker_that_cannot_begin_a_hook_leaves_it_to_another(
    core: Core, hand: Hand, monkeypatch: pytest.MonkeyPatch
):
    """I5: nothing has begun, nothing is counted; others have what it lacks."""
    monkeypatch.setattr(handout, "_AGAIN", timedelta(0))
    hand.runner.ends["deploy:web"] = [NOT_BEGUN] * (TRIES + 1)
    deploy = core.submit()
    # The second time it was the same worker that was free first.
    for more in (0, 1):
        assert hand.run(deploy) is Unwound
        row = core.deploy(deploy)
        assert (row.state, row.phase, row.dispatch) == ("ENQUEUED", "interrupted", 2 + more)
        assert len(core.attempts(deploy)) == TRIES + more
    assert "w1 cannot begin its hook, another worker may: no space left" in log(core, deploy)
    assert hand.beside().run(deploy) is None
    assert ended(core, deploy) == ("SUCCESS", "deployed")
    assert core.steps(deploy)["deploy:web"].failures == 0


def test_it_stays_while_another_hook_of_it_is_at_work(
    core: Core, hand: Hand, monkeypatch: pytest.MonkeyPatch
):
    """Whoever goes on would have to kill that one."""
    monkeypatch.setattr(handout, "_AGAIN", timedelta(0))
    place(core, (("a", "b"),))
    hand.runner.held.add("deploy:a")
    hand.runner.ends["deploy:b"] = [NOT_BEGUN] * (TRIES + 2)
    deploy = core.submit()
    trip = hand.begin(deploy)
    hand.runner.await_running("deploy:a")
    until(lambda: core.steps(deploy)["deploy:b"].ended_at, what="the end of the other")
    hand.runner.release("deploy:a")
    assert trip.join() is None
    assert ended(core, deploy) == ("SUCCESS", "deployed")
    assert core.deploy(deploy).dispatch == 1


class Engine:
    """An engine that notes whether the drain was announced before it was told to end."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.draining: list[bool] = []

    def destroy(self, **_: Any) -> None:
        self.draining += [row["draining"] for row in self._core.rows("executors")]

    def wait_idle(self, _: timedelta) -> bool:
        return True


def test_a_drain_is_announced_before_it_begins(core: Core, hand: Hand):
    """Admission counts on this worker no more."""
    engine: Any = Engine(core)
    nobody: Any = SimpleNamespace(stop=lambda: None)
    Crew(hand.shop, hand.watch, nobody, nobody, nobody, engine, timedelta(0)).drain()
    assert engine.draining == [True]
    [row] = core.rows("executors")
    assert (row["draining"], row["stopped_at"] is None) == (False, False)
