"""What was approved is what starts, and only while those who approved may."""

import threading
from pathlib import Path
from typing import Any

import pytest

from manent_server.domain.access import Caller, Grant, everywhere
from manent_server.domain.approval import Rule
from manent_server.domain.errors import ManentError, NotAllowed, Refused
from manent_server.domain.rules import Rules
from manent_server.settings import ArtifactSource
from manent_server.sources.artifacts import ArtifactUnavailable
from manent_server.store import approvals, deploys, sessions, tokens
from manent_server.usecases import (
    cancel,
    decide,
    explain,
    promote,
    regate,
    rerun,
    roll_back,
    sign_in,
    submit,
)
from manent_server.usecases.requests import (
    CancelRequest,
    Decision,
    DeployRequest,
    IdempotencyKey,
    PromotionRequest,
    RegateRequest,
    RerunRequest,
    RollbackRequest,
)
from tests.integration.core.approving import (
    ANN,
    BOB,
    EVE,
    ask,
    asked,
    kinds,
    list_grants,
    list_people,
    person,
    program,
    request,
    resolve,
    say,
)
from tests.integration.core.crew import Hand
from tests.rig.core import Core, long_ago


@pytest.fixture
def hand(core: Core, tmp_path: Path) -> Hand:
    return Hand(core, tmp_path, core.worker())


def publish(core: Core, folder: Path, text: str) -> None:
    """Put another artifact where version 5 lies."""
    (folder / "shop-5.tar").write_text(text)
    artifact = ArtifactSource(url=f"file://{folder}/shop-{{version}}.tar", sha256=None)
    core.change_placement("shop", "staging", artifact=artifact)


def where(core: Core, deploy: str) -> tuple[str, str | None]:
    row = core.deploy(deploy)
    return row.state, row.outcome or row.phase


def test_another_artifact_than_approved_is_asked_about_again(
    core: Core, hand: Hand, tmp_path: Path
) -> None:
    """B76: its tag was pushed again: votes lapse, its place is free, it says what changed."""
    publish(core, tmp_path, "as approved")
    ask(core)
    deploy = request(core, "5", digest=hand.shop.artifacts.digest)
    say(core, deploy, BOB)
    (tmp_path / "shop-5.tar").write_text("pushed again")
    hand.run(deploy)
    assert where(core, deploy) == ("DELAYED", "awaiting_approval")
    assert (core.slots(), hand.runner.names(), core.steps(deploy)) == ([], [], {})
    told = explain.explain(core.desk, deploy)["summary"]
    assert "these have changed: artifact of web" in told
    digests = [row["digest"] for row in core.rows("approvals")]
    assert not any(digest in told for digest in digests)
    assert [one["state"] for one in asked(core, deploy, None)] == ["void", "waiting"]
    with pytest.raises(ManentError) as stale:
        decide.decide(
            core.desk, asked(core, deploy, "void")[0]["id"], Decision("approve"), caller=EVE
        )
    assert stale.value.code == "approval_void"
    assert stale.value.facts == {"approval": asked(core, deploy)[0]["id"]}
    core.admit()
    say(core, deploy, BOB)
    hand.run(deploy)
    assert where(core, deploy) == ("SUCCESS", "deployed")
    assert len(core.rows("votes")) == 2
    assert "approval.voided" in kinds(core, deploy)


def test_what_cannot_be_resolved_says_why_and_is_tried_again(core: Core, tmp_path: Path) -> None:
    publish(core, tmp_path, "there")
    ask(core)
    is_there: list[str] = []

    def digest(url: str, sha256: str | None) -> str:
        if not is_there:
            raise ArtifactUnavailable("the shelf is locked", next="wait")
        return "d" * 64

    deploy = request(core, "5", digest=digest)
    assert where(core, deploy) == ("DELAYED", "resolving")
    assert "the shelf is locked" in explain.explain(core.desk, deploy)["summary"]
    is_there.append("now")
    resolve(core, digest)
    assert where(core, deploy) == ("DELAYED", "resolving"), "not before its next try"
    core.set(deploy, approval_at=long_ago())
    resolve(core, digest)
    assert where(core, deploy) == ("DELAYED", "awaiting_approval")


