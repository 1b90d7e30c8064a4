"""Cancel, in every state a deploy can be in."""

import time
from datetime import timedelta
from typing import Any

import pytest

from manent_server.domain.access import Caller, everywhere
from manent_server.domain.errors import Conflict, KeyReused, NotAllowed, NotFound
from manent_server.engine import prelude
from manent_server.engine.prelude import Verdict
from manent_server.plugins.runner import HookEnd
from manent_server.store import records
from manent_server.usecases import cancel, recover, wake
from manent_server.usecases.requests import CancelRequest, IdempotencyKey, RecoverRequest
from tests.integration.core.running import BAD, GOOD, Running
from tests.rig.core import ADMIN, STALE_AFTER, Core, long_ago


def ask(core: Core, deploy: str, *, rollback: bool = False, **more: Any) -> dict[str, Any]:
    request = CancelRequest(rollback, "wrong version")
    return cancel.cancel(core.desk, deploy, request, caller=more.pop("caller", ADMIN), **more)


def park(core: Core, running: Running, reason: str = "soak") -> str:
    deploy = running.deploy.id
    core.set(deploy, executor=None, incarnation=None, phase="soaking")
    with core.store.write() as tx:
        records.wake(tx, deploy, tx.now() + timedelta(hours=1), reason)
    return deploy


def test_a_delayed_deploy_ends_at_once(core: Core):
    deploy = core.submit(not_before=core.at() + timedelta(hours=1))
    answer = ask(core, deploy)
    assert (answer["state"], answer["outcome"]) == ("CANCELLED", "cancelled")
    assert (answer["cancel"]["by"], answer["cancel"]["reason"]) == ("ann", "wrong version")
    assert core.rows("wakes") == []


def test_a_queued_deploy_ends_at_once(core: Core):
    deploy = core.submit()
    assert ask(core, deploy)["outcome"] == "cancelled"


def test_a_dispatched_deploy_ends_and_its_place_is_taken_by_the_next(core: Core):
    worker = core.worker()
    deploy, waiting = core.submit("shop"), core.submit("mail")
    assert ask(core, deploy)["outcome"] == "cancelled"
    assert core.slots() == [waiting]
    with core.store.write() as tx:
        start = prelude.begin(tx, core.claim(deploy, 1, worker), core.dispatcher)
    assert start.verdict == Verdict.STALE


def test_before_the_first_attempt_a_running_deploy_ends_at_once(core: Core):
    running = Running(core)
    assert ask(core, running.deploy.id)["outcome"] == "cancelled"
    assert running.hand_out(running.errand()).refusal == "not_mine"


def test_after_it_the_worker_is_told(core: Core):
    """I10"""
    running = Running(core)
    errand = running.errand()
    running.hand_out(errand)
    answer = ask(core, running.deploy.id)
    assert (answer["state"], answer["phase"]) == ("PENDING", "cancelling")
    running.finish(errand, GOOD)
    assert running.hand_out(running.errand("verify:web")).refusal == "cancelled"


def test_a_second_cancel_may_ask_for_more(core: Core):
    running = Running(core)
    running.hand_out(running.errand())
    first = ask(core, running.deploy.id)["cancel"]["requested_at"]
    second = ask(core, running.deploy.id, rollback=True)["cancel"]
    assert (second["requested_at"], second["rollback"]) == (first, True)


def test_a_plain_cancel_ends_the_rollback_that_was_asked_for_once_it_runs(core: Core):
    """Before that a rollback once asked for stays asked for."""
    running = Running(core)
    running.hand_out(running.errand())
    ask(core, running.deploy.id, rollback=True)
    assert ask(core, running.deploy.id)["cancel"]["rollback"] is True
    core.set(running.deploy.id, phase="rolling_back")
    assert ask(core, running.deploy.id)["cancel"]["rollback"] is False


def test_a_rollback_that_runs_is_still_shown_as_one(core: Core):
    running = Running(core)
    running.hand_out(running.errand())
    core.set(running.deploy.id, phase="rolling_back")
    assert ask(core, running.deploy.id)["phase"] == "rolling_back"


def test_a_deploy_that_waits_ends_at_once(core: Core):
    running = Running(core)
    running.perform("deploy:web")
    deploy = park(core, running)
    assert ask(core, deploy)["outcome"] == "cancelled"
    assert core.rows("wakes") == []


def test_a_way_back_that_was_cut_short_is_not_hidden_behind_the_cancel(core: Core):
    """I16: somebody must look first."""
    running = Running(core)
    running.perform("deploy:web", BAD)
    running.undo("web")
    running.perform("rollback:web", HookEnd(result="interrupted"))
    answer = ask(core, park(core, running))
    assert (answer["state"], answer["outcome"]) == ("ERROR", "rollback_failed")
    assert [(mark["application"], mark["automatic"]) for mark in core.rows("marks")] == [
        ("shop", True)
    ]


