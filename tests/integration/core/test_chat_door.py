"""The door of chats: believed is what they sign, in time, once; the rest changes nothing."""

import logging
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from manent_server.domain.chat import Knock
from manent_server.observability.quota import Quota
from manent_server.settings.values import Access, Person
from manent_server.usecases import tokens
from manent_server.usecases.chats import may_come_from
from manent_server.usecases.hear import Ear
from manent_server.usecases.requests import TokenRequest
from tests.integration.core.approving import asked
from tests.integration.core.chatting import Lounge, settings, skew, text_of
from tests.rig import chats
from tests.rig.core import ADMIN, Core


def test_a_press_is_a_vote_and_two_open_the_gate(room: Lounge):
    """B80: the right to approve is enough. B71: the same person again is no second vote."""
    room.core.worker()
    room.introduce("bob", "slack", "U1")
    room.introduce("eve", "ops", "u9")
    assert room.press(room.button()).status_code == 200
    assert room.press(room.button()).status_code == 200
    assert len(room.core.rows("votes")) == 1
    [row] = room.core.rows("votes")
    assert (row["login"], row["channel"], row["address"]) == ("bob", "slack", "192.0.2.1")

    answer = room.knock("ops", chats.mattermost_press(room.seal(), room.now, "u9"))
    assert (answer.status_code, answer.json()) == (200, {})
    assert {row["channel"] for row in room.core.rows("votes")} == {"slack", "mattermost"}
    assert room.core.rows("deploys")[0]["state"] == "ENQUEUED"


def test_a_bridge_decides_by_itself(room: Lounge):
    room.introduce("bob", "bridge", "bob@example")
    [told] = room.servers["bridge"].messages.values()
    ballot = {key: told["approvals"][0][key] for key in ("approval", "digest")}
    said = {**ballot, "decision": "reject", "user": "bob@example"}
    answer = room.knock("bridge", chats.generic_knock(said, room.now))
    assert (answer.status_code, answer.json()["ok"]) == (403, False)
    assert "comment" in answer.json()["message"]

    said |= {"comment": "not on a Friday"}
    answer = room.knock("bridge", chats.generic_knock(said, room.now))
    assert (answer.status_code, answer.json()) == (200, {"ok": True, "message": "recorded"})
    [deploy] = room.core.rows("deploys")
    assert (deploy["state"], deploy["outcome"]) == ("CANCELLED", "rejected")


def forgeries(room: Lounge) -> dict[str, tuple[str, Knock]]:
    """Every way to send a decision that nobody may believe."""
    body = chats.slack_form(chats.slack_press(room.button()))
    good = chats.slack_headers(body, room.now)
    mine = chats.generic_knock({"user": "bob", "decision": "approve"}, room.now)
    other = chats.slack_headers(body, room.now, secret="another secret")  # noqa: S106 - wrong
    bytes_ = b"payload=\xff\xfe"
    lacking = {name: v for name, v in good.items() if name != "x-slack-request-timestamp"}
    return {
        "no signature": ("slack", Knock({}, body)),
        "no timestamp": ("slack", Knock(lacking, body)),
        "wrong signature": ("slack", Knock(good | {"x-slack-signature": "v0=" + "0" * 64}, body)),
        "another secret": ("slack", Knock(other, body)),
        "another body": ("slack", Knock(good, body + b"&")),
        "no number": ("slack", Knock(good | {"x-slack-request-timestamp": "abc"}, body)),
        "old": ("slack", Knock(chats.slack_headers(body, skew(room.core, -301)), body)),
        "early": ("slack", Knock(chats.slack_headers(body, skew(room.core, 302)), body)),
        "not utf-8": ("slack", Knock(chats.slack_headers(bytes_, room.now), bytes_)),
        "wrong team": (
            "slack",
            chats.slack_knock(chats.slack_press("", team={"id": "T2"}), room.now),
        ),
        "wrong app": ("slack", chats.slack_knock(chats.slack_press("", api_app_id="A2"), room.now)),
        "slash command": ("slack", Knock({}, b"command=%2Fapprove&text=all&user_id=U1")),
        "unknown chat": ("nothing", Knock(good, body)),
        "bridge unsigned": ("bridge", Knock({}, mine.body)),
        "bridge forged": ("bridge", Knock(mine.headers | {"webhook-id": "x"}, mine.body)),
        "bridge late": ("bridge", chats.generic_knock(mine.body, skew(room.core, -400))),
        "no seal": ("ops", Knock({}, b"{}")),
        "made seal": ("ops", chats.mattermost_press("e30.AAAA", room.now)),
        "late press": ("ops", chats.mattermost_press(room.seal(), skew(room.core, -400), "u1")),
        "another user": ("ops", chats.mattermost_press(room.seal(), room.now, user_id="u2")),
        "another team": ("ops", chats.mattermost_press(room.seal(), room.now, team_id="T2")),
        "slack's seal": ("ops", chats.mattermost_press(room.button(), room.now)),
    }