def test_whoever_may_not_any_more_does_not_count_at_the_start(core: Core, hand: Hand) -> None:
    """Eligibility is looked at again in the transaction that starts the deploy."""
    ask(core, Rule("release", quorum=2, members=("sre",)))
    list_people(core, bob={"groups": ["sre"]}, eve={"groups": ["sre"]}, joe={"groups": ["sre"]})
    bob, eve, joe = (person(name, "sre") for name in ("bob", "eve", "joe"))
    deploy = request(core)
    say(core, deploy, bob)
    say(core, deploy, eve)
    assert where(core, deploy) == ("ENQUEUED", "dispatched")
    list_people(core, bob={"groups": ["sre"]}, joe={"groups": ["sre"]}, eve={})
    hand.run(deploy)
    assert where(core, deploy) == ("DELAYED", "awaiting_approval")
    assert core.slots() == []
    told = explain.explain(core.desk, deploy)["summary"]
    assert "1 more of sre" in told
    assert "the approval of eve counts no more" in told
    assert "approval.lapsed" in kinds(core, deploy)
    core.admit()
    say(core, deploy, joe)
    hand.run(deploy)
    assert where(core, deploy) == ("SUCCESS", "deployed")


def test_a_role_that_was_taken_away_takes_the_votes_along(core: Core, hand: Hand) -> None:
    """Where the rule names nobody, whoever may approve has a say: at the start still."""
    ask(core, Rule("release", quorum=1))
    principal = "oidc:https://idp.example#17"
    zoe = person(principal, "sre", session="s1")
    list_grants(core, sre=Grant("approver", ("shop",)))
    deploy = request(core)
    say(core, deploy, zoe)
    assert where(core, deploy) == ("ENQUEUED", "dispatched")
    list_grants(core, sre=Grant("approver", ("other",)))
    hand.run(deploy)
    assert where(core, deploy) == ("DELAYED", "awaiting_approval")
    told = explain.explain(core.desk, deploy)["summary"]
    assert f"the approval of {principal} counts no more: may not approve there any more" in told
    with pytest.raises(NotAllowed, match="counts no more"):
        say(core, deploy, zoe)
    list_grants(core, sre=Grant("approver"))
    [mine] = [row["id"] for row in core.rows("approvals") if row["state"] == "waiting"]
    with core.store.write() as tx:
        approvals.change(tx, [mine], expires_at=long_ago())
    say(core, deploy, person(principal, "sre", session="s2"))
    assert core.deploy(deploy).approval == "asked", "the time to decide is over"
    with core.store.write() as tx:
        approvals.change(tx, [mine], expires_at=None)
    core.admit()
    answer = say(core, deploy, person(principal, "sre", session="s2"))
    assert answer["message"] == "already recorded", "it counts again"
    assert len(core.rows("votes")) == 1
    hand.run(deploy)
    assert where(core, deploy) == ("SUCCESS", "deployed")


def test_a_sign_in_that_an_administrator_ended_takes_its_vote_along(core: Core) -> None:
    """Who signs out by themselves keeps what they have said."""
    ask(core, Rule("release", quorum=2))
    list_grants(core, sre=Grant("approver"))
    deploy = request(core)
    with core.store.write() as tx:
        for name in ("bob", "eve"):
            values = {
                "id": f"s-{name}",
                "hash": f"h-{name}",
                "proof": f"p-{name}",
                "source": "oidc:idp",
                "principal": name,
                "groups": [],
                "created_at": tx.now(),
                "expires_at": long_ago(),
            }
            sessions.insert(tx, values)
    say(core, deploy, person("bob", "sre", session="s-bob"))
    say(core, deploy, person("eve", "sre", session="s-eve"))
    with core.store.write() as tx:
        assert sessions.revoke(tx, "s-eve", at=tx.now())
    assert asked(core, deploy, None)[0]["approvers"] == ["bob", "eve"]
    sign_in.end(core.desk, "s-bob", caller=ANN)
    assert asked(core, deploy, None)[0]["approvers"] == ["eve"]
    with core.store.write() as tx:
        sessions.forget(tx, before=tx.now(), limit=9)
    assert [row["id"] for row in core.rows("sessions")] == ["s-bob"], "it is still known"
    assert asked(core, deploy, None)[0]["approvers"] == ["eve"]


