"""Histories of people who decide: each way to lose or to get around a word of theirs is seen."""

from collections.abc import Callable

import pytest

from tests.chaos import checkers, people
from tests.chaos.build import Story, good
from tests.chaos.clients import calm_end, plan
from tests.chaos.history import Call, Fault
from tests.chaos.stage import GATED, GATES

Spoil = Callable[[Story], None]


def say(story: Story, who: str, at: float, status: int = 200, word: str = "approve") -> None:
    about = {"approval": "a", "by": who, "decision": word}
    call = Call(0, who, "decide", at, at + 0.1, status, key=f"{who} {word}", about=about)
    story.history.calls.append(call)


def read(story: Story, at: float, **shown: str) -> None:
    answer = {"shown": {"a": shown}}
    story.history.calls.append(Call(0, "ann", "approvals", at, at + 0.1, 200, answer=answer))


def approved(*voters: str, kind: str = "deploy") -> Story:
    """The good history whose second deploy needs two in its environment."""
    story = good()
    story.history.settings["gates"] = {"prod": 2}
    for change in story.history.changes:
        if change.table == "deploys":
            row = dict(change.row)
            more = {"approval": "given", "approval_digest": "d", "kind": kind}
            is_acting = row["state"] != "ENQUEUED"
            more |= {"handed_out_at": change.at} if is_acting else {}
            object.__setattr__(change, "row", row | more)
    rows, story.history.changes = story.history.changes, []
    for deploy, approval in (("one", "b"), ("two", "a")):
        story.row("approvals", 0.0, id=approval, deploy=deploy, rule="r", digest="d",
                  state="approved", body={"quorum": 2})  # fmt: skip
        for who in voters if approval == "a" else ("bob", "eve"):
            vote(story, who, 0.0, approval)
    story.history.changes += rows
    return story


def vote(story: Story, who: str, at: float, approval: str = "a") -> None:
    story.row("votes", at, id=f"{approval}-{who}", approval=approval, identity=who,
              decision="approve", comment=None, digest="d")  # fmt: skip


def complaints(story: Story) -> set[str]:
    return {violation.invariant for violation in checkers.check(story.history)}


def test_what_two_have_approved_is_well() -> None:
    story = approved("bob", "eve")
    read(story, 1.0)
    say(story, "bob", 2.0)
    read(story, 3.0, bob="approve")
    say(story, "bob", 4.0)
    say(story, "bob", 5.0, 409, "reject")
    say(story, "eve", 6.0, 503)
    say(story, "eve", 6.5)
    read(story, 7.0, bob="approve", eve="approve")
    assert checkers.check(story.history) == []


def test_a_rollback_to_what_was_there_needs_nobody() -> None:
    assert "I9" not in complaints(approved(kind="rollback"))


def run_with_one() -> Story:
    return approved("bob")


def run_before_the_second() -> Story:
    story = approved("bob")
    vote(story, "eve", 12.5)
    return story


def run_without_being_asked() -> Story:
    story = approved("bob", "eve")
    story.history.changes = [c for c in story.history.changes if c.table != "approvals"]
    for change in story.history.of("deploys"):
        object.__setattr__(change, "row", {**change.row, "approval": None})
    return story


@pytest.mark.parametrize("made", [run_with_one, run_before_the_second, run_without_being_asked])
def test_what_runs_without_its_quorum_is_seen(made: Callable[[], Story]) -> None:
    """I9: by the rows of the database, and by the ledger of hooks alone."""
    story = made()
    assert "I9" in complaints(story)
    by_ledger = [one for one in checkers.check(story.history) if "agreed" in str(one)]
    assert by_ledger


def read_without_it(story: Story) -> None:
    say(story, "bob", 2.0)
    read(story, 3.0)


def read_otherwise(story: Story) -> None:
    say(story, "bob", 2.0)
    read(story, 3.0, bob="reject")


def gone_from_a_later_reading(story: Story) -> None:
    read(story, 2.0, eve="approve")
    read(story, 3.0)


def refused_when_repeated(story: Story) -> None:
    say(story, "bob", 2.0)
    say(story, "bob", 3.0, 409)


def both_words_taken(story: Story) -> None:
    say(story, "bob", 2.0)
    say(story, "bob", 3.0, word="reject")


@pytest.mark.parametrize(
    "spoil",
    [
        read_without_it,
        read_otherwise,
        gone_from_a_later_reading,
        refused_when_repeated,
        both_words_taken,
    ],
    ids=lambda spoil: spoil.__name__,
)
def test_a_decision_that_does_not_stay_is_seen(spoil: Spoil) -> None:
    """I8: in what is answered and read later."""
    story = approved("bob", "eve")
    spoil(story)
    assert complaints(story) == {"I8"}


def test_a_reading_that_began_before_the_answer_may_lack_it() -> None:
    story = approved("bob", "eve")
    say(story, "bob", 2.0)
    read(story, 2.05)
    assert complaints(story) == set()


def test_decisions_are_counted_once_and_those_amid_faults_apart() -> None:
    story = approved("bob", "eve")
    story.history.faults = [Fault("kill", 1.0, "w1"), Fault("cut", 30.0, "w1", until=40.0)]
    for at in (2.0, 3.0):
        say(story, "bob", at)
    say(story, "eve", 20.0)
    say(story, "joe", 25.0, 503)
    say(story, "joe", 47.0)
    assert len(people.decisions(story.history)) == 3
    # Joe began to ask before the second fault, and was answered after it.
    assert people.amid_faults(story.history) == 2


def test_a_seed_gives_the_same_words_and_a_rejection_never_meets_a_quorum() -> None:
    nonces = [f"dog-{number}" for number in range(200)]
    said = [people.words(7, nonce) for nonce in nonces]
    assert said == [people.words(7, nonce) for nonce in nonces]
    against = [one for one in said if "reject" in one.values()]
    assert 20 < len(against) < 60
    for one in said:
        agree = list(one.values()).count("approve")
        assert agree < GATES[GATED] if one in against else agree >= GATES[GATED]


def test_what_will_be_rejected_ends_badly_without_faults() -> None:
    acts = plan(7, "dog", 200, (GATED, "stage"))
    assert {act.environment for act in acts if act.is_rejected} == {GATED}
    assert {calm_end(act) for act in acts if act.is_rejected} == {"badly"}
    assert any(calm_end(act) == "well" for act in acts if act.environment == GATED)
