"""Whose word comes from a chat, and for how long: sign-ins, links, what the chat was shown."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from manent_server.domain.access import Caller, Grant
from manent_server.domain.errors import NotSignedIn, Unavailable
from manent_server.settings.values import Access, Person, Provider, Trust
from manent_server.store import sessions
from manent_server.usecases import hear, link, sign_in, tokens, whose
from manent_server.usecases.requests import TokenRequest
from manent_server.usecases.whose import Account
from tests.integration.core.approving import ANN, ask, asked, list_grants, request
from tests.integration.core.chatting import RULE, SECRETS, Lounge, text_of
from tests.rig import chats
from tests.rig.core import ADMIN


def test_a_revoked_token_takes_its_rights_with_it(room: Lounge):
    bob = room.introduce("bob", "slack", "U1")
    tokens.revoke(room.core.desk, str(bob.session), caller=ADMIN)
    room.press(room.button())
    assert room.core.rows("votes") == []
    told = room.servers["slack"].called("chat.postEphemeral")[-1].body["text"]
    assert "manent does not know who you are" in told


def test_what_was_linked_with_a_stolen_token_goes_with_it(room: Lounge):
    """Whoever stole ann's token and linked an account of theirs is not ann when she has another."""
    eve = room.introduce("eve", "slack", "U666")
    room.token("eve")
    ended = tokens.revoke(room.core.desk, str(eve.session), caller=ADMIN)
    assert ended["revoked_at"] is not None
    room.press(room.button(), "U666")
    assert room.core.rows("votes") == []
    assert [one["account"] for one in room.audit("chat.unlinked")] == ["U666"]
    code = link.give(room.core.store, "slack", "U666")
    with pytest.raises(NotSignedIn, match="just ended"):
        link.link(room.core.desk, code, caller=eve)
    assert [row["linked_at"] for row in room.core.rows("chat_links")] == [None]


def test_a_vote_from_a_chat_goes_with_the_sign_in_it_rests_on(room: Lounge):
    """It counts no more, and the person may vote again with another."""
    bob = room.introduce("bob", "slack", "U1")
    room.introduce("eve", "ops", "u9")
    room.press(room.button())
    tokens.revoke(room.core.desk, str(bob.session), caller=ADMIN)
    room.knock("ops", chats.mattermost_press(room.seal(), room.now, "u9"))
    [deploy] = room.core.rows("deploys")
    assert deploy["state"] == "DELAYED", "one of the two votes is void"
    room.people.clear()
    room.introduce("bob", "slack", "U1")
    room.press(room.button())
    assert len(room.core.rows("votes")) == 3
    assert room.core.deploy(deploy["id"]).approval == "given"


def test_a_vote_from_a_chat_goes_with_the_role_of_its_groups(room: Lounge):
    """It rests on what a sign-in at a provider gives, which is named after the person there."""
    people = {"alice": Person(groups=(), principals=("oidc:https://idp#1",), ids={"slack": "U1"})}
    provider = Provider(issuer="https://idp", client_id="manent", groups_claim="groups")
    roles = {"sre": (Grant("approver"),)}
    room.core.configure(access=Access(people=people, roles=roles, oidc={"idp": provider}))
    list_grants(room.core, sre=Grant("approver"))
    with room.core.store.write() as tx:
        ends = {"created_at": tx.now(), "expires_at": tx.now() + timedelta(hours=1)}
        made = {"id": "s1", "hash": "h", "proof": "p", "source": "oidc:idp", "groups": ["sre"]}
        sessions.insert(tx, made | ends | {"principal": "oidc:https://idp#1"})
    room.press(room.button(), "U1")
    [deploy] = room.core.rows("deploys")
    assert asked(room.core, deploy["id"], None)[0]["approvers"] == ["alice"]
    list_grants(room.core, sre=Grant("viewer"))
    assert asked(room.core, deploy["id"], None)[0]["approvers"] == []