def test_the_rules_of_today_are_taken_on_purpose_alone(core: Core) -> None:
    """What was frozen stays until `regate`; then whatever was said counts no more."""
    ask(core, Rule("release", quorum=1))
    deploy = request(core, not_before=core.at().replace(year=2099))
    ask(core, Rule("release", quorum=2))
    say(core, deploy, BOB)
    assert core.deploy(deploy).approval == "given"
    regate.regate(core.desk, deploy, RegateRequest("stricter now"), caller=ANN)
    assert where(core, deploy) == ("DELAYED", "resolving")
    resolve(core)
    assert asked(core, deploy)[0]["quorum"] == 2
    assert asked(core, deploy)[0]["votes"] == []
    say(core, deploy, BOB)
    assert core.deploy(deploy).approval == "asked"
    # The very rules of before are another question: nobody has said anything to it yet.
    for quorum in (1, 2):
        ask(core, Rule("release", quorum=quorum))
        regate.regate(core.desk, deploy, RegateRequest("as before"), caller=ANN)
        resolve(core)
        [again] = asked(core, deploy)
        assert (again["quorum"], again["votes"], again["approvers"]) == (quorum, [], [])


def test_who_wrote_a_version_is_known_when_its_approval_is_asked_for_later(core: Core) -> None:
    request(core, "7", environment="production", changes=written_by("bob"))
    deploy = request(core, "7", not_before=core.at().replace(year=2099))
    ask(core, Rule("release"))
    regate.regate(core.desk, deploy, RegateRequest("stricter now"), caller=ANN)
    resolve(core)
    with pytest.raises(NotAllowed, match="bob wrote one of its changes"):
        say(core, deploy, BOB)


def test_whoever_wrote_it_may_approve_the_way_back_to_it(core: Core, hand: Hand) -> None:
    """It ran before. That is so by the rules it came with, and by those of today."""
    for version in ("1", "2"):
        hand.run(core.submit(version=version, changes=written_by("bob")))
    core.change_environment("staging", rules=Rules(rollback_passes=()))
    wanted = RollbackRequest("shop", "staging", reason="bad")
    ask(core, Rule("release", quorum=2))
    back = str(roll_back.roll_back(core.desk, wanted, caller=ANN)["id"])
    for quorum in (2, 3):
        ask(core, Rule("release", quorum=quorum))
        regate.regate(core.desk, back, RegateRequest("as of today"), caller=ANN)
        resolve(core)
        say(core, back, BOB)


def test_the_rules_of_today_are_not_taken_for_a_program_nobody_knows(core: Core) -> None:
    """They could not tell who must not approve it; it waits on under the rules it came with."""
    ask(core, Rule("release", unknown_requester="allow"))
    deploy = request(core, by=program("ci"))
    known = request(core, "2", by=program("ci", acts_for="bob"))
    ask(core, Rule("release", quorum=2, unknown_requester="refuse"))
    with pytest.raises(Refused) as refused:
        regate.regate(core.desk, deploy, RegateRequest("stricter now"), caller=ANN)
    assert refused.value.code == "requester_unknown"
    assert [(one["quorum"], one["state"]) for one in asked(core, deploy, None)] == [(1, "waiting")]
    regate.regate(core.desk, known, RegateRequest("stricter now"), caller=ANN)
    assert where(core, known) == ("DELAYED", "resolving")


