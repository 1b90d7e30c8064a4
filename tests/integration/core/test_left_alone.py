"""Without automatic recovery what a lost worker holds waits for a word, and the log says so."""

from datetime import timedelta

import pytest

from tests.integration.core.running import Running
from tests.rig.core import Core


def test_what_a_silent_worker_holds_is_said_once(core: Core, caplog: pytest.LogCaptureFixture):
    """B12"""
    running = Running(core)
    core.set_worker("w1", heartbeat_at=core.at() - timedelta(minutes=2))
    reconciler = core.reconciler()
    assert (reconciler.round(), reconciler.round()) == ([], [])
    [line] = [line for line in caplog.messages if running.deploy.id in line]
    assert line.endswith("waits for w1, which sends no heartbeat")


def test_with_automatic_recovery_the_watcher_has_it(core: Core, caplog: pytest.LogCaptureFixture):
    running = Running(core)
    core.recover_automatically()
    core.set_worker("w1", heartbeat_at=core.at() - timedelta(minutes=2))
    assert core.reconciler().round() == []
    assert not any(running.deploy.id in line for line in caplog.messages)