def with_sign_ins(room: Lounge, **sources: str) -> None:
    """Alice, by Slack's U1, with a sign-in of each source: the later named the newer."""
    people = {
        "alice": Person(
            groups=(),
            principals=("oidc:https://idp#1", "trust:ci#5", "alice-bot"),
            ids={"slack": "U1"},
        )
    }
    provider = Provider(issuer="https://idp", client_id="manent", groups_claim="groups")
    trust = Trust(
        issuer="https://idp",
        audience="a",
        claims={"x": ("1",)},
        role="approver",
        applications=("*",),
        environments=("*",),
    )
    roles = {"sre": (Grant("approver"),)}
    access = Access(people=people, roles=roles, oidc={"idp": provider}, trust={"ci": trust})
    room.core.configure(access=access)
    with room.core.store.write() as tx:
        for number, (name, source) in enumerate(sources.items()):
            principal = "trust:ci#5" if source.startswith("trust:") else "oidc:https://idp#1"
            made = {"id": name, "hash": f"h{name}", "proof": f"p{name}", "source": source}
            at = tx.now() + timedelta(seconds=number)
            ends = {"created_at": at, "expires_at": at + timedelta(hours=1)}
            sessions.insert(tx, made | ends | {"principal": principal, "groups": ["sre"]})


def may_approve(room: Lounge) -> bool:
    found = whose.caller(room.core.desk, Account("slack", "slack", "U1"))
    return found is not None and found.may("approve")


def test_nothing_but_a_sign_in_of_the_person_gives_rights_in_a_chat(room: Lounge):
    """Neither a job nor a token of their programs, though these have their name."""
    with_sign_ins(room, job="trust:ci")
    request = TokenRequest("alice-bot", "approver", kind="service")
    tokens.create(room.core.desk, request, caller=ADMIN)
    assert not may_approve(room)
    with_sign_ins(room, person="oidc:idp", newer="trust:ci")
    assert may_approve(room), "the newest of the person counts, whatever its jobs do"
    sign_in.end(room.core.desk, "person", caller=ADMIN)
    assert not may_approve(room)


def test_what_was_linked_with_a_sign_in_goes_with_it(room: Lounge):
    """As with a token: an administrator ends it, and the account is nobody's any more."""
    with_sign_ins(room, person="oidc:idp")
    eve = Caller("oidc:https://idp#1", (), "person", session="person")
    code = link.give(room.core.store, "slack", "U666")
    link.link(room.core.desk, code, caller=eve)
    sign_in.end(room.core.desk, "person", caller=ADMIN)
    assert [one["account"] for one in room.audit("chat.unlinked")] == ["U666"]
    assert whose.caller(room.core.desk, Account("slack", "slack", "U666")) is None


def test_a_vote_rests_on_the_sign_in_that_gives_the_right(room: Lounge):
    room.token("bob", "viewer")
    room.introduce("bob", "slack", "U1")
    room.press(room.button())
    [deploy] = room.core.rows("deploys")
    assert asked(room.core, deploy["id"], None)[0]["approvers"] == ["bob"]


def test_a_name_taken_from_a_person_leaves_with_what_it_had_linked(room: Lounge):
    """Else the account would have two identities: its own, and by what it may the person's."""
    people = {"alice": Person(groups=(), principals=("alice-laptop", "alice"), ids={})}
    room.core.configure(access=Access(people=people))
    room.introduce("alice-laptop", "slack", "U1", role="viewer")
    room.token("alice", "approver")
    found = whose.caller(room.core.desk, Account("slack", "slack", "U1"))
    assert (found.login, found.may("approve")) == ("alice", True)
    people = {"alice": replace(people["alice"], principals=("alice",))}
    room.core.configure(access=Access(people=people))
    found = whose.caller(room.core.desk, Account("slack", "slack", "U1"))
    assert (found.login, found.may("approve")) == ("alice-laptop", False)


def test_a_bridge_decides_only_what_it_was_shown(room: Lounge):
    """Neither another content under the same id, nor what is asked in other chats."""
    room.introduce("bob", "bridge", "bob@example")
    [told] = room.servers["bridge"].messages.values()
    ballot = {key: told["approvals"][0][key] for key in ("approval", "digest")}
    said = {**ballot, "decision": "approve", "user": "bob@example"}
    before = room.state()

    def send(**more: str) -> Any:
        return room.knock("bridge", chats.generic_knock(said | more, room.now)).json()["message"]

    assert "not what is asked" in send(digest="0" * 64)
    assert "there is no approval" in send(approval=ballot["approval"][:8])
    ask(room.core, replace(RULE, chat=("slack",)))
    elsewhere = request(room.core, "3", by=ANN)
    [other] = asked(room.core, elsewhere)
    assert "does not ask in chat bridge" in send(approval=other["id"], digest=other["digest"])
    assert room.core.rows("votes") == []
    assert room.state()[0] == before[0]
    far = room.token("far", "approver", applications=("other",))
    code = link.give(room.core.store, "bridge", "far@example")
    link.link(room.core.desk, code, caller=far)
    assert "there is no approval" in send(user="far@example", digest="0" * 64)
    for hidden in ("bob@example\x00", "bob@example\u202e", "\ud800"):
        knock = chats.generic_knock(said | {"user": hidden}, room.now)
        assert room.knock("bridge", knock).status_code == 401


