"""`on_exhausted: pause`: a step that has used up its tries waits for one person."""

import threading
from datetime import timedelta
from pathlib import Path

import pytest

from manent_server.domain.errors import Conflict, Invalid
from manent_server.domain.question import Answer
from manent_server.usecases import answer, cancel, explain, retry
from manent_server.usecases.requests import (
    AnswerRequest,
    CancelRequest,
    IdempotencyKey,
    RerunRequest,
)
from tests.integration.core.crew import Hand, ended, good_before, inventory, place
from tests.integration.core.test_once import say
from tests.rig.core import ADMIN, Core
from tests.rig.fake_runner import AGAIN, BAD

ALL = "--retry|--skip|--rollback|--failed"


@pytest.fixture
def hand(core: Core, tmp_path: Path) -> Hand:
    place(core, (("a",), ("b",)))
    core.change_environment("staging", on_exhausted="pause")
    return Hand(core, tmp_path, core.worker())


@pytest.fixture
def paused(core: Core, hand: Hand) -> str:
    """b has used up its tries."""
    good_before(core, hand)
    hand.runner.ends["deploy:b"] = [AGAIN] * 3
    deploy = core.submit(version="1")
    assert hand.run(deploy) is None
    row = core.deploy(deploy)
    assert (row.state, row.phase, row.executor) == ("PENDING", "paused", None)
    hand.runner.ran.clear()
    return deploy


def test_it_waits_without_a_worker_and_says_so(core: Core, paused: str):
    """I5"""
    assert core.slots() == [paused]
    assert core.rows("wakes") == []
    assert core.reconciler().findings() == []
    told = explain.explain(core.desk, paused)
    assert "deploy:b failed for good: busy" in told["summary"]
    assert told["gates"][0]["command"] == f"manent resolve {paused} {ALL}"


def test_a_retry_is_the_next_pass_of_the_same_deploy(core: Core, hand: Hand, paused: str):
    """I3: what is finished is carried over, and the keys of the new pass are its own."""
    retry.retry(core.desk, paused, RerunRequest(None, "fixed the disk", ()), caller=ADMIN)
    assert hand.run(paused) is None
    row = core.deploy(paused)
    assert (row.state, row.outcome, row.pass_number) == ("SUCCESS", "deployed", 2)
    assert hand.runner.names() == ["deploy:b", "verify:b"]
    context = hand.runner.ran[0].context
    assert context["idempotency_key"] == f"{paused}/deploy:b/2"
    assert (context["attempt"], context["completed"]) == (1, ["prepare", "deploy:a", "verify:a"])
    assert inventory(core) == {"a": ("known", "1"), "b": ("known", "1")}


def test_a_second_pass_may_pause_again(core: Core, hand: Hand, paused: str):
    say(core, paused, "retry")
    hand.runner.ends["deploy:b"] = [BAD]
    assert hand.run(paused) is None
    assert core.deploy(paused).phase == "paused"
    say(core, paused, "retry")
    assert hand.run(paused) is None
    assert (core.deploy(paused).outcome, core.deploy(paused).pass_number) == ("deployed", 3)


def test_a_target_may_be_left_out(core: Core, hand: Hand, paused: str):
    """I16: the target was touched, so nobody knows what runs there."""
    say(core, paused, "skip")
    assert hand.run(paused) is None
    row = core.deploy(paused)
    assert (row.state, row.outcome) == ("SUCCESS", "partial")
    assert hand.runner.names() == []
    assert inventory(core) == {"a": ("known", "1"), "b": ("unknown", None)}


def test_what_was_left_out_goes_back_to_what_it_had(core: Core, hand: Hand, paused: str):
    say(core, paused, "skip")
    assert hand.run(paused) is None
    core.change_environment("staging", on_exhausted="fail")
    hand.runner.ends["verify:b"] = [BAD]
    assert hand.run(core.submit(version="2")) is None
    backwards = {r.name: r.context["version"] for r in hand.runner.ran if "rollback" in r.name}
    assert backwards == {"rollback:a": "1", "rollback:b": "0"}


def test_a_person_may_take_it_back(core: Core, hand: Hand, paused: str):
    core.change_environment("staging", rollback="manual")
    say(core, paused, "rollback")
    assert hand.run(paused) is None
    assert ended(core, paused) == ("ERROR", "rolled_back")
    assert hand.runner.names() == ["rollback:b", "rollback:a"]


def test_a_person_may_let_it_fail(core: Core, hand: Hand, paused: str):
    say(core, paused, "failed")
    assert hand.run(paused) is None
    assert ended(core, paused) == ("ERROR", "failed")
    assert hand.runner.names() == []
    assert core.rows("marks") == []


def test_of_many_people_one_answers(core: Core, paused: str):
    """I8"""
    won: list[str] = []
    lost: list[Conflict] = []

    def go(said: str) -> None:
        try:
            say(core, paused, said)
            won.append(said)
        except Conflict as error:
            lost.append(error)

    threads = [threading.Thread(target=go, args=(said,)) for said in ("retry", "failed") * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert {error.code for error in lost} == {"already_answered"}
    assert all(f"ann has answered already: {won[0]}" in str(error) for error in lost)


def test_answers_that_make_no_sense_are_refused(core: Core, hand: Hand, paused: str):
    with pytest.raises(Conflict) as caught:
        say(core, paused, "succeeded")
    assert caught.value.code == "answer_not_offered"
    with pytest.raises(Invalid):
        say(core, paused, "skip", target="a")
    with pytest.raises(Conflict) as caught:
        say(core, core.submit("mail"), "retry")
    assert caught.value.code == "nothing_asked"
    assert core.deploy(paused).open_question is not None
    say(core, paused, "skip", target="b")
    assert hand.run(paused) is None
    assert core.deploy(paused).outcome == "partial"


def test_the_only_target_cannot_be_left_out(core: Core, hand: Hand):
    place(core, (("a",),))
    hand.runner.ends["deploy:a"] = [BAD]
    deploy = core.submit()
    assert hand.run(deploy) is None
    with pytest.raises(Conflict) as caught:
        say(core, deploy, "skip")
    assert caught.value.code == "answer_not_offered"


def test_the_deadline_does_not_pause(core: Core, hand: Hand):
    hand.runner.held.add("deploy:a")
    deploy = core.submit()
    trip = hand.begin(deploy)
    hand.runner.await_running("deploy:a")
    core.set(deploy, deadline_at=core.at() - timedelta(seconds=1))
    hand.watch.look()
    assert trip.join() is None
    assert ended(core, deploy) == ("ERROR", "failed")


@pytest.mark.parametrize(
    ("back", "end"), [(False, ("CANCELLED", "cancelled")), (True, ("CANCELLED", "cancelled"))]
)
def test_a_paused_deploy_can_be_cancelled(
    core: Core, hand: Hand, paused: str, *, back: bool, end: tuple[str, str]
):
    cancel.cancel(core.desk, paused, CancelRequest(rollback=back), caller=ADMIN)
    if back:
        assert hand.run(paused) is None
    assert ended(core, paused) == end
    assert hand.runner.names() == (["rollback:b", "rollback:a"] if back else [])


def test_an_answer_given_twice_with_one_key_is_one(core: Core, paused: str):
    """I6"""
    key = IdempotencyKey("k", f"/deploys/{paused}/resolve", "d")
    request = AnswerRequest(Answer.RETRY)
    for _ in range(2):
        shown = answer.answer(core.desk, paused, request, caller=ADMIN, key=key)
        assert shown["pass"] == 2