def test_what_nobody_may_believe_is_refused_in_one_way(room: Lounge):
    """B77: 401, the same body for all, no state change, and on record."""
    room.introduce("bob", "slack", "U1")
    room.introduce("bob", "ops", "u1")
    before = room.state()
    answers = {name: room.knock(chat, knock) for name, (chat, knock) in forgeries(room).items()}
    assert {name: a.status_code for name, a in answers.items()} == dict.fromkeys(answers, 401)
    assert len({a.content for a in answers.values()}) == 1
    assert {a.headers["content-type"] for a in answers.values()} == {"application/problem+json"}
    assert room.state() == before
    found = {(one["chat"], one["fault"]) for one in room.audit("chat.refused")}
    assert found >= {
        ("slack", "unsigned"),
        ("slack", "forged"),
        ("slack", "late"),
        ("slack", "unreadable"),
        ("slack", "elsewhere"),
        ("unknown", "unknown"),
        ("bridge", "forged"),
        ("ops", "forged"),
    }
    assert room.metric('manent_chat_requests_total{chat="slack",result="forged"} 4.0')
    assert not [row for row in room.core.rows("events") if row["type"].startswith("chat.")]


def test_a_request_that_comes_again_is_refused(room: Lounge):
    room.introduce("bob", "slack", "U1")
    knock = chats.slack_knock(chats.slack_press(room.button()), room.now)
    assert room.knock("slack", knock).status_code == 200
    again = room.knock("slack", knock)
    assert (again.status_code, again.json()["code"]) == (401, "not_believed")
    press = chats.mattermost_press(room.seal(), room.now)
    room.knock("ops", press)
    assert room.knock("ops", press).status_code == 401
    assert [one["fault"] for one in room.audit("chat.refused")].count("replayed") == 2


def test_a_clock_that_is_off_is_named(room: Lounge, caplog: pytest.LogCaptureFixture):
    """B32: refused, with a log line and a metric that name the 600 s."""
    body = chats.slack_form(chats.slack_press(room.button()))
    headers = chats.slack_headers(body, skew(room.core, -600))
    with caplog.at_level(logging.WARNING):
        assert room.knock("slack", Knock(headers, body)).status_code == 401
    assert re.search(r"the clocks differ by 60[0-2] s \(ours is ahead", caplog.text)
    assert "clocks differ by 60" in room.audit("chat.refused")[-1]["reason"]
    shown = room.core.desk.metrics.render().decode()
    [line] = [one for one in shown.splitlines() if one.startswith("manent_chat_clock_difference")]
    assert 600 <= float(line.rpartition(" ")[2]) < 603


def test_what_is_too_large_is_not_read(room: Lounge):
    limit = room.core.settings.server.body_limit
    body = b"payload=" + b"x" * limit
    headers = chats.slack_headers(body, room.now)
    assert room.knock("slack", Knock(headers, body)).status_code == 413
    assert room.audit("chat.refused")[-1]["fault"] == "oversized"


def test_strangers_write_only_so_much(room: Lounge):
    """However often they knock, the record and the log hold a few lines and how many more."""
    room.client.app.state.ear = Ear(room.ear.chats, Quota(most=3))  # type: ignore[attr-defined]
    for _ in range(20):
        room.knock("slack", Knock({}, b""))
    assert len(room.audit("chat.refused")) == 3
    assert room.metric('manent_chat_requests_total{chat="slack",result="unsigned"} 20.0')