def test_every_way_to_a_deploy_waits_but_the_way_back(core: Core, hand: Hand) -> None:
    """B72: redeploy, promotion, rerun and schedule wait; a rollback passes, on record."""
    hand.run(core.submit(version="1", changes=written_by("bob")))
    hand.run(core.submit(version="2", changes=written_by("eve")))
    to_production = DeployRequest("shop", "production", "2", changes=written_by("eve"))
    there = str(submit.submit(core.desk, to_production, caller=ANN)["id"])
    hand.run(there)
    ask(core)
    ask(core, environment="production")
    scheduled = DeployRequest("shop", "staging", "2", origin="schedule")
    again = DeployRequest("shop", "staging", None, kind="redeploy")
    promotion = PromotionRequest("shop", "staging", "production")
    ways = [
        submit.submit(core.desk, scheduled, caller=ANN),
        submit.submit(core.desk, again, caller=ANN),
        promote.promote(core.desk, promotion, caller=ANN),
        rerun.rerun(core.desk, there, RerunRequest("prepare"), caller=ANN),
    ]
    assert [way["phase"] for way in ways] == ["resolving"] * 4
    resolve(core)
    for way in ways:
        with pytest.raises(NotAllowed, match="eve wrote one of its changes"):
            say(core, way["id"], EVE)
    emergency = RerunRequest("prepare", "it burns", ("approval",))
    with pytest.raises(NotAllowed, match="dev may not bypass"):
        rerun.rerun(core.desk, there, emergency, caller=Caller("dev", everywhere("operator")))
    back = roll_back.roll_back(
        core.desk, RollbackRequest("shop", "staging", reason="bad"), caller=ANN
    )
    hand.run(back["id"])
    assert where(core, back["id"]) == ("SUCCESS", "deployed")
    passed = [row["detail"] for row in core.rows("events") if row["type"] == "gate.passed"]
    assert [one["gate"] for one in passed if one["gate"] == "approval"] == ["approval"]
    cancel.cancel(core.desk, ways[1]["id"], CancelRequest(), caller=ANN)
    brought_back = submit.submit(core.desk, again, caller=ANN)
    resolve(core)
    with pytest.raises(NotAllowed, match="bob wrote one of its changes"):
        say(core, brought_back["id"], BOB)


def written_by(login: str) -> list[dict[str, str]]:
    return [{"id": "c1", "author": login, "at": "2027-01-01T00:00:00Z"}]


def test_twenty_at_once_have_one_effect(core: Core) -> None:
    """I8: approve and reject race on one gate; whoever was first is on record, alone."""
    ask(core)
    deploy = request(core)
    approval = asked(core, deploy)[0]["id"]
    start, answers = threading.Barrier(20), []

    def go(number: int) -> None:
        given = Decision("reject", "no") if number % 2 else Decision("approve")
        start.wait()
        try:
            decide.decide(core.desk, approval, given, caller=person(f"p{number}"))
            answers.append(given.decision)
        except ManentError as error:
            answers.append(error.code)

    threads = [threading.Thread(target=go, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    won = [one for one in answers if one in ("approve", "reject")]
    assert len(answers) == 20
    assert len(won) == 1, answers
    assert set(answers) - set(won) <= {"deploy_ended", "already_approved"}
    assert [row["decision"] for row in core.rows("votes")] == won
    row = core.deploy(deploy)
    assert (row.outcome == "rejected") == (won == ["reject"])
    assert (row.approval == "given") == (won == ["approve"])


def test_a_key_is_one_vote(core: Core) -> None:
    """Sent again with its key, also after the deploy has ended, it answers with the same."""
    ask(core)
    deploy = request(core)
    approval = asked(core, deploy)[0]["id"]
    key = IdempotencyKey("k", f"/api/v1/approvals/{approval}/decisions", "d")
    first = decide.decide(core.desk, approval, Decision("reject", "no"), caller=BOB, key=key)
    again = decide.decide(core.desk, approval, Decision("reject", "no"), caller=BOB, key=key)
    assert (first["message"], again["message"]) == ("recorded", "already recorded")
    assert first["state"] == again["state"] == "rejected"
    assert len(core.rows("votes")) == 1


def test_a_revoked_token_takes_its_vote_along(core: Core, hand: Hand) -> None:
    ask(core)
    deploy = request(core)
    with core.store.write() as tx:
        values: dict[str, Any] = {
            "name": "bob",
            "shown": "s",
            "role": "approver",
            "kind": "person",
            "applications": ["*"],
            "environments": ["*"],
            "created_by": "ann",
            "created_at": tx.now(),
        }
        for one in ("t1", "t2"):
            made = tx.tables.tokens.insert().values(**values, id=one, hash=one)
            tx.connection.execute(made)
    say(core, deploy, person("bob", session="t1"))
    with core.store.write() as tx:
        tokens.revoke(tx, "t1", at=tx.now())
    hand.run(deploy)
    assert where(core, deploy) == ("DELAYED", "awaiting_approval")
    assert "its token was revoked" in explain.explain(core.desk, deploy)["summary"]
    core.admit()
    say(core, deploy, person("bob", session="t2"))
    with core.store.read() as tx:
        assert deploys.read(tx, deploy).approval == "given"
