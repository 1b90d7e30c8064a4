"""Abandon: a cancelled deploy that does not end is given up on a person's word."""

from datetime import timedelta
from typing import Any

import pytest

from manent_server.domain.access import Caller, everywhere
from manent_server.domain.errors import Conflict, NotAllowed
from manent_server.store import work
from manent_server.usecases import abandon, cancel, explain
from manent_server.usecases.requests import AbandonRequest, CancelRequest
from tests.integration.core.running import GOOD, Running
from tests.rig.core import ADMIN, VIEWER, Core, long_ago


def give_up(core: Core, deploy: str, *, force: bool = False) -> dict[str, Any]:
    request = AbandonRequest("the host is on fire", force=force)
    return abandon.abandon(core.desk, deploy, request, caller=ADMIN)


def stuck(core: Core, *, lease: timedelta | None = None, alive: bool = True) -> Running:
    """A deploy whose hook is at work, cancelled two minutes ago."""
    running = Running(core)
    errand = running.errand()
    running.hand_out(errand)
    at = core.at()
    cancel.cancel(core.desk, running.deploy.id, CancelRequest(), caller=ADMIN)
    core.set(running.deploy.id, cancel_requested_at=at - timedelta(minutes=2))
    if lease is not None:
        with core.store.write() as tx:
            work.update_attempt(tx, errand.id, lease_until=at + lease)
    if not alive:
        core.set_worker("w1", heartbeat_at=long_ago())
    return running


def open_attempts(core: Core, deploy: str) -> list[str]:
    return [attempt.step for attempt in core.attempts(deploy) if attempt.ended_at is None]


def test_it_ends_although_its_hook_may_be_at_work(core: Core):
    """B09(c): freed by an explicit act, in words that say what it rests on."""
    running = stuck(core)
    waiting = core.submit("mail")
    answer = give_up(core, running.deploy.id)
    assert (answer["state"], answer["outcome"]) == ("CANCELLED", "abandoned")
    words = " ".join(answer["warnings"])
    assert "given up on the word of ann: deploy:web may still be at work" in words
    assert "the next deploy begins no hook until w1 says that it has ended" in words
    assert "manent unlock staging --application shop" in words
    assert core.slots() == [waiting]
    assert [(row["target"], row["state"]) for row in core.rows("inventory")] == [("web", "unknown")]
    locks = [
        (row["application"], row["environment"], row["automatic"]) for row in core.rows("marks")
    ]
    assert locks == [("shop", "staging", True)]
    deeds = {row["action"]: row for row in core.rows("audit")}
    assert deeds["deploy.abandoned"]["actor"] == "ann"
    assert deeds["deploy.abandoned"]["detail"]["reason"] == "the host is on fire"
    assert "the host is on fire" in explain.explain(core.desk, running.deploy.id)["summary"]
    # The worker is alive: the attempt stays open until it says that it has ended it.
    assert open_attempts(core, running.deploy.id) == ["deploy:web"]


def test_without_a_worker_its_word_takes_the_place_of_a_lease(core: Core):
    """Automatic recovery is off: nothing else would ever end what the lost worker left."""
    running = stuck(core, alive=False)
    words = " ".join(give_up(core, running.deploy.id)["warnings"])
    assert "1 attempt(s) count as ended on that word" in words
    assert open_attempts(core, running.deploy.id) == []
    attempt = core.attempts(running.deploy.id)[0]
    assert (attempt.result, attempt.died) == ("interrupted", True)


def test_a_lease_is_waited_for(core: Core):
    running = stuck(core, lease=timedelta(minutes=3), alive=False)
    words = " ".join(give_up(core, running.deploy.id)["warnings"])
    assert "its lease ends at" in words
    assert open_attempts(core, running.deploy.id) == ["deploy:web"]


def test_the_next_deploy_waits_for_the_lease_until_it_is_forced(core: Core):
    """I1: the place is free, the hook is not."""
    first = stuck(core, lease=timedelta(minutes=3)).deploy.id
    give_up(core, first)
    with core.store.write() as tx:
        tx.connection.execute(tx.tables.marks.delete())
    following = Running(core)
    assert following.hand_out(following.errand()).refusal == "occupied"
    give_up(core, first, force=True)
    assert following.hand_out(following.errand()).refusal is None
    assert [row["action"] for row in core.rows("audit")].count("deploy.abandoned") == 2


def test_a_late_word_of_its_worker_changes_nothing(core: Core):
    """I2"""
    running = Running(core)
    errand = running.errand()
    running.hand_out(errand)
    cancel.cancel(core.desk, running.deploy.id, CancelRequest(), caller=ADMIN)
    core.set(running.deploy.id, cancel_requested_at=core.at() - timedelta(minutes=2))
    give_up(core, running.deploy.id)
    before = core.deploy(running.deploy.id)
    assert running.finish(errand, GOOD) is None
    assert running.close()
    assert core.deploy(running.deploy.id) == before
    assert [row["state"] for row in core.rows("inventory")] == ["unknown"]


def test_only_a_minute_after_a_cancel(core: Core):
    running = Running(core)
    running.hand_out(running.errand())
    with pytest.raises(Conflict) as refused:
        give_up(core, running.deploy.id)
    assert refused.value.code == "not_cancelled"
    assert f"manent cancel {running.deploy.id}" in refused.value.next
    cancel.cancel(core.desk, running.deploy.id, CancelRequest(), caller=ADMIN)
    with pytest.raises(Conflict) as refused:
        give_up(core, running.deploy.id, force=True)
    assert refused.value.code == "abandon_too_early"
    assert core.deploy(running.deploy.id).is_live


def test_what_has_ended_otherwise_is_not_given_up(core: Core):
    running = Running(core)
    assert running.close()
    with pytest.raises(Conflict) as refused:
        give_up(core, running.deploy.id, force=True)
    assert refused.value.code == "deploy_ended"


def test_who_only_deploys_ends_no_wait_by_force(core: Core):
    """What still works there then meets the next deploy: that word is an administrator's."""
    running = stuck(core)
    dora = Caller("dora", everywhere("deployer"))
    request = AbandonRequest("no", force=True)
    with pytest.raises(NotAllowed):
        abandon.abandon(core.desk, running.deploy.id, request, caller=dora)
    assert core.deploy(running.deploy.id).is_live
    request = AbandonRequest("no")
    abandon.abandon(core.desk, running.deploy.id, request, caller=dora)
    assert open_attempts(core, running.deploy.id) == ["deploy:web"]


def test_a_viewer_may_not(core: Core):
    running = stuck(core)
    with pytest.raises(NotAllowed):
        abandon.abandon(
            core.desk,
            running.deploy.id,
            AbandonRequest("no"),
            caller=VIEWER,
        )
