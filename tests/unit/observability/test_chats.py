"""Chats: whom each believes, what it understands, and what it shows."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from manent_server.domain.chat import Ballot, Heard, Knock
from manent_server.domain.signature import Fault
from manent_server.observability.chats.generic import Generic
from manent_server.observability.chats.line import Chat, Declined, Line
from manent_server.observability.chats.mattermost import Mattermost
from manent_server.observability.chats.sealing import Sealing
from manent_server.observability.chats.slack import Slack
from manent_server.observability.egress import Answer, Egress
from manent_server.observability.webhook import key
from tests.rig import chats
from tests.unit.domain.test_chat import CARD, QUESTION

AT = datetime(2027, 1, 2, 3, 4, 5, tzinfo=UTC)
EVIL = "<!channel> @all `x` [a](http://evil.example) <b>&"
HOSTILE = replace(CARD, title=EVIL, facts=[("Reason", EVIL)])


class FakeLine(Line):
    """Answers as told, and remembers what was asked."""

    def __init__(self, **answers: Any) -> None:
        self.calls: list[tuple[str, str, Any]] = []
        self.answers = answers

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, most: int = 1
    ) -> dict[str, Any]:
        self.calls.append((method, path, body))
        found = next((a for name, a in self.answers.items() if name in path), {"ok": True})
        if isinstance(found, Exception):
            raise found
        return dict(found)

    def last(self) -> Any:
        return self.calls[-1][2]


class FakeEgress(Egress):
    def __init__(self) -> None:
        self.sent: list[tuple[Mapping[str, str], bytes]] = []
        self.status = 200

    def post(self, url: str, *, headers: Mapping[str, str], content: bytes) -> Answer:
        self.sent.append((headers, content))
        return Answer(self.status, None)


def slack(line: Line | None = None) -> Slack:
    keys = [chats.SLACK_SECRET.encode()]
    return Slack(line or FakeLine(), keys, Sealing("team", keys), chats.PLACE)


def mattermost(line: Line | None = None) -> Mattermost:
    sealing = Sealing("ops", [chats.MATTERMOST_SECRET.encode()])
    return Mattermost(line or FakeLine(), sealing, chats.PLACE, "https://m.example/webhooks/ops")


def generic(egress: Egress | None = None) -> Generic:
    return Generic(egress or FakeEgress(), "https://b.example", [key(chats.GENERIC_SECRET)])


def value(chat: Slack | Mattermost, decision: str = "approve") -> str:
    return chat._sealing.button(QUESTION, decision)


def heard(chat: Chat, knock: Knock) -> Heard:
    found = chat.read(knock)
    assert isinstance(found, tuple), found
    return found[1]


BALLOT = Ballot("a1", "d1", "approve")


def test_slack_hears_a_press():
    chat = slack()
    said = heard(chat, chats.slack_knock(chats.slack_press(value(chat)), AT))
    assert (said.user, said.ballot, said.needs_comment) == ("U1", BALLOT, False)


def test_slack_asks_why_in_a_window_that_is_good_for_that_person():
    line = FakeLine()
    chat = slack(line)
    press = chats.slack_press(value(chat, "reject"), "reject")
    said = heard(chat, chats.slack_knock(press, AT))
    assert said.needs_comment
    assert said.ballot is not None
    after = chat.ask_comment(said, said.ballot).after
    assert after is not None
    assert line.calls == []  # only once the answer has been sent
    after()
    assert (line.calls[-1][1], line.last()["trigger_id"]) == ("/views.open", press["trigger_id"])

    sealed = line.last()["view"]["private_metadata"]
    said = heard(chat, chats.slack_knock(chats.slack_window(sealed, "no"), AT))
    assert (said.ballot, said.comment) == (replace(BALLOT, decision="reject"), "no")
    assert not said.needs_comment
    refused = chat.answer(said, "you may not", is_done=False).body
    assert refused == {"response_action": "errors", "errors": {"comment": "you may not"}}

    other = chats.slack_window(sealed, "no", user={"id": "U2"})
    assert heard(chat, chats.slack_knock(other, AT)).ballot is None


@pytest.mark.parametrize(
    "changed",
    [
        {"team": {"id": "T2"}},
        {"team": None},
        {"api_app_id": "A2"},
        {"channel": {"id": "C2"}},
    ],
)
def test_slack_hears_no_other_place(changed: dict[str, Any]):
    """B77: signed as it should be, by another team or from another channel."""
    chat = slack()
    press = chats.slack_press(value(chat), **changed)
    assert chat.read(chats.slack_knock(press, AT)) == Fault.ELSEWHERE


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"payload=\xff\xfe",
        b"payload=%ff%fe",
        b"payload=x",
        b"payload=[]",
        b"payload=" + b"[" * 100_000,
        b"payload={}&payload={}",
        b"command=%2Fdeploy&user_id=U1&team_id=T1",
        b"&".join([b"payload={}"] * 100),
        chats.slack_form({"type": "block_actions", "user": {"id": 7}}),
        chats.slack_form({"type": "block_actions", "user": "U1"}),
    ],
)
def test_slack_refuses_what_cannot_be_read(body: bytes):
    assert slack().read(chats.slack_knock(body, AT)) == Fault.UNREADABLE


def test_slack_makes_nothing_of_a_button_that_is_not_ours():
    chat = slack()
    others = Sealing("other", [chats.SLACK_SECRET.encode()]).button(QUESTION, "approve")
    for made in ("", "x", others, value(chat) + "x"):
        assert heard(chat, chats.slack_knock(chats.slack_press(made), AT)).ballot is None
    for actions in ([], None, [{"value": value(chat)}] * 2, ["x"]):
        press = chats.slack_press("", actions=actions)
        assert heard(chat, chats.slack_knock(press, AT)).ballot is None


def test_slack_tells_a_person_alone_why_not():
    line = FakeLine()
    said = Heard("U1", BALLOT)
    chat = slack(line)
    assert chat.answer(said, "recorded", is_done=True).after is None
    after = chat.answer(said, "<!here> no", is_done=False).after
    assert after is not None
    after()
    assert line.calls[-1][1] == "/chat.postEphemeral"
    assert (line.last()["user"], line.last()["text"]) == ("U1", "&lt;!here&gt; no")


def test_slack_shows_no_text_that_it_would_read():
    line = FakeLine(postMessage={"ok": True, "ts": "1.1"})
    assert slack(line).tell(HOSTILE, None, at=AT) == "1.1"
    body = line.last()
    assert body["text"] == EVIL.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert (body["parse"], body["mrkdwn"], body["link_names"]) == ("none", False, False)
    texts = [text for block in body["blocks"] for text in texts_of(block)]
    assert {text["type"] for text in texts} == {"plain_text"}
    assert any(EVIL in text["text"] for text in texts)


def texts_of(found: Any) -> list[dict[str, Any]]:
    if isinstance(found, list):
        return [text for each in found for text in texts_of(each)]
    if not isinstance(found, dict):
        return []
    mine = [found] if isinstance(found.get("text"), str) else []
    return mine + [text for each in found.values() for text in texts_of(each)]


def test_slack_changes_its_message_and_finds_one_it_is_not_sure_of():
    found = {"ts": "7.7", "metadata": {"event_payload": {"key": "d1"}}}
    line = FakeLine(history={"ok": True, "messages": [{"ts": "1"}, found]})
    assert slack(line).tell(CARD, "1.1", at=AT) == "1.1"
    assert (line.calls[-1][1], line.last()["ts"]) == ("/chat.update", "1.1")
    assert slack(line).find(CARD) == "7.7"
    assert slack(line).find(replace(CARD, key="other")) is None


def test_slack_that_says_no_with_200_has_not_taken_it():
    with pytest.raises(Declined, match="channel_not_found") as refused:
        slack(FakeLine(chat={"ok": False, "error": "channel_not_found"})).tell(CARD, None, at=AT)
    assert refused.value.status == 400
    with pytest.raises(Declined) as busy:
        slack(FakeLine(chat={"ok": False, "error": "ratelimited"})).tell(CARD, None, at=AT)
    assert busy.value.status == 429


def test_buttons_name_their_rule_where_there_are_several():
    line = FakeLine(postMessage={"ok": True, "ts": "1"})
    both = replace(CARD, questions=[QUESTION, replace(QUESTION, id="a2", rule="ops")])
    chat = slack(line)
    chat.tell(both, None, at=AT)
    buttons = [e for b in line.last()["blocks"] if b["type"] == "actions" for e in b["elements"]]
    assert [b["text"]["text"] for b in buttons[:4:2]] == ["Approve (release)", "Approve (ops)"]
    assert chat._sealing.ballot(buttons[3]["value"]) == Ballot("a2", "d1", "reject")


def test_mattermost_hears_a_press():
    chat = mattermost()
    signed, said = chat.read(chats.mattermost_press(value(chat), AT))  # type: ignore[misc]
    assert (said.user, said.ballot) == ("u1", BALLOT)
    assert abs(signed.at - AT) < timedelta(milliseconds=1)
    again = chat.read(chats.mattermost_press(value(chat), AT))
    assert again[0].nonce != signed.nonce  # type: ignore[index]


def test_mattermost_asks_why_in_a_dialog_that_is_good_for_that_person_once():
    line = FakeLine()
    chat = mattermost(line)
    knock = chats.mattermost_press(value(chat, "reject"), AT)
    said = heard(chat, knock)
    assert said.needs_comment
    assert said.ballot is not None
    after = chat.ask_comment(said, said.ballot).after
    assert after is not None
    after()
    sent = line.last()
    assert sent["trigger_id"] == json.loads(knock.body)["trigger_id"]
    state = sent["dialog"]["state"]
    assert len(state) < 1000

    first = chat.read(chats.mattermost_dialog(state, "no"))
    again = chat.read(chats.mattermost_dialog(state, "really no"))
    assert isinstance(first, tuple)
    assert isinstance(again, tuple)
    assert first[0].nonce == again[0].nonce
    assert (first[1].ballot, first[1].comment) == (replace(BALLOT, decision="reject"), "no")
    assert chat.answer(first[1], "no", is_done=False).body == {"error": "no"}
    assert chat.read(chats.mattermost_dialog(state, "no", "u2")) == Fault.FORGED
    cancelled = chats.mattermost_dialog(state, None, cancelled=True)
    assert heard(chat, cancelled).ballot is None
    # What a dialog stands for is no button, and what a button stands for no dialog.
    assert chat.read(chats.mattermost_dialog(value(chat), "no")) == Fault.FORGED


@pytest.mark.parametrize(
    ("knock", "fault"),
    [
        (Knock({}, b"\xff\xfe"), Fault.UNSIGNED),
        (Knock({}, b"[]"), Fault.UNSIGNED),
        (Knock({}, b"{}"), Fault.UNSIGNED),
        (Knock({}, b'{"context": {"seal": 7}}'), Fault.UNSIGNED),
        (chats.mattermost_press("made.up", AT), Fault.FORGED),
        (chats.mattermost_press(value(mattermost()), AT, team_id="T2"), Fault.ELSEWHERE),
        (chats.mattermost_press(value(mattermost()), AT, channel_id="C2"), Fault.ELSEWHERE),
        (chats.mattermost_press(value(mattermost()), AT, user_id="u2"), Fault.FORGED),
        (chats.mattermost_press(value(mattermost()), AT, trigger_id=""), Fault.FORGED),
        (chats.mattermost_press(value(mattermost()), AT, trigger_id="YTpiOmM="), Fault.FORGED),
        (chats.mattermost_press(value(mattermost()), AT, trigger_id="\u00e9"), Fault.FORGED),
    ],
)
def test_mattermost_believes_nothing_without_its_seal(knock: Knock, fault: Fault):
    """B77."""
    assert mattermost().read(knock) == fault


def test_mattermost_shows_no_text_that_it_would_read():
    line = FakeLine(posts={"id": "p1"})
    assert mattermost(line).tell(HOSTILE, None, at=AT) == "p1"
    [shown] = line.last()["props"]["attachments"]
    assert shown["title"] == "`" + EVIL.replace("`", "'") + "`"
    assert shown["fields"][0]["value"] == shown["title"]
    assert (line.calls[-1][:2], line.last()["channel_id"]) == (("POST", "/api/v4/posts"), "C1")
    urls = {action["integration"]["url"] for action in shown["actions"]}
    assert urls == {"https://m.example/webhooks/ops"}


def test_mattermost_changes_its_post_and_finds_one_it_is_not_sure_of():
    found = {"id": "p7", "props": {"manent_deploy": "d1"}}
    line = FakeLine(per_page={"posts": {"p1": {"id": "p1", "props": {}}, "p7": found}})
    chat = mattermost(line)
    assert chat.tell(CARD, "p1", at=AT) == "p1"
    assert line.calls[-1][:2] == ("PUT", "/api/v4/posts/p1/patch")
    assert chat.find(CARD) == "p7"
    assert chat.find(replace(CARD, key="other")) is None
    assert chat.answer(Heard("u1"), "no `x`", is_done=False).body == {"ephemeral_text": "`no 'x'`"}
    assert chat.answer(Heard("u1"), "recorded", is_done=True).body == {}


def test_a_bridge_is_heard_and_answered():
    chat = generic()
    values = {"user": "ann", "approval": "a1", "digest": "d1", "decision": "reject", "comment": "n"}
    said = heard(chat, chats.generic_knock(values, AT))
    assert (said.user, said.ballot, said.comment) == (
        "ann",
        replace(BALLOT, decision="reject"),
        "n",
    )
    assert heard(chat, chats.generic_knock({"user": "ann"}, AT)).ballot is None
    assert chat.answer(said, "no", is_done=False).status == 403
    assert chat.ask_comment(said, BALLOT).status == 403
    assert chat.answer(said, "ok", is_done=True).body == {"ok": True, "message": "ok"}


@pytest.mark.parametrize(
    "body", [b"\xb2", b"[]", b"{}", b'{"user": 7}', b'{"user": ""}', b"[" * 99999]
)
def test_a_bridge_that_says_nothing_is_refused(body: bytes):
    assert generic().read(chats.generic_knock(body, AT)) == Fault.UNREADABLE


def test_a_bridge_is_told_signed():
    egress = FakeEgress()
    chat = generic(egress)
    assert chat.tell(CARD, None, at=AT) == "d1" == chat.find(CARD)
    chat.tell(CARD, "d1", at=AT)
    first, second = (json.loads(content) for _, content in egress.sent)
    assert (first["is_new"], second["is_new"], first["message"]) == (True, False, "d1")
    assert first["approvals"] == [{"approval": "a1", "rule": "release", "digest": "d1"}]
    headers, content = egress.sent[0]
    assert headers["content-type"] == "application/json"
    assert isinstance(chat.read(Knock(dict(headers), content)), Fault)  # ours, but no decision
    egress.status = 500
    with pytest.raises(Declined, match="answered 500"):
        chat.tell(CARD, None, at=AT)
    assert Generic(egress, None, []).tell(CARD, None, at=AT) == "d1"
