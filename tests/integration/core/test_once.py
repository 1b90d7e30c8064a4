"""Hooks that must not run twice: after an interruption the target is asked, then a person."""

from datetime import timedelta
from pathlib import Path

import pytest

from manent_server.domain.errors import Conflict
from manent_server.domain.question import Answer
from manent_server.plugins.host import Host, Plugin
from manent_server.plugins.runner import HookEnd
from manent_server.usecases import answer, cancel, explain
from manent_server.usecases.requests import AnswerRequest, CancelRequest
from tests.integration.core.crew import Hand, ended, good_before, inventory, log, place
from tests.integration.core.test_deaths import die
from tests.rig.core import ADMIN, HOOKS, Core
from tests.rig.fake_runner import BAD, Crashed
from tests.rig.process import until

SEES = frozenset({"observe"})


def told(*, in_place: bool | None) -> HookEnd:
    return HookEnd(result="succeeded", outputs={"version": None, "in_place": in_place})


YES, NO, UNTOLD = told(in_place=True), told(in_place=False), told(in_place=None)


def offer(core: Core, hooks: frozenset[str]) -> None:
    """The plugin's effects must happen once."""
    host = Host({"fake": Plugin("fake", "1", hooks, "once")}, {})
    object.__setattr__(core.desk, "host", host)


@pytest.fixture
def hand(core: Core, tmp_path: Path) -> Hand:
    offer(core, HOOKS | SEES)
    place(core, (("a",), ("b",)))
    return Hand(core, tmp_path, core.worker())


def say(core: Core, deploy: str, said: str, **more: object) -> None:
    request = AnswerRequest(Answer(said), **more)  # type: ignore[arg-type]
    answer.answer(core.desk, deploy, request, caller=ADMIN)


def test_what_the_target_says_is_in_place_is_done(core: Core, hand: Hand):
    deploy = core.submit(version="1")
    again = die(hand, deploy)
    again.runner.ends["observe:a"] = [YES]
    assert again.run(deploy) is None
    assert ended(core, deploy) == ("SUCCESS", "deployed")
    assert again.runner.names() == ["observe:a", "verify:a", "deploy:b", "verify:b"]
    assert again.runner.ran[0].context["version"] == "1"
    shown = [(a.step, a.hook, a.attempt, a.result) for a in core.attempts(deploy)][:2]
    assert shown == [
        ("deploy:a", "deploy", 1, "interrupted"),
        ("deploy:a", "observe", 2, "succeeded"),
    ]
    assert inventory(core)["a"] == ("known", "1")
    assert "observed after an interruption: 1 is in place" in log(core, deploy)


def test_what_is_not_in_place_runs_again(core: Core, hand: Hand):
    deploy = core.submit()
    again = die(hand, deploy)
    again.runner.ends["observe:a"] = [NO]
    assert again.run(deploy) is None
    assert ended(core, deploy) == ("SUCCESS", "deployed")
    assert again.runner.names()[:3] == ["observe:a", "deploy:a", "verify:a"]
    assert core.steps(deploy)["deploy:a"].failures == 0


def test_an_interrupted_observation_is_made_again(core: Core, hand: Hand):
    deploy = core.submit()
    second = die(hand, deploy)
    third = die(second, deploy, "observe:a")
    third.runner.ends["observe:a"] = [NO]
    assert third.run(deploy) is None
    assert third.runner.names()[:2] == ["observe:a", "deploy:a"]


def test_a_drain_asks_as_well(core: Core, hand: Hand):
    deploy = core.submit()
    hand.runner.held.add("deploy:a")
    trip = hand.begin(deploy)
    hand.runner.await_running("deploy:a")
    hand.cut()
    trip.join()
    again = hand.restart()
    again.runner.ends["observe:a"] = [YES]
    assert again.run(deploy) is None
    assert "deploy:a" not in again.runner.names()


def test_what_failed_by_its_own_word_is_tried_without_asking(core: Core, hand: Hand):
    hand.runner.ends["deploy:a"] = [HookEnd(result="failed", error={"code": "x", "message": "x"})]
    assert hand.run(core.submit()) is None
    assert hand.runner.names()[:2] == ["deploy:a", "deploy:a"]


