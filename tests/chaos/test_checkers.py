"""Every checker passes a good history and catches one that was spoilt by hand."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.chaos import checkers, history
from tests.chaos.build import PLACE, Story, good
from tests.chaos.history import Call, Change, Fault, Line

Spoil = Callable[[Story], None]


def complaints(story: Story) -> set[str]:
    return {violation.invariant for violation in checkers.check(story.history)}


def test_a_good_history_passes() -> None:
    assert checkers.check(good().history) == []


def test_what_two_have_approved_may_begin() -> None:
    story = good()
    _approval(story, "ann", "bob")
    assert complaints(story) == set()


def test_the_last_words_of_a_lost_worker_may_be_missing() -> None:
    """Its deploy was closed by whoever took the cancel, before it could write them down."""
    story = good()
    lines_lost_at_the_end(story)
    for change in story.history.of("deploys"):
        if change.row["id"] == "one" and change.row["state"] == "SUCCESS":
            change.row["executor"] = None
    assert complaints(story) == set()


def another_deploy_beside(story: Story) -> None:
    story.epoch()
    story.mark("start", 1.5, "three", "deploy")
    story.mark("tick", 1.9, "three", "deploy")


def another_epoch_beside(story: Story) -> None:
    story.epoch()
    story.mark("start", 12.0, "two", "deploy", attempt=2, executor="w2")
    story.mark("tick", 12.5, "two", "deploy", attempt=2, executor="w2")


def two_hooks_on_one_target(story: Story) -> None:
    story.mark("start", 12.0, "two", "verify", run="x")
    story.mark("tick", 12.5, "two", "verify", run="x")


def too_many_side_by_side(story: Story) -> None:
    story.mark("start", 12.0, "two", "deploy", run="x", target="b")
    story.mark("tick", 12.5, "two", "deploy", run="x", target="b")


def too_many_deploys(story: Story) -> None:
    story.epoch()
    story.mark("start", 12.0, "four", "deploy", application="bee")
    story.mark("tick", 12.5, "four", "deploy", application="bee")


def a_falling_epoch(story: Story) -> None:
    story.deploy_row("one", 30.0, "PENDING", epoch=9)
    story.deploy_row("one", 31.0, "PENDING", epoch=3)


def an_older_epoch_in_the_place(story: Story) -> None:
    story.attempt_row("one", 30.0, "deploy", attempt=7, epoch=1)


def a_stale_hand_out(story: Story) -> None:
    story.deploy_row("three", 30.0, "PENDING", epoch=20)
    story.attempt_row("three", 31.0, "deploy", epoch=19)


def a_hand_out_of_an_ended_deploy(story: Story) -> None:
    story.attempt_row("two", 40.0, "rollback")


def a_stale_outcome(story: Story) -> None:
    story.deploy_row("three", 30.0, "PENDING", epoch=20)
    story.attempt_row("three", 31.0, "deploy", epoch=20)
    story.deploy_row("three", 32.0, "PENDING", epoch=21)
    story.attempt_row("three", 33.0, "deploy", epoch=20, ended_at=33.0, result="succeeded")
    story.step_row("three", 33.0, "deploy", "succeeded")


def a_finished_step_again(story: Story) -> None:
    story.attempt_row("two", 17.0, "deploy", attempt=2)


def a_finished_step_in_the_ledger(story: Story) -> None:
    story.epoch()
    story.mark("start", 17.5, "two", "deploy", attempt=2)


def a_step_twice_in_one_epoch(story: Story) -> None:
    story.mark("start", 13.2, "two", "deploy", attempt=2)


def an_attempt_twice(story: Story) -> None:
    story.epoch()
    story.mark("start", 13.2, "two", "deploy", run="x")


def no_end(story: Story) -> None:
    story.history.deploys[0] |= {"state": "PENDING", "phase": "deploying"}


def accepted_and_gone(story: Story) -> None:
    story.ask("three", 30.0)


def an_end_that_changes(story: Story) -> None:
    story.deploy_row("one", 30.0, "ERROR", outcome="failed", ended_at=30.0)


def one_key_two_deploys(story: Story) -> None:
    story.ask("one", 30.0, answer={"id": "two", "state": "ENQUEUED"})


def one_request_two_deploys(story: Story) -> None:
    story.history.deploys.append(story.history.deploys[0] | {"id": "eleven"})


def a_deploy_nobody_asked_for(story: Story) -> None:
    story.history.deploys.append(story.history.deploys[0] | {"id": "nine", "reason": "nobody"})


def passed_over(story: Story) -> None:
    story.deploy_row("early", 30.0, "ENQUEUED", ticket=1)
    story.deploy_row("late", 30.0, "ENQUEUED", ticket=2)
    story.row("slots", 31.0, deploy="late", **PLACE)


def one_place_twice(story: Story) -> None:
    for number, deploy in enumerate(("early", "late")):
        story.deploy_row(deploy, 30.0, "ENQUEUED", ticket=number)
        story.row("slots", 31.0, deploy=deploy, **PLACE)


def begun_after_a_cancel(story: Story) -> None:
    story.deploy_row("three", 30.0, "PENDING", cancel_requested_at=30.0)
    story.attempt_row("three", 31.0, "verify")


def begun_after_its_answer(story: Story) -> None:
    call = Call(9, "ant", "cancel", 0.5, 0.6, 200, about={"deploy": "one"})
    story.history.calls.append(call)


def a_hole_in_the_log(story: Story) -> None:
    del story.history.lines[1]


def a_line_twice(story: Story) -> None:
    line = story.history.lines[3]
    story.history.lines.insert(4, replace(line, sequence=5))


def lines_lost_at_the_end(story: Story) -> None:
    del story.history.lines[3]


def a_line_that_was_read_changes(story: Story) -> None:
    story.history.lines.append(Line("one", 2, "deploy:a", 1, "out", "other", is_final=False))


def a_lease_taken_early(story: Story) -> None:
    story.row("leases", 20.0, name="wake", holder="w3", token=3, old_holder="w2", old_token=2,
              old_until=22.0)  # fmt: skip


def a_token_that_stays(story: Story) -> None:
    story.row("leases", 20.0, name="wake", holder="w3", token=2, old_holder="w2", old_token=2,
              old_until=19.0)  # fmt: skip


def an_inventory_of_the_past(story: Story) -> None:
    story.history.inventory[0]["version"] = "0.1.ok"


def an_inventory_that_knows_too_much(story: Story) -> None:
    story.take("three", 30.0)
    story.hook("three", 31.0, "deploy")
    story.step_row("three", 34.0, "verify", "failed")
    story.log("three")
    del story.history.lines[-2:]
    story.close("three", 36.0, "ERROR", outcome="failed")


def taken_in_the_drain(story: Story) -> None:
    story.history.faults.append(Fault("term", 5.0, "w1"))


def a_leak(story: Story) -> None:
    story.history.leaks.append("table manent.logs")


def another_end_than_without_faults(story: Story) -> None:
    story.history.settings["calm_ends"]["two"] = "badly"


def a_grandchild_that_lives_on(story: Story) -> None:
    story.mark("start", 8.0, "zero", "deploy", run="g", epoch=0)
    story.mark("child", 8.0, "zero", "deploy", run="g-child", epoch=0)
    story.mark("tick", 11.5, "zero", "deploy", run="g-child", epoch=0)


def a_crash(story: Story) -> None:
    story.history.exits.append({"name": "w1", "code": 1, "said": "Traceback"})


def _instants(story: Story, *runs: tuple[str, str | None], until: str = "12:02:30") -> None:
    """A schedule made at noon that ends at `until`, and what became of its minutes."""
    day = "2027-06-01T"
    story.row("schedules", 40.0, id="s", name="each", created_at=f"{day}12:00:10+00:00",
              deleted_at=f"{day}{until}+00:00")  # fmt: skip
    for at, deploy in runs:
        result = "fired" if deploy else "missed"
        run = {"schedule": "s", "at": f"{day}{at}:00+00:00", "result": result, "deploy": deploy}
        story.history.changes.append(Change(900, 41.0, "schedule_runs", is_deletion=False, row=run))
        if deploy:
            story.deploy_row(
                deploy, 41.0, "ENQUEUED", origin="schedule", ticket=None, incarnation=None
            )


def an_instant_without_a_word(story: Story) -> None:
    _instants(story, ("12:01", "one"))


def an_instant_twice(story: Story) -> None:
    _instants(story, ("12:01", "one"), ("12:01", "two"), ("12:02", None))


def an_instant_that_never_was(story: Story) -> None:
    _instants(story, ("12:01", None), ("12:02", None), ("12:03", None))


def automation_without_an_instant(story: Story) -> None:
    story.deploy_row("nine", 41.0, "ENQUEUED", origin="schedule", ticket=None)


def one_deploy_for_two_instants(story: Story) -> None:
    _instants(story, ("12:01", "one"), ("12:02", "one"))


def a_grandchild_beside_the_next_attempt(story: Story) -> None:
    story.mark("start", 10.2, "two", "deploy", attempt=0, run="x")
    story.mark("child", 10.3, "two", "deploy", attempt=0, run="y")
    story.mark("tick", 11.5, "two", "deploy", attempt=0, run="y")


def left_under_a_claimed_start(story: Story, at: float = 18.0, *, comes_back: bool = False) -> None:
    story.row("executors", at, id="w1", incarnation="i1", recovered_by="w2")
    story.deploy_row("three", at + 1, "PENDING")
    if comes_back:
        story.row("executors", at + 40, id="w1", incarnation="i2", recovered_by=None)
    story.deploy_row("three", at + 42, "ENQUEUED", executor=None, incarnation=None)
    story.close("three", at + 43, "ERROR", outcome="failed")


def left_until_its_worker_came_back(story: Story) -> None:
    left_under_a_claimed_start(story, 41.0, comes_back=True)


def _approval(story: Story, *votes: str, digest: str = "d", acts: bool = True) -> None:
    """A deploy that had to be approved by two, what was said to it, and that it begins."""
    body = {"quorum": 2}
    story.row("approvals", 41.0, id="a", deploy="p", rule="r", digest="d", state="approved",
              body=body)  # fmt: skip
    for who in votes:
        decision = "reject" if who == "no" else "approve"
        story.row("votes", 42.0, id=f"v-{who}", approval="a", identity=who, decision=decision,
                  comment=None, digest="d")  # fmt: skip
    if acts:
        story.deploy_row("p", 43.0, "SUCCESS", approval="given", executor="w2",
                         approval_digest=digest,
                         handed_out_at=43.0, outcome="deployed", ended_at=44.0)  # fmt: skip


def begun_with_one_of_two(story: Story) -> None:
    _approval(story, "ann")


def begun_with_what_nobody_approved(story: Story) -> None:
    _approval(story, "ann", "bob", digest="another")


def a_decision_that_changes(story: Story) -> None:
    _approval(story, "ann", "bob", acts=False)
    story.row("votes", 45.0, id="v-ann", approval="a", identity="ann", decision="reject",
              comment=None, digest="d")  # fmt: skip


def a_decision_that_goes(story: Story) -> None:
    _approval(story, "ann", acts=False)
    story.row("votes", 45.0, is_deletion=True, id="v-ann", approval="a", identity="ann",
              decision="approve", comment=None, digest="d")  # fmt: skip


def an_answered_decision_that_is_not_there(story: Story) -> None:
    about = {"approval": "a", "by": "ann", "decision": "approve"}
    story.history.calls.append(Call(9, "ann", "decide", 41.0, 42.0, 200, about=about))


def begun_though_rejected(story: Story) -> None:
    _approval(story, "ann", "bob", "no")


SPOILT: dict[Spoil, str] = {
    begun_with_one_of_two: "I9",
    begun_with_what_nobody_approved: "I9",
    a_decision_that_changes: "I8",
    a_decision_that_goes: "I8",
    an_answered_decision_that_is_not_there: "I8",
    begun_though_rejected: "I8",
    another_deploy_beside: "I1",
    another_epoch_beside: "I1",
    two_hooks_on_one_target: "I1",
    too_many_side_by_side: "I1",
    too_many_deploys: "I1",
    a_falling_epoch: "I2",
    an_older_epoch_in_the_place: "I2",
    a_stale_hand_out: "I2",
    a_hand_out_of_an_ended_deploy: "I2",
    a_stale_outcome: "I2",
    a_finished_step_again: "I3",
    a_finished_step_in_the_ledger: "I3",
    a_step_twice_in_one_epoch: "I4",
    an_attempt_twice: "I4",
    no_end: "I5",
    left_under_a_claimed_start: "I5",
    left_until_its_worker_came_back: "I5",
    a_grandchild_beside_the_next_attempt: "I19",
    accepted_and_gone: "I5",
    an_end_that_changes: "I5",
    one_key_two_deploys: "I6",
    one_request_two_deploys: "I6",
    a_deploy_nobody_asked_for: "I6",
    passed_over: "I7",
    one_place_twice: "I7",
    begun_after_a_cancel: "I10",
    begun_after_its_answer: "I10",
    a_hole_in_the_log: "I11",
    a_line_twice: "I11",
    lines_lost_at_the_end: "I11",
    a_line_that_was_read_changes: "I11",
    a_lease_taken_early: "I13",
    a_token_that_stays: "I13",
    an_instant_without_a_word: "I14",
    an_instant_twice: "I14",
    an_instant_that_never_was: "I14",
    automation_without_an_instant: "I14",
    one_deploy_for_two_instants: "I14",
    an_inventory_of_the_past: "I16",
    an_inventory_that_knows_too_much: "I16",
    taken_in_the_drain: "I17",
    a_leak: "I18",
    a_grandchild_that_lives_on: "I19",
    another_end_than_without_faults: "I20",
    a_crash: "life",
}


@pytest.mark.parametrize("spoil", SPOILT, ids=lambda spoil: spoil.__name__)
def test_a_spoilt_history_is_caught(spoil: Spoil) -> None:
    story = good()
    spoil(story)
    assert SPOILT[spoil] in complaints(story)


def test_instants_that_fired_or_are_listed_are_well() -> None:
    story = good()
    _instants(story, ("12:01", "three"), ("12:02", None))
    story.history.deploys.append({"id": "three", "schedule": {"name": "each"}, "state": "SUCCESS",
                                  "reason": "each", "kind": "x", "targets": []})  # fmt: skip
    assert complaints(story) == set()


def test_a_history_can_be_kept(tmp_path) -> None:
    story = good()
    story.history.write(tmp_path / "history.jsonl")
    assert history.read(tmp_path / "history.jsonl") == story.history


def test_a_service_that_a_good_hook_left_may_live_on() -> None:
    story = good()
    story.history.ledger.sort(key=lambda mark: mark.at)
    run = next(mark.run for mark in story.history.ledger if mark.deploy == "one")
    story.mark("child", 2.0, "one", "deploy", run=f"{run}-child", epoch=1)
    story.mark("tick", 15.0, "one", "deploy", run=f"{run}-child", epoch=1)
    assert checkers.check(story.history) == []