def test_a_header_that_comes_twice_is_none(room: Lounge):
    body = chats.slack_form(chats.slack_press(room.button()))
    headers = [*chats.slack_headers(body, room.now).items(), ("x-slack-signature", "v0=0")]
    answer = room.client.post("/webhooks/slack", headers=headers, content=body)
    assert answer.status_code == 401


def test_only_where_it_may_come_from_is_it_heard(room: Lounge):
    found = dict(room.core.settings.chat)
    found["ops"] = replace(found["ops"], from_networks=("198.51.100.0/24",))
    room.core.configure(chat=found)
    assert room.knock("ops", chats.mattermost_press(room.seal(), room.now)).status_code == 401
    found["ops"] = replace(found["ops"], from_networks=("192.0.2.0/24",))
    room.core.configure(chat=found)
    assert room.knock("ops", chats.mattermost_press(room.seal(), room.now)).status_code == 200
    # A listener for both families has an IPv4 address so.
    heard = {address: may_come_from(found["ops"], address) for address in MAPPED}
    assert heard == {MAPPED[0]: True, MAPPED[1]: False, "elsewhere": False}


MAPPED = ("::ffff:192.0.2.1", "::ffff:198.51.100.1", "elsewhere")


def test_a_chat_whose_secret_is_gone_believes_nothing(room: Lounge):
    found = {"slack": settings("slack", "https://slack.example", "NOT_THERE")}
    value = room.button()
    room.core.configure(chat=found)
    assert room.press(value).status_code == 401
    assert room.metric('manent_chat_requests_total{chat="slack",result="unknown"} 1.0')


def test_somebody_unknown_is_told_how_to_be_known(room: Lounge):
    """The code is for them alone, once, and worth nothing to a program."""
    assert room.press(room.button(), "U7").status_code == 200
    [told] = room.servers["slack"].called("chat.postEphemeral")
    assert (told.body["user"], told.token) == ("U7", "xoxb-planted-hunter22")
    code = told.body["text"].partition("manent link ")[2].split()[0]
    assert room.core.rows("votes") == []
    assert room.audit("chat.refused")[-1] | {"reason": ""} == {
        "chat": "slack",
        "account": "U7",
        "fault": "unmapped",
        "reason": "",
        "decision": "approve",
        "approval": asked(room.core, room.core.rows("deploys")[0]["id"])[0]["id"],
    }

    headers = {"Authorization": f"Bearer {token_of(room, 'carl')}"}
    looked = room.client.post(
        "/api/v1/links", json={"code": code, "preview": True}, headers=headers
    )
    assert looked.json() == {"chat": "slack", "account": "U7", "login": "carl"}
    linked = room.client.post("/api/v1/links", json={"code": code.upper()}, headers=headers)
    assert linked.json() == {"chat": "slack", "account": "U7", "login": "carl"}
    again = room.client.post("/api/v1/links", json={"code": code}, headers=headers)
    assert (again.status_code, again.json()["code"]) == (404, "code_unknown")
    assert room.audit("chat.linked") == [{"chat": "slack", "account": "U7", "login": "carl"}]
    assert code not in text_of(room.core.rows("chat_links"))

    room.press(room.button(), "U7")
    assert [row["login"] for row in room.core.rows("votes")] == ["carl"]
    listed = room.client.get("/api/v1/links", headers=headers).json()["items"]
    assert listed == [{"chat": "slack", "account": "U7", "login": "carl"}]


def token_of(room: Lounge, name: str, role: str = "approver") -> str:
    return make(room, TokenRequest(name, role, kind="person"))


def make(room: Lounge, request: TokenRequest) -> str:
    return str(tokens.create(room.core.desk, request, caller=ADMIN)["token"])


def test_a_code_ends(room: Lounge, core: Core):
    room.press(room.button(), "U7")
    told = room.servers["slack"].called("chat.postEphemeral")[-1]
    first = told.body["text"].partition("manent link ")[2].split()[0]
    room.press(room.button(), "U7")
    headers = {"Authorization": f"Bearer {token_of(room, 'carl')}"}

    def redeem(code: str) -> Any:
        return room.client.post("/api/v1/links", json={"code": code}, headers=headers)

    assert redeem(first).status_code == 404  # a newer one was given
    told = room.servers["slack"].called("chat.postEphemeral")[-1]
    second = told.body["text"].partition("manent link ")[2].split()[0]
    with core.store.write() as tx:
        table = tx.tables.chat_links
        past = tx.now() - timedelta(seconds=1)
        tx.connection.execute(table.update().values(code_expires_at=past))
    assert redeem(second).status_code == 404
    preview = {"code": second, "preview": True}
    assert room.client.post("/api/v1/links", json=preview, headers=headers).status_code == 404
    assert core.rows("chat_links")[0]["login"] is None