def test_who_is_listed_needs_no_link(room: Lounge):
    """`access.people` says whose account it is, and their groups what they may."""
    people = {
        "alice": Person(groups=("sre",), principals=(), ids={"slack": "U1", "mattermost": "u1"}),
        "carl": Person(groups=(), principals=("carl-laptop",), ids={"slack": "U2"}),
        "dora": Person(groups=(), principals=(), ids={"slack": "U3"}),
    }
    grants = {"sre": (Grant("approver", ("shop",), ("staging",)),)}
    room.core.configure(access=Access(people=people, roles=grants))
    room.token("carl-laptop", "approver")
    assert room.press(room.button(), "U3").status_code == 200
    told = room.servers["slack"].called("chat.postEphemeral")[-1].body["text"]
    assert "dora may nothing here" in told
    room.press(room.button(), "U1")
    room.knock("ops", chats.mattermost_press(room.seal(), room.now))
    room.press(room.button(), "U2")
    assert [row["login"] for row in room.core.rows("votes")] == ["alice", "carl"]


def test_while_the_database_is_away_each_chat_is_told_in_its_own_way(room: Lounge):
    """A bridge by the status, so that it sends it again; people by words they alone see."""

    def away(tx: Any) -> None:
        raise Unavailable("the database does not answer", next="try again")

    desk = room.core.desk.under(away)
    [told] = room.servers["bridge"].messages.values()
    said = {key: told["approvals"][0][key] for key in ("approval", "digest")}
    said |= {"decision": "approve", "user": "bob@example"}
    knock = chats.generic_knock(said, room.now)
    reply = hear.hear(desk, room.ear, "bridge", knock)
    assert (reply.status, (reply.body or {})["ok"]) == (503, False)
    assert "does not answer" in (reply.body or {})["message"]
    press = chats.mattermost_press(room.seal(), room.now)
    reply = hear.hear(desk, room.ear, "ops", press)
    assert reply.status == 200
    assert "Press again" in (reply.body or {})["ephemeral_text"]
    assert room.core.rows("votes") == []


def test_a_secret_in_what_people_write_is_stored_and_shown_nowhere(room: Lounge):
    """I18: in the words of each chat, and where a bridge names what it decides."""
    secret = SECRETS["TOKEN"]
    for name, chat, account in (("bob", "slack", "U1"), ("eve", "ops", "u1")):
        room.introduce(name, chat, account)
    room.introduce("joe", "bridge", "joe@example")
    ballot = {"approval": secret, "digest": secret, "decision": "approve", "user": "joe@example"}
    answer = room.knock("bridge", chats.generic_knock(ballot, room.now))
    assert (answer.status_code, secret in answer.text) == (403, False)
    why = f"it shows {secret} to all"
    for chat in ("slack", "ops", "bridge"):
        deploy = request(room.core, f"7-{chat}", by=ANN)
        room.tell()
        _reject(room, chat, why)
        row = room.core.deploy(deploy)
        assert (row.outcome, row.error["comment"]) == ("rejected", "it shows *** to all")
    room.tell()
    tables = ("votes", "audit", "events", "deploys", "approvals", "chat_messages", "notices")
    stored = text_of([room.core.rows(table) for table in tables])
    assert "it shows *** to all" in stored
    assert secret not in stored
    assert not [name for name, one in room.servers.items() if secret in text_of(one.messages)]


def _reject(room: Lounge, chat: str, why: str) -> None:
    """Reject what a chat has shown last, in its own way."""
    if chat == "slack":
        room.press(room.button("reject"), action="reject")
        sealed = room.servers["slack"].called("views.open")[-1].body["view"]["private_metadata"]
        room.knock("slack", chats.slack_knock(chats.slack_window(sealed, why), room.now))
    elif chat == "ops":
        room.knock("ops", chats.mattermost_press(room.seal("reject"), room.now))
        state = room.servers["ops"].called("dialogs/open")[-1].body["dialog"]["state"]
        room.knock("ops", chats.mattermost_dialog(state, why))
    else:
        told = [*room.servers["bridge"].messages.values()][-1]
        ballot = {key: told["approvals"][0][key] for key in ("approval", "digest")}
        said = {**ballot, "decision": "reject", "user": "joe@example", "comment": why}
        room.knock("bridge", chats.generic_knock(said, room.now))
