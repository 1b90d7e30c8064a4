"""Who has to agree, whose word counts, and what becomes of a deploy by it."""

from datetime import timedelta

import pytest

from manent_server.domain import access
from manent_server.domain.access import Caller
from manent_server.domain.approval import Rule
from manent_server.domain.errors import (
    Conflict,
    Invalid,
    ManentError,
    NotAllowed,
    NotFound,
    Refused,
)
from manent_server.usecases import decide, explain, inbox, submit
from manent_server.usecases.requests import ApprovalFilter, Decision, DeployRequest
from tests.integration.core.approving import (
    ADMIN,
    ANN,
    BOB,
    EVE,
    JOE,
    ask,
    asked,
    kinds,
    list_people,
    person,
    program,
    request,
    resolve,
    say,
)
from tests.rig.core import Core, long_ago

HOUR = timedelta(hours=1)


def where(core: Core, deploy: str) -> tuple[str, str | None]:
    row = core.deploy(deploy)
    return row.state, row.outcome or row.phase


def test_a_deploy_waits_for_its_approval_and_goes_on_with_it(core: Core) -> None:
    """B72: what waits for people takes no place; their word opens the gate at once."""
    core.worker()
    ask(core)
    wanted = DeployRequest("shop", "staging", "1")
    deploy = str(submit.submit(core.desk, wanted, caller=ANN)["id"])
    assert where(core, deploy) == ("DELAYED", "resolving")
    resolve(core)
    assert where(core, deploy) == ("DELAYED", "awaiting_approval")
    assert core.slots() == []
    told = explain.explain(core.desk, deploy)
    assert told["gates"][0]["gate"] == "approval"
    assert told["gates"][0]["command"] == f"manent approve {deploy}"
    assert "1 more" in told["summary"]
    answer = say(core, deploy, BOB)
    assert (answer["message"], answer["state"], answer["approvers"]) == (
        "recorded",
        "approved",
        ["bob"],
    )
    assert where(core, deploy) == ("ENQUEUED", "dispatched")
    assert core.slots() == [deploy]
    assert kinds(core, deploy)[:4] == [
        "deploy.requested",
        "deploy.delayed",
        "approval.requested",
        "approval.decided",
    ]


def test_a_person_counts_once_whatever_way_they_come(core: Core) -> None:
    """B71: the same person again is told so, and is no second vote."""
    ask(core, Rule("release", quorum=2))
    deploy = request(core)
    say(core, deploy, person("alice", channel="api"))
    for again in (
        person("alice", channel="cli"),
        person("Alice", channel="page"),
        Caller("slack", access.everywhere("approver"), "person", login="ALICE", channel="slack"),
    ):
        answer = say(core, deploy, again)
        assert answer["message"] == "already recorded"
        assert answer["approvers"] == ["alice"]
    assert len(core.rows("votes")) == 1
    assert where(core, deploy) == ("DELAYED", "awaiting_approval")
    say(core, deploy, BOB)
    assert where(core, deploy)[0] == "ENQUEUED"


def test_one_rejection_is_final(core: Core) -> None:
    """B149: it ends CANCELLED/rejected, says by whom and why, and nothing is asked any more."""
    ask(core, Rule("release", quorum=2), Rule("law"))
    deploy = request(core)
    say(core, deploy, BOB, rule="release")
    mine = asked(core, deploy)[0]["id"]
    for silent in (None, " ", "\u200b\u2060"):
        with pytest.raises(Invalid, match="needs a comment"):
            decide.decide(core.desk, mine, Decision("reject", silent), caller=EVE)
    say(core, deploy, EVE, "reject", rule="law", comment="not on a friday")
    assert where(core, deploy) == ("CANCELLED", "rejected")
    assert core.deploy(deploy).error == {
        "code": "rejected",
        "message": "rejected by eve under rule law: not on a friday",
        "by": "eve",
        "comment": "not on a friday",
    }
    assert {row["rule"]: row["state"] for row in core.rows("approvals")} == {
        "release": "ended",
        "law": "rejected",
    }
    with pytest.raises(Conflict) as refused:
        say(core, deploy, JOE, rule="release")
    assert refused.value.code == "deploy_ended"


def test_a_decision_never_changes(core: Core) -> None:
    """I8: who has approved cannot reject, and is told what stops the deploy instead."""
    ask(core, Rule("release", quorum=2))
    deploy = request(core)
    say(core, deploy, BOB)
    with pytest.raises(Conflict) as refused:
        say(core, deploy, BOB, "reject")
    assert refused.value.code == "already_decided"
    assert "manent cancel" in refused.value.next
    assert where(core, deploy) == ("DELAYED", "awaiting_approval")