def test_a_time_limit_leaves_it_unsure(core: Core, hand: Hand):
    late = HookEnd(result="timed_out", error={"code": "timeout", "message": "too long"})
    hand.runner.ends["deploy:a"] = [late]
    hand.runner.ends["observe:a"] = [YES]
    assert hand.run(core.submit()) is None
    assert hand.runner.names()[:3] == ["deploy:a", "observe:a", "verify:a"]


UNSURE = {
    "null": [UNTOLD],
    "error": [BAD],
    "nothing": [HookEnd(result="succeeded")],
}


@pytest.fixture(params=[*UNSURE, "no observe"])
def unknown(request: pytest.FixtureRequest, core: Core, hand: Hand) -> tuple[Hand, str]:
    """A deploy that asks a person."""
    if request.param == "no observe":
        offer(core, HOOKS)
    good_before(core, hand)
    deploy = core.submit(version="1")
    again = die(hand, deploy)
    again.runner.ends["observe:a"] = list(UNSURE.get(request.param, []))
    assert again.run(deploy) is None
    row = core.deploy(deploy)
    assert (row.state, row.phase, row.executor) == ("PENDING", "unknown", None)
    again.runner.ran.clear()
    return again, deploy


def test_unsure_it_waits_for_a_person(core: Core, unknown: tuple[Hand, str]):
    """I5: the place is kept, nothing wakes it, others go on, explain says what to do."""
    hand, deploy = unknown
    assert core.slots() == [deploy]
    assert core.rows("wakes") == []
    assert core.reconciler().findings() == []
    told = explain.explain(core.desk, deploy)
    assert "deploy:a was cut short and must not run twice" in told["summary"]
    (gate,) = told["gates"]
    assert gate["command"] == f"manent resolve {deploy} --succeeded|--failed|--retry"
    core.change_environment("staging", concurrency=2)
    assert hand.run(core.submit("mail")) is None
    assert core.deploy(core.submit("shop", version="2")).phase == "queued"


@pytest.mark.parametrize("unknown", ["null"], indirect=True)
@pytest.mark.parametrize(
    ("said", "ran", "end"),
    [
        ("succeeded", ["verify:a", "deploy:b", "verify:b"], ("SUCCESS", "deployed")),
        ("retry", ["deploy:a", "verify:a", "deploy:b", "verify:b"], ("SUCCESS", "deployed")),
        ("failed", ["rollback:a"], ("ERROR", "rolled_back")),
    ],
)
def test_the_answer_decides(
    core: Core, unknown: tuple[Hand, str], said: str, ran: list[str], end: tuple[str, str]
):
    hand, deploy = unknown
    say(core, deploy, said, reason="looked")
    assert core.deploy(deploy).state == "PENDING"
    assert hand.run(deploy) is None
    assert ended(core, deploy) == end
    assert hand.runner.names() == ran
    deeds = [row for row in core.rows("audit") if row["action"] == "deploy.answered"]
    assert [(d["actor"], d["detail"]["answer"], d["detail"]["reason"]) for d in deeds] == [
        ("ann", said, "looked")
    ]
    assert bool(core.rows("marks")) == (said == "failed")
    assert core.attempts(deploy)[0].resolved is None
    assert core.attempts(deploy)[1].resolved == said


@pytest.mark.parametrize("unknown", ["null"], indirect=True)
def test_it_is_answered_once(core: Core, unknown: tuple[Hand, str]):
    hand, deploy = unknown
    say(core, deploy, "retry")
    with pytest.raises(Conflict, match="ann has answered already: retry") as caught:
        say(core, deploy, "failed")
    assert caught.value.code == "already_answered"
    assert hand.run(deploy) is None
    with pytest.raises(Conflict, match="has ended"):
        say(core, deploy, "failed")


@pytest.mark.parametrize("unknown", ["null"], indirect=True)
def test_a_rerun_that_is_cut_short_is_asked_about_again(core: Core, unknown: tuple[Hand, str]):
    hand, deploy = unknown
    say(core, deploy, "retry")
    again = die(hand, deploy)
    again.runner.ends["observe:a"] = [UNTOLD]
    assert again.run(deploy) is None
    assert core.deploy(deploy).phase == "unknown"


