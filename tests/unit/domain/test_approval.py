"""Who counts, who does not, and what is missing."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manent_server.domain import approval, awaiting, gates
from manent_server.domain.approval import Person, Requester, Rule, Said, Subject, Vote, Voter
from manent_server.domain.awaiting import Ask, Content, Stage, Standing

AT = datetime(2027, 1, 1, tzinfo=UTC)
PEOPLE = {
    "ann": Person(frozenset({"sre"}), frozenset({"583231"})),
    "bob": Person(frozenset({"sre"})),
    "eve": Person(frozenset({"sre", "boss"}), frozenset({"@eve:example"})),
}
SUBJECT = Subject(Requester("ann", "ann"))
RULE = Rule("release", quorum=2, members=("sre", "gatebot"), required=("boss",))


def yes(login: str | None, principal: str = "p", **more: object) -> Vote:
    voter = Voter(principal, login, frozenset(more.pop("groups", ())))  # type: ignore[call-overload]
    return Vote(voter, Said.APPROVE, AT, **more)  # type: ignore[arg-type]


def judge(*votes: Vote, rule: Rule = RULE, subject: Subject = SUBJECT) -> approval.Verdict:
    return approval.judge(rule, votes, subject, PEOPLE)


def test_a_quorum_is_of_distinct_people_and_one_of_each_required_group():
    assert judge().missing == ("2 more of sre, gatebot", "one of boss")
    assert judge(yes("bob"), yes("BOB", "slack")).missing == (
        "1 more of sre, gatebot",
        "one of boss",
    )
    found = judge(yes("bob"), yes("eve"))
    assert (found.is_met, found.approvers) == (True, ("bob", "eve"))
    assert not judge(Vote(Voter("b", "bob"), Said.REJECT, AT), yes("eve")).is_met


def test_a_program_counts_where_the_rule_names_it():
    found = judge(yes(None, "gatebot"), yes("eve"))
    assert (found.is_met, found.approvers) == (True, ("gatebot", "eve"))
    found = judge(yes(None, "otherbot", groups=["sre"]), yes("eve"))
    assert found.lapsed == (("service:otherbot", "is a program, which the rule does not name"),)


@pytest.mark.parametrize(
    ("subject", "why"),
    [
        (Subject(Requester("x", "EVE")), "asked for it"),
        (Subject(Requester("ci", None, "eve")), "is who the program that asked for it acts for"),
        (Subject(Requester("ann", "ann"), ("@EVE:example",)), "wrote one of its changes"),
    ],
)
def test_whoever_has_to_do_with_it_does_not_count(subject: Subject, why: str):
    found = judge(yes("bob"), yes("eve"), subject=subject)
    assert (found.is_met, found.lapsed) == (False, (("eve", why),))


def test_groups_are_those_of_now():
    rule = Rule("r", members=("sre",))
    assert judge(yes("ned", groups=["sre"]), rule=rule).is_met
    assert judge(yes("ned"), rule=rule).lapsed == (("ned", "is in none of sre"),)
    assert judge(yes("ned"), rule=Rule("r", members=("ned",))).is_met
    assert judge(yes("ned"), rule=Rule("r")).is_met
    assert judge(yes("ned", void="its token was revoked"), rule=Rule("r")).lapsed == (
        ("ned", "its token was revoked"),
    )


@pytest.mark.parametrize(
    "spelling",
    ["Alice", " alice ", "\uff21lice", "al\u200bice", "\u202ealice", "ali\u00adce", "alice\u2060"],
)
def test_no_spelling_makes_somebody_else_of_an_author(spelling: str):
    """What shows nothing is no part of a name, wherever a commit has it."""
    subject = Subject(Requester("ci"), (spelling,))
    assert approval.why_not(Rule("r"), Voter("alice", "alice"), subject, {}) is not None


@given(st.text(max_size=8))
def test_a_spelling_of_a_spelling_is_itself(name: str):
    once = approval.person(name)
    assert approval.person(once) == once


def test_plain_names_are_spelled_as_all_others_are():
    """The short way and the long one, which a sign that shows nothing makes it take."""
    for number in range(128):
        name = f" {chr(number)}Ab{chr(number)} "
        assert approval.person(name) == approval.person(f"{name}\u200b"), number


def test_a_subject_of_oidc_is_one_spelling_alone():
    assert approval.person("oidc:https://i#Ab") != approval.person("oidc:https://i#aB")
    assert approval.person("Alice") == approval.person("alice")
    assert approval.meant("583231", PEOPLE) == {"583231", "ann"}
    assert approval.meant("nobody@example", PEOPLE) == {"nobody@example"}


def test_an_id_that_two_people_have_at_two_places_bars_both():
    """GitHub and GitLab count their users alike: nobody can say whose change it is."""
    people = {
        "amy": Person(handles=frozenset({"42", "gitlab:42"})),
        "zoe": Person(handles=frozenset({"42", "github:42"})),
    }
    rule = Rule("r")
    for author, barred in (("42", {"amy", "zoe"}), ("github:42", {"zoe"}), ("amy", {"amy"})):
        subject = Subject(Requester("ann", "ann"), (author,))
        found = approval.judge(rule, [yes("amy"), yes("zoe")], subject, people)
        assert {who for who, _ in found.lapsed} == barred


def test_many_changes_among_many_people_take_no_time():
    """Each person is looked at once, not once for each change and vote: a page has many of them."""
    people = {f"p{n}": Person(handles=frozenset({f"{n}", f"p{n}@example"})) for n in range(1000)}
    subject = Subject(Requester("ann", "ann"), tuple(f"p{n}@example" for n in range(500)))
    looked = [0]

    class Counted(dict[str, Person]):
        def items(self) -> Any:
            looked[0] += 1
            return super().items()

    votes = [yes(f"p{n}") for n in range(498, 502)]
    found = approval.judge(Rule("r", quorum=2), votes, subject, Counted(people))
    assert (found.approvers, len(found.lapsed)) == (("p500", "p501"), 2)
    assert looked[0] == 1


def test_the_program_of_somebody_who_has_no_say_has_none():
    """Neither its own word nor, as a program, theirs."""
    people = {"ann": Person(frozenset({"sre"}), frozenset({"gatebot"}))}
    rule = Rule("r", members=("gatebot",))
    mine = approval.judge(rule, [yes(None, "gatebot")], SUBJECT, people)
    assert mine.lapsed == (("service:gatebot", "is the program of one who asked for it"),)
    assert approval.judge(rule, [yes(None, "gatebot")], Subject(Requester("x", "x")), people).is_met


def test_nobody_behind_a_program_is_refused_where_a_rule_says_so():
    rules = [Rule("a"), Rule("b", unknown_requester=approval.REFUSE)]
    assert approval.unknown(rules, Requester("ci")) is rules[1]
    assert approval.unknown(rules[:1], Requester("ci")) is None
    for known in (Requester("a", "ann"), Requester("ci", None, "ann"), Requester("s", None, None)):
        is_known = known.login or known.acts_for
        assert bool(approval.unknown(rules, known)) is not bool(is_known)
    assert approval.unknown(rules, Requester("schedule:x", is_automatic=True)) is None


def test_rules_and_requesters_outlive_the_code():
    rules = (RULE, Rule("law", expires=timedelta(hours=1), chat=("team",)))
    assert approval.load(approval.dump(rules)) == rules
    assert approval.load(None) == ()
    asked = Requester("ci", None, "ann", is_automatic=True)
    assert approval.load_requester(approval.dump_requester(asked), "ci") == asked
    assert approval.load_requester(None, "ann") == Requester("ann", "ann")
    assert approval.shortest(rules) == timedelta(hours=1)
    assert approval.shortest([RULE]) is None


def asks(*votes: Vote) -> tuple[Ask, ...]:
    return (Ask("a1", RULE, AT, AT + timedelta(hours=2), judge(*votes)),)


def test_the_gate_says_who_may_what_is_missing_and_how_to_open_it():
    standing = Standing(Stage.ASKED, AT, asks(yes("bob"), yes("ann")), AT, changed=("version",))
    (gate,) = gates.unapproved(standing, "d1")
    assert (gate.phase, gate.opens_at, gate.look_at) == ("awaiting_approval", None, AT)
    assert (gate.command, gate.opened_by) == ("manent approve d1", "sre, gatebot, boss")
    for words in ("changed: version", "1 more of sre", "approved by bob", "ann counts no more"):
        assert words in gate.detail
    (gate,) = gates.unapproved(Standing(Stage.RESOLVING, trouble="no shelf"), "d1")
    assert (gate.phase, gate.command) == ("resolving", None)
    assert gate.detail == "what is to be approved is being resolved: no shelf"
    assert gates.unapproved(Standing(Stage.GIVEN), "d1") == gates.unapproved(None, "d1") == ()
    assert awaiting.detail(Standing(Stage.ASKED)) == "waits for approval"
    assert approval.told(RULE) == "release: 2 of sre, gatebot, and one of boss"
    assert approval.told(Rule("r")) == "r: 1"
    assert approval.may(Rule("r")) == "whoever has the right approve there"
    assert awaiting.is_met(asks(yes("bob"), yes("eve")))


def test_only_what_waits_for_people_has_an_alarm():
    assert awaiting.standing(None, AT) is None
    assert awaiting.standing("asked", AT) == Standing(Stage.ASKED, AT)
    assert awaiting.standing("resolving", AT) == Standing(Stage.RESOLVING)
    assert awaiting.reminder(AT, None) is None
    assert awaiting.reminder(AT, AT + timedelta(hours=2)) == AT + timedelta(hours=1)


def test_whoever_waits_for_nothing_waits_for_people():
    """`if_blocked: refuse` refuses every closed gate but an approval."""
    found = gates.unapproved(Standing(Stage.ASKED), "d1")
    assert gates.refusing(found, if_blocked="refuse") == ()
    assert gates.looks_at(found) is None


def test_what_differs_is_named_and_its_value_is_not():
    before = Content("shop", "prod", "deploy", "1", "o", {"a": {"sha256": "x"}}, {"k": "1"})
    after = Content("shop", "prod", "deploy", "2", "o", {"a": {"sha256": "y"}}, {"l": "1"})
    found = awaiting.differences(awaiting.body(before), awaiting.body(after))
    assert found == ("version", "artifact of a", "configuration k", "configuration l")
    assert awaiting.differences(awaiting.body(after), awaiting.body(after)) == ()