def test_whoever_has_to_do_with_it_has_no_say(core: Core) -> None:
    """The requester, the person a CI run acts for, and every author, by whatever name."""
    ask(core)
    list_people(core, eve={"handles": ["583231"]}, joe={"handles": ["U02ABC"]})
    changes = [{"id": "c1", "author": "583231", "at": "2027-01-01T00:00:00Z"}]
    ci = program("gh:1234", acts_for="bob")
    deploy = request(core, by=ci, changes=changes)
    cases = [
        (BOB, "acts for"),
        (EVE, "wrote one of its changes"),
        (Caller("gh:1234", ADMIN, "service"), "asked for it"),
    ]
    for voter, why in cases:
        with pytest.raises(NotAllowed, match=why) as refused:
            say(core, deploy, voter)
        assert refused.value.code == "not_eligible"
    assert core.rows("votes") == []
    say(core, deploy, JOE)
    own = request(core, "2", by=JOE_ADMIN)
    with pytest.raises(NotAllowed, match="joe asked for it"):
        say(core, own, JOE)


JOE_ADMIN = Caller("joe", ADMIN, "person")


def test_a_rule_names_whose_approval_counts(core: Core) -> None:
    """A quorum of a group, and one of a required group beside; programs only by name."""
    ask(core, Rule("release", quorum=2, members=("sre", "gatebot"), required=("boss",)))
    deploy = request(core)
    for stranger in (person("ned", "dev"), program("otherbot", "sre")):
        with pytest.raises(NotAllowed) as refused:
            say(core, deploy, stranger)
        assert refused.value.code == "not_eligible"
    say(core, deploy, BOB)
    answer = say(core, deploy, program("gatebot"))
    assert answer["missing"] == ["one of boss"]
    say(core, deploy, person("liz", "boss"))
    assert where(core, deploy)[0] == "ENQUEUED"


def test_the_program_of_a_person_is_not_that_person(core: Core) -> None:
    """Somebody is listed as whom it acts for; its word is still a program's."""
    known = {"groups": ["sre"], "handles": ["bobs-cron"]}
    ask(core)
    list_people(core, bob=known)
    deploy = request(core)
    cron = program("bobs-cron", login="bob")
    with pytest.raises(NotAllowed, match="bobs-cron is a program, which the rule does not name"):
        say(core, deploy, cron)
    shown = inbox.one(core.desk, asked(core, deploy)[0]["id"], caller=cron)
    assert shown["why_not"] == "is a program, which the rule does not name"
    say(core, deploy, BOB)
    assert where(core, deploy)[0] == "ENQUEUED"
    ask(core, Rule("release", members=("bobs-cron",)))
    list_people(core, bob=known)
    own = request(core, "2", by=Caller("bob", ADMIN, "person"))
    with pytest.raises(NotAllowed, match="is the program of one who asked for it"):
        say(core, own, cron)
    other = request(core, "3")
    assert say(core, other, cron)["approvers"] == ["bobs-cron"]


def test_the_boss_alone_is_no_quorum_of_others(core: Core) -> None:
    ask(core, Rule("release", quorum=1, members=("sre",), required=("boss",)))
    deploy = request(core)
    answer = say(core, deploy, person("liz", "boss"))
    assert answer["missing"] == ["1 more of sre"]
    say(core, deploy, person("ben", "sre", "boss"))
    assert where(core, deploy)[0] == "ENQUEUED"


def test_every_rule_has_to_be_met(core: Core) -> None:
    ask(core, Rule("release"), Rule("law", members=("law",)))
    deploy = request(core)
    say(core, deploy, BOB, rule="release")
    assert [one["rule"] for one in asked(core, deploy)] == ["law"]
    assert where(core, deploy)[0] == "DELAYED"
    say(core, deploy, person("liz", "law"), rule="law")
    assert where(core, deploy)[0] == "ENQUEUED"


def test_the_right_is_asked_for_and_what_is_not_seen_is_not_there(core: Core) -> None:
    """B80: the right to approve is enough; who lacks it is told so; who sees nothing finds none."""
    ask(core)
    deploy = request(core)
    approval = asked(core, deploy)[0]["id"]
    yes = Decision("approve")
    viewer = Caller("vic", access.everywhere("viewer"), "person")
    with pytest.raises(NotAllowed):
        decide.decide(core.desk, approval, yes, caller=viewer)
    shown = inbox.one(core.desk, approval, caller=viewer)
    assert (shown["may_decide"], shown["why_not"]) == (False, "lacks the right approve there")
    elsewhere = Caller("out", (access.Grant("approver", ("mail",)),), "person")
    with pytest.raises(NotFound):
        decide.decide(core.desk, approval, yes, caller=elsewhere)
    with pytest.raises(NotFound):
        inbox.one(core.desk, approval, caller=elsewhere)
    assert inbox.one(core.desk, approval[:8], caller=BOB)["may_decide"]
    hidden = approval[:6] + "f" * 14
    with core.store.write() as tx:
        row = {**core.rows("approvals")[0], "id": hidden, "application": "mail", "rule": "x"}
        tx.connection.execute(tx.tables.approvals.insert().values(**row))
    mine = Caller("bob", (access.Grant("approver", ("shop",)),), "person")
    assert inbox.one(core.desk, approval[:6], caller=mine)["id"] == approval, "it tells of no other"
    with pytest.raises(Invalid, match="several"):
        inbox.one(core.desk, approval[:6], caller=BOB)
    decide.decide(core.desk, approval, yes, caller=BOB)