def test_a_deploy_that_waits_is_dispatched_for_its_rollback(core: Core):
    running = Running(core)
    running.perform("deploy:web")
    deploy = park(core, running)
    answer = ask(core, deploy, rollback=True)
    assert (answer["state"], answer["phase"], answer["dispatch"]) == ("PENDING", "rolling_back", 2)
    assert core.rows("wakes") == []


def test_what_a_hook_may_still_use_is_not_freed(core: Core):
    running = Running(core)
    errand = running.errand()
    running.hand_out(errand)
    deploy = park(core, running, "occupied")
    assert ask(core, deploy)["state"] == "PENDING"
    assert core.slots() == [deploy]
    with core.store.write() as tx:
        records.wake(tx, deploy, long_ago(), "occupied")
    assert wake.wake_due(core.desk) == 1
    assert [wake["reason"] for wake in core.rows("wakes")] == ["close"]
    running.finish(errand, GOOD)
    with core.store.write() as tx:
        records.wake(tx, deploy, long_ago(), "close")
    wake.wake_due(core.desk)
    assert core.deploy(deploy).outcome == "cancelled"


def test_a_deploy_put_back_after_its_first_attempt_ends_at_once(core: Core):
    running = Running(core)
    running.perform("deploy:web")
    with core.store.write() as tx:
        core.dispatcher.hand_back(tx, running.deploy)
    assert ask(core, running.deploy.id)["outcome"] == "cancelled"


def test_a_cancelled_deploy_answers_the_same_again(core: Core):
    deploy = core.submit()
    first = ask(core, deploy)
    assert ask(core, deploy, rollback=True) == first


def test_what_was_cancelled_without_a_rollback_is_not_rolled_back_by_a_later_one(core: Core):
    running = Running(core)
    running.perform("deploy:web")
    with core.store.write() as tx:
        core.dispatcher.hand_back(tx, running.deploy)
    ask(core, running.deploy.id)
    assert ask(core, running.deploy.id)["outcome"] == "cancelled"
    with pytest.raises(Conflict, match="the deploy has ended: CANCELLED"):
        ask(core, running.deploy.id, rollback=True)


def test_a_deploy_that_ended_otherwise_cannot_be_cancelled(core: Core):
    running = Running(core)
    running.close()
    with pytest.raises(Conflict, match="the deploy has ended: ERROR, failed") as caught:
        ask(core, running.deploy.id)
    assert caught.value.code == "deploy_ended"


def test_a_viewer_may_not_cancel(core: Core):
    deploy = core.submit()
    with pytest.raises(NotAllowed):
        ask(core, deploy, caller=Caller("vic", everywhere("viewer")))
    assert core.deploy(deploy).cancel_requested_at is None


def test_a_deploy_that_is_not_there_cannot_be_cancelled(core: Core):
    with pytest.raises(NotFound):
        ask(core, "0" * 20)


def test_a_repeated_key_cancels_once(core: Core):
    """I6"""
    running = Running(core)
    running.hand_out(running.errand())
    key = IdempotencyKey("k1", "/cancel", "digest")
    first = ask(core, running.deploy.id, key=key)
    assert ask(core, running.deploy.id, key=key) == first
    deeds = [row for row in core.rows("audit") if row["action"] == "deploy.cancel"]
    assert len(deeds) == 1
    with pytest.raises(KeyReused):
        ask(core, running.deploy.id, key=IdempotencyKey("k1", "/cancel", "other"))


def silent_since_an_outage(core: Core, running: Running, *, seconds: float) -> None:
    """The database was away until now; w1 sent its last heartbeat when that began."""
    away = seconds - 1
    outages = core.store._outages
    outages.began(OSError("no route to host"), since=time.monotonic() - away)
    outages.ended()
    core.set_worker("w1", heartbeat_at=core.at() - timedelta(seconds=seconds))
    running.hand_out(running.errand())


def test_after_an_outage_a_cancel_takes_nothing_from_a_worker_that_could_not_be_heard(core: Core):
    """I1, I19: without automatic recovery its hook is at work until its next heartbeat."""
    running = Running(core)
    silent_since_an_outage(core, running, seconds=STALE_AFTER.total_seconds() * 5)
    answer = ask(core, running.deploy.id)
    assert (answer["state"], answer["phase"]) == ("PENDING", "cancelling")
    core.reconciler().round()
    assert core.slots() == [running.deploy.id]
    assert [one.ended_at for one in core.attempts(running.deploy.id)] == [None]
    with pytest.raises(Conflict, match="is alive") as caught:
        recover.recover(core.desk, RecoverRequest("w1"), caller=ADMIN)
    assert "did not answer does not count" in (caught.value.next or "")


def test_a_worker_that_was_silent_before_the_outage_is_lost_all_the_same(core: Core):
    """B09, B12: only the outage itself does not count."""
    running = Running(core)
    silent_since_an_outage(core, running, seconds=STALE_AFTER.total_seconds() * 5)
    core.set_worker("w1", heartbeat_at=core.at() - STALE_AFTER * 15)
    assert ask(core, running.deploy.id)["state"] == "CANCELLED"
    assert core.slots() == []
