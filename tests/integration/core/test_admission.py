"""Admission: who is next in an environment."""

from datetime import timedelta

import pytest

from manent_server.domain.marks import Sort
from manent_server.store import queue
from manent_server.usecases import cancel, explain, inspect, mark
from manent_server.usecases.admit import Admission
from manent_server.usecases.requests import CancelRequest, DeployFilter, MarkRequest
from tests.rig.core import ADMIN, Core, long_ago


@pytest.fixture(autouse=True)
def worker(core: Core) -> None:
    core.worker()


def states(core: Core, *ids: str) -> list[str]:
    return [core.deploy(deploy).state for deploy in ids]


def end(core: Core, deploy: str, state: str = "SUCCESS", outcome: str = "deployed") -> None:
    core.set(deploy, state=state, outcome=outcome, phase=None, ended_at=core.at())
    with core.store.write() as tx:
        queue.free_slot(tx, deploy)


def test_a_deploy_with_nobody_before_it_is_dispatched_when_it_is_accepted(core: Core):
    deploy = core.submit()
    row = core.deploy(deploy)
    assert (row.state, row.phase, row.dispatch) == ("ENQUEUED", "dispatched", 1)
    assert core.slots() == [deploy]
    delivery = core.delivery(deploy)
    assert delivery is not None
    assert (delivery.is_over, delivery.is_taken) == (False, False)


def test_one_after_the_other_by_priority_then_ticket(core: Core):
    """I7"""
    first = core.submit("shop")
    second, third = core.submit("mail"), core.submit("news")
    urgent = core.submit("mail", version="2", priority=10)
    order = []
    for ended in (first, urgent, second, third):
        assert core.slots() == [ended]
        order.append(ended)
        end(core, ended, "ERROR", "failed")
        core.admit()
    assert order == [first, urgent, second, third]
    assert core.slots() == []


def test_a_deploy_whose_application_is_busy_is_passed_over(core: Core):
    first = core.submit("shop", "production")
    second = core.submit("shop", "production", "2")
    other = core.submit("mail", "production")
    assert core.slots("production") == [first, other]
    assert core.deploy(second).phase == "queued"


def test_two_of_one_application_that_wait_side_by_side_are_admitted_one_by_one(core: Core):
    core.change_environment("staging", concurrency=2)
    core.set_worker("w1", draining=True)
    first, second = core.submit("shop"), core.submit("shop")
    core.set_worker("w1", draining=False)
    core.admit()
    assert core.slots() == [first]
    row = core.deploy(second)
    assert (row.state, row.phase, row.blocked) == ("ENQUEUED", "queued", None)


def test_a_limit_that_was_lowered_holds_once_places_are_free(core: Core):
    """R20"""
    first, second = core.submit("shop", "production"), core.submit("mail", "production")
    third = core.submit("news", "production")
    core.change_environment("production", concurrency=1)
    core.admit("production")
    assert core.slots("production") == [first, second]
    end(core, first)
    core.admit("production")
    assert core.slots("production") == [second]
    end(core, second)
    core.admit("production")
    assert core.slots("production") == [third]


def test_a_limit_that_was_raised_admits_more(core: Core):
    core.submit("shop")
    second = core.submit("mail")
    core.change_environment("staging", concurrency=2)
    core.admit()
    assert second in core.slots()


def test_a_place_that_became_free_is_taken_again(core: Core):
    first, second = core.submit("shop", "production"), core.submit("mail", "production")
    third = core.submit("news", "production")
    end(core, first)
    core.admit("production")
    with core.store.read() as tx:
        places = {slot.deploy: slot.place for slot in queue.slots(tx, "production")}
    assert places == {third: 0, second: 1}


def test_a_deploy_overtaken_by_a_later_success_ends_superseded(core: Core):
    later = core.submit("shop", version="2")
    core.set(later, number=9)
    waiting = core.submit("shop", version="1")
    end(core, later)
    core.admit()
    row = core.deploy(waiting)
    assert (row.state, row.outcome, row.superseded_by) == ("CANCELLED", "superseded", later)


def test_an_overtaken_deploy_runs_where_a_person_said_so(core: Core):
    later = core.submit("shop", version="2")
    core.set(later, number=9)
    waiting = core.submit("shop", version="1", override=("outdated",))
    end(core, later)
    core.admit()
    assert core.slots() == [waiting]


def test_later_means_by_sequence_where_both_carry_one(core: Core):
    first = core.submit("shop", version="2", sequence=20)
    older = core.submit("shop", version="1", sequence=10)
    newer = core.submit("shop", version="3", sequence=30)
    end(core, first)
    core.admit()
    assert core.deploy(older).outcome == "superseded"
    assert core.slots() == [newer]


def test_a_sequence_on_one_side_only_does_not_count(core: Core):
    first = core.submit("shop", version="2", sequence=20)
    without = core.submit("shop", version="1")
    end(core, first)
    core.admit()
    assert core.slots() == [without]


def test_what_was_not_to_start_any_more_ends_expired(core: Core):
    core.submit("shop")
    late = core.submit("mail", not_after=core.at() + timedelta(hours=1))
    core.set(late, not_after=long_ago())
    core.admit()
    row = core.deploy(late)
    assert (row.state, row.outcome) == ("CANCELLED", "expired")
    assert core.rows("wakes") == []