def test_pages_hold_what_one_sees_and_end_with_it(core: Core) -> None:
    """Neither a short page nor a next one tells that others wait for more."""
    ask(core)
    mine = [asked(core, request(core, str(number)))[0]["id"] for number in range(5)]
    with core.store.write() as tx:
        for number, row in enumerate(core.rows("approvals")):
            for shift in (-1, 1):
                hidden = {
                    "id": f"{number:019d}{shift % 3}",
                    "application": "mail",
                    "asked_at": row["asked_at"] + shift * timedelta(microseconds=1),
                }
                tx.connection.execute(tx.tables.approvals.insert().values(**row | hidden))
    bob = Caller("bob", (access.Grant("approver", ("shop",), ("staging",)),), "person")
    found, before = [], None
    for _ in range(3):
        wanted = ApprovalFilter(limit=2, before=before)
        page = inbox.approvals_of(core.desk, wanted, caller=bob)
        found.append([one["id"] for one in page["items"]])
        before = page["next"]
    assert (found, before) == ([mine[:2:-1], mine[2:0:-1], mine[:1]], None)
    everything = inbox.approvals_of(core.desk, ApprovalFilter(limit=100), caller=ANN)["items"]
    assert len(everything) == 15


def test_an_emergency_passes_with_a_right_and_a_reason_and_has_no_approver(core: Core) -> None:
    """B82: who passed it and why is on record and told; nobody is named as an approver."""
    core.worker()
    ask(core)
    wanted = DeployRequest("shop", "staging", "1", override=("approval",))
    operator = Caller("opa", access.everywhere("operator"), "person")
    with pytest.raises(NotAllowed):
        submit.submit(core.desk, wanted, caller=operator)
    with pytest.raises(Invalid, match="reason"):
        submit.submit(core.desk, wanted, caller=ANN)
    urgent = DeployRequest("shop", "staging", "1", override=("approval",), reason="on fire")
    shown = submit.submit(core.desk, urgent, caller=ANN)
    assert where(core, shown["id"]) == ("ENQUEUED", "dispatched")
    assert shown["approval"] == {
        "stage": "bypassed",
        "digest": None,
        "rules": ["release"],
        "bypassed_by": "ann",
        "reason": "on fire",
    }
    told = [row for row in core.rows("events") if row["type"] == "approval.bypassed"]
    assert [(row["actor"], row["detail"]["reason"]) for row in told] == [("ann", "on fire")]
    assert core.rows("votes") == core.rows("approvals") == []


def test_no_vote_is_carried_to_another_deploy(core: Core) -> None:
    """B81: neither to another environment nor to the same version once more."""
    ask(core)
    ask(core, environment="production")
    first = request(core, "5")
    say(core, first, BOB)
    for other in (request(core, "5", environment="production"), request(core, "5")):
        assert where(core, other) == ("DELAYED", "awaiting_approval")
        assert asked(core, other)[0]["votes"] == []


def test_a_program_nobody_knows_is_refused_where_the_rule_says_so(core: Core) -> None:
    ask(core, Rule("release", unknown_requester="refuse"))
    with pytest.raises(Refused) as refused:
        request(core, by=program("ci"))
    assert refused.value.code == "requester_unknown"
    assert core.rows("deploys") == []
    assert request(core, by=program("ci", acts_for="bob"))


def test_the_waiting_ends_and_people_are_reminded_once(core: Core) -> None:
    """Time is the database's: half of it reminds, all of it ends the deploy."""
    ask(core)
    deploy = request(core)
    row = core.rows("approvals")[0]
    begun = core.at() - 13 * HOUR
    core.set_approval(row["id"], asked_at=begun, expires_at=begun + 24 * HOUR)
    core.set(deploy, approval_at=long_ago())
    core.admit()
    core.admit()
    assert kinds(core, deploy).count("approval.reminded") == 1
    assert core.deploy(deploy).approval_at == begun + 24 * HOUR
    core.set_approval(row["id"], expires_at=core.at() - HOUR)
    with pytest.raises(ManentError) as late:
        say(core, deploy, BOB)
    assert late.value.code == "approval_expired"
    core.set(deploy, approval_at=long_ago())
    core.admit()
    assert where(core, deploy) == ("CANCELLED", "expired")
    assert kinds(core, deploy)[-2:] == ["approval.expired", "deploy.ended"]


def test_one_that_is_to_start_later_is_approved_before(core: Core) -> None:
    core.worker()
    ask(core)
    later = core.at() + HOUR
    deploy = request(core, not_before=later)
    assert where(core, deploy) == ("DELAYED", "awaiting_approval")
    say(core, deploy, BOB)
    assert where(core, deploy) == ("DELAYED", "scheduled")
    # What was reached stays until the start, however long that takes.
    core.set_approval(core.rows("approvals")[0]["id"], expires_at=long_ago())
    core.set(deploy, not_before=core.at())
    core.admit()
    assert where(core, deploy) == ("ENQUEUED", "dispatched")