@pytest.mark.parametrize("unknown", ["null"], indirect=True)
def test_the_deadline_does_not_run_meanwhile(core: Core, unknown: tuple[Hand, str]):
    hand, deploy = unknown
    row = core.deploy(deploy)
    question = dict(row.question or {})
    asked_at = core.at() - timedelta(hours=5)
    question["asked_at"] = asked_at.isoformat()
    core.set(deploy, question=question, deadline_at=asked_at + timedelta(minutes=1))
    say(core, deploy, "succeeded")
    later = core.deploy(deploy).deadline_at
    assert later is not None
    assert timedelta(0) < later - core.at() <= timedelta(minutes=1)
    assert hand.run(deploy) is None
    assert ended(core, deploy) == ("SUCCESS", "deployed")


@pytest.mark.parametrize("unknown", ["null"], indirect=True)
def test_it_can_be_cancelled(core: Core, unknown: tuple[Hand, str]):
    _, deploy = unknown
    cancel.cancel(core.desk, deploy, CancelRequest(), caller=ADMIN)
    assert ended(core, deploy) == ("CANCELLED", "cancelled")
    assert inventory(core)["a"] == ("unknown", None)
    assert core.slots() == []


def test_targets_cut_short_side_by_side_are_one_question(core: Core, hand: Hand):
    place(core, (("a", "b"),))
    deploy = core.submit()
    hand.runner.held |= {"deploy:a", "deploy:b"}
    trip = hand.begin(deploy)
    hand.runner.await_running("deploy:a", "deploy:b")
    hand.crash()
    assert trip.join() is Crashed
    again = hand.restart()
    again.runner.ends |= {"observe:a": [UNTOLD], "observe:b": [UNTOLD]}
    assert again.run(deploy) is None
    question = core.deploy(deploy).open_question
    assert question is not None
    assert question.steps == ("deploy:a", "deploy:b")
    say(core, deploy, "succeeded", target="b")
    assert core.deploy(deploy).phase == "unknown"
    say(core, deploy, "retry")
    again.runner.ran.clear()
    assert again.run(deploy) is None
    assert ended(core, deploy) == ("SUCCESS", "deployed")
    assert sorted(again.runner.names()) == ["deploy:a", "verify:a", "verify:b"]


def test_a_pass_that_a_person_opened_does_not_forget_what_was_cut_short(core: Core, hand: Hand):
    place(core, (("a", "b"),))
    core.change_environment("staging", on_exhausted="pause")
    hand.runner.ends["deploy:b"] = [BAD]
    hand.runner.held.add("deploy:a")
    deploy = core.submit(version="1")
    trip = hand.begin(deploy)
    hand.runner.await_running("deploy:a")
    until(lambda: core.steps(deploy)["deploy:b"].ended_at, what="the failure beside it")
    hand.crash()
    assert trip.join() is Crashed
    again = hand.restart()
    assert again.run(deploy) is None
    assert core.deploy(deploy).phase == "paused"
    say(core, deploy, "retry")
    again.runner.ends["observe:a"] = [YES]
    assert again.run(deploy) is None
    assert ended(core, deploy) == ("SUCCESS", "deployed")
    assert sorted(again.runner.names()) == ["deploy:b", "observe:a", "verify:a", "verify:b"]


def test_a_rollback_that_must_not_run_twice_is_asked_about(core: Core, hand: Hand):
    good_before(core, hand)
    hand.runner.ends["verify:a"] = [BAD]
    deploy = core.submit(version="1")
    again = die(hand, deploy, "rollback:a")
    again.runner.ends["observe:a"] = [UNTOLD]
    assert again.run(deploy) is None
    assert core.deploy(deploy).phase == "unknown"
    say(core, deploy, "succeeded")
    assert again.run(deploy) is None
    assert ended(core, deploy) == ("ERROR", "rolled_back")
    assert inventory(core)["a"] == ("known", "0")