def test_who_may_not_is_told_why(room: Lounge):
    """B80: in the chat's own way, and nothing changes."""
    room.introduce("vic", "slack", "U1", role="viewer")
    room.introduce("ann", "slack", "U2")
    before = room.state()
    assert room.press(room.button(), "U1").status_code == 200
    assert room.press(room.button(), "U2").status_code == 200
    told = room.servers["slack"].called("chat.postEphemeral")
    assert "vic may not approve" in told[0].body["text"]
    assert "ann asked for it" in told[1].body["text"]
    assert room.state() == before
    assert room.audit("chat.refused")[-1]["fault"] == "not_eligible"

    room.introduce("ann", "ops", "u2")
    answer = room.knock("ops", chats.mattermost_press(room.seal(), room.now, "u2"))
    assert "ann asked for it" in answer.json()["ephemeral_text"]


def test_an_account_is_given_back(room: Lounge):
    bob = token_of(room, "bob")
    eve = token_of(room, "eve")
    room.press(room.button(), "U7")
    told = room.servers["slack"].called("chat.postEphemeral")[-1]
    code = told.body["text"].partition("manent link ")[2].split()[0]
    mine, hers = ({"Authorization": f"Bearer {one}"} for one in (bob, eve))
    room.client.post("/api/v1/links", json={"code": code}, headers=mine)
    wanted = {"chat": "slack", "account": "U7"}
    assert room.client.post("/api/v1/links/remove", json=wanted, headers=hers).status_code == 404
    gone = room.client.post("/api/v1/links/remove", json=wanted, headers=mine)
    assert gone.json() == wanted | {"login": None}
    assert room.client.post("/api/v1/links/remove", json=wanted, headers=mine).status_code == 404
    assert room.core.rows("chat_links") == []


def test_a_program_has_no_account(room: Lounge):
    """Not even that of the person it is listed with."""
    bob = Person(groups=(), principals=("robot",), ids={})
    room.core.configure(access=Access(people={"bob": bob}))
    robot = make(room, TokenRequest("robot", "admin"))
    headers = {"Authorization": f"Bearer {robot}"}
    answer = room.client.post("/api/v1/links", json={"code": "x"}, headers=headers)
    assert answer.status_code == 403


def test_a_rejection_asks_for_its_reason(room: Lounge):
    room.introduce("bob", "slack", "U1")
    room.introduce("eve", "ops", "u1")
    room.press(room.button("reject"), action="reject")
    [opened] = room.servers["slack"].called("views.open")
    assert room.core.rows("votes") == []
    room.knock("ops", chats.mattermost_press(room.seal("reject"), room.now))
    [dialog] = room.servers["ops"].called("dialogs/open")
    state = dialog.body["dialog"]["state"]

    sealed = opened.body["view"]["private_metadata"]
    empty = chats.slack_knock(chats.slack_window(sealed, None), room.now)
    answer = room.knock("slack", empty)
    assert "comment" in answer.json()["errors"]["comment"]
    done = room.knock("slack", chats.slack_knock(chats.slack_window(sealed, "bad day"), room.now))
    assert (done.status_code, done.content) == (200, b"")
    [row] = room.core.rows("votes")
    assert (row["decision"], row["comment"], row["login"]) == ("reject", "bad day", "bob")

    late = room.knock("ops", chats.mattermost_dialog(state, "me too"))
    assert "has ended" in late.json()["error"]
    assert room.knock("ops", chats.mattermost_dialog(state, "me too")).status_code == 401


def test_other_requests_of_a_chat_ask_for_nothing(room: Lounge):
    """A button that is a link, a window that was closed: answered, and nothing else."""
    for more in ({"type": "view_closed"}, {"type": "block_actions", "actions": []}):
        made = chats.slack_press("", **more)
        answer = room.knock("slack", chats.slack_knock(made, room.now))
        assert (answer.status_code, answer.content) == (200, b"")
    assert room.audit("chat.refused") == []