def test_what_waits_for_its_start_expires_too(core: Core):
    late = core.submit("mail", not_before=core.at() + timedelta(hours=1))
    core.set(late, not_after=long_ago())
    core.admit()
    assert core.deploy(late).outcome == "expired"


def test_a_start_in_the_future_costs_no_ticket(core: Core):
    soon = core.at() + timedelta(hours=1)
    deploy = core.submit(not_before=soon)
    row = core.deploy(deploy)
    assert (row.state, row.phase, row.ticket) == ("DELAYED", "scheduled", None)
    assert [(wake["deploy"], wake["reason"]) for wake in core.rows("wakes")] == [(deploy, "gate")]
    core.set(deploy, not_before=long_ago())
    core.admit()
    assert core.slots() == [deploy]
    assert core.rows("wakes") == []


def test_a_gate_that_closed_in_the_queue_takes_the_ticket_back(core: Core):
    first, locked = core.submit("shop"), core.submit("mail")
    other = core.submit("news")
    ticket = core.deploy(locked).ticket
    until = core.at() + timedelta(hours=1)
    request = MarkRequest(Sort.LOCK, "audit", application="mail", expires_at=until)
    held = mark.put(core.desk, request, caller=ADMIN)
    end(core, first)
    core.admit()
    row = core.deploy(locked)
    assert (row.state, row.phase, row.ticket) == ("DELAYED", "locked", None)
    assert core.slots() == [other]
    assert [wake["deploy"] for wake in core.rows("wakes")] == [locked]
    mark.lift(core.desk, Sort.LOCK, held["id"], caller=ADMIN)
    row = core.deploy(locked)
    assert row.state == "ENQUEUED"
    assert ticket is not None
    assert (row.ticket or 0) > ticket


def test_the_phase_follows_the_gate_that_decides(core: Core):
    soon = core.at() + timedelta(hours=1)
    deploy = core.submit(not_before=soon)
    mark.put(core.desk, MarkRequest(Sort.LOCK, "audit"), caller=ADMIN)
    core.set(deploy, not_before=long_ago())
    core.admit()
    assert core.deploy(deploy).phase == "locked"


@pytest.mark.parametrize(
    "change",
    [
        {"plugins": ["other"]},
        {"pools": ["other"]},
        {"draining": True},
        {"stopped_at": long_ago()},
        {"heartbeat_at": long_ago()},
        {"recovered_by": "user:ann"},
    ],
)
def test_a_deploy_nobody_can_run_blocks_no_other(core: Core, change: dict[str, object]):
    core.set_worker("w1", **change)
    deploy = core.submit()
    assert core.slots() == []
    assert core.deploy(deploy).phase == "queued"
    core.worker("w2")
    core.admit()
    assert core.slots() == [deploy]


def test_an_order_of_a_newer_build_waits_for_a_worker_that_knows_it(core: Core):
    core.submit("shop")
    newer, other = core.submit("mail"), core.submit("news")
    core.set(newer, order_shape=2)
    core.change_environment("staging", concurrency=3)
    core.admit()
    assert newer not in core.slots()
    assert other in core.slots()


def test_a_failing_admission_does_not_undo_the_submit(
    core: Core, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    """What waits is shown as queued, the new one is accepted."""

    def fail(*_: object) -> None:
        raise KeyError("places")

    with monkeypatch.context() as broken:
        broken.setattr(Admission, "_fill", fail)
        deploy = core.submit("news")
        assert core.deploy(deploy).state == "ENQUEUED"
        assert "admission to staging failed" in caplog.text
        core.admission("staging")  # nor does it raise when it is a transaction of its own
        assert core.slots() == []
    core.admission("staging")
    assert core.slots() == [deploy]


def test_an_order_that_cannot_be_read_is_shown_and_blocks_no_other(
    core: Core, caplog: pytest.LogCaptureFixture
):
    """It is said once, also while many rounds meet it, and goes on once it can be read."""
    core.submit("shop")
    broken = core.submit("mail")
    core.set(broken, order_body={"no": "plugin"})
    core.change_environment("staging", concurrency=3)
    deploy = core.submit("news")
    assert deploy in core.slots()
    core.admission("staging")
    row = core.deploy(broken)
    assert (row.state, row.phase, row.blocked) == ("ENQUEUED", "blocked", "KeyError")
    assert sum(broken in line for line in caplog.messages) == 1
    assert "cannot be judged" in explain.explain(core.desk, broken)["summary"]
    shown = inspect.deploys(core.desk, DeployFilter())["items"]
    assert broken in [one["id"] for one in shown]
    core.set(broken, order_body=core.deploy(deploy).order_body)
    core.admission("staging")
    assert broken in core.slots()
    assert core.deploy(broken).blocked is None


def test_a_deploy_whose_order_cannot_be_read_can_be_cancelled(core: Core):
    """The way out needs no surgery on the database."""
    core.submit("shop")
    broken = core.submit("mail")
    core.set(broken, order_body={})
    assert cancel.cancel(core.desk, broken, CancelRequest(), caller=ADMIN)["state"] == "CANCELLED"


def test_nothing_is_admitted_to_an_unknown_environment(core: Core):
    core.admit("nowhere")
    assert core.rows("slots") == []
