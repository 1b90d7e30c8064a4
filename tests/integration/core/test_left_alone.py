"""Without automatic recovery what a lost worker holds waits for a word, and the log says so."""

from datetime import timedelta
from pathlib import Path

import pytest

from manent_server.store import work
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


@pytest.mark.parametrize("where", [{"pid_namespace": "another"}, {"boot": "another"}])
def test_a_lock_file_of_another_container_or_machine_shows_no_death(
    core: Core, tmp_path: Path, where: dict[str, str]
):
    """I19: a file of that name is free here, and says nothing of a hook that is at work there."""
    running = Running(core)
    file = tmp_path / "attempt"
    file.touch()
    errand = running.errand(lock_file=str(file))
    running.hand_out(errand)
    with core.store.write() as tx:
        work.update_attempt(tx, errand.id, **where)
    deploy = running.deploy.id
    core.set(deploy, cancel_requested_at=core.at(), cancel_by="ann")
    core.set_worker("w1", heartbeat_at=core.at() - timedelta(minutes=2))
    core.reconciler().round()
    assert core.deploy(deploy).state == "PENDING"
    assert [attempt.ended_at for attempt in core.attempts(deploy)] == [None]
