"""What chats are told: one message for each deploy, which changes with it."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from manent_server.domain.approval import Rule
from manent_server.usecases import cancel
from manent_server.usecases.requests import CancelRequest
from tests.integration.core.approving import ANN, BOB, EVE, ask, request, say
from tests.integration.core.chatting import RULE, Lounge, lounge, text_of
from tests.integration.core.test_notices import come, states
from tests.rig.core import Core, long_ago

EVIL = "<!channel> @here `x` <https://evil.example|look>"
ALL = ("slack", "ops", "bridge")


@pytest.fixture
def room(core: Core) -> Iterator[Lounge]:
    with lounge(core) as made:
        yield made


def shown(room: Lounge, name: str) -> str:
    """The one message there is."""
    [message] = room.servers[name].messages.values()
    return text_of(message)


def test_one_message_says_what_is_asked_and_how_it_ended(room: Lounge):
    change = {"id": "4f2c9a1", "author": "dev", "at": "2027-01-01T00:00:00Z"}
    deploy = request(room.core, "2.0", by=ANN, reason=f"why not {EVIL}", changes=[change])
    room.tell()
    url = room.core.settings.server.url
    for name in ("slack", "ops", "bridge"):
        text = shown(room, name)
        for part in ("shop", "staging", "2.0", "nothing yet", "ann", "why not", "4f2c9a1 by dev"):
            assert part in text, (name, part)
        assert f"{url}/api/v1/deploys/{deploy}" in text
        assert "0 of 2: nobody yet, until 20" in text

    say(room.core, deploy, BOB)
    room.tell()
    assert all("1 of 2: bob approved" in shown(room, name) for name in ALL[:2])
    say(room.core, deploy, EVE, "reject", comment="not today")
    room.tell()
    for name in ALL[:2]:
        text = shown(room, name)
        assert "rejected" in text
        assert "eve rejected (not today)" in text
        assert "CANCELLED rejected" in text
        assert "Approve" not in text.replace("Approval", "")  # nothing is left to press
    assert len(room.servers["bridge"].messages) >= 3
    assert '"outcome": "CANCELLED rejected' in text_of(room.servers["bridge"].messages)
    assert len(room.core.rows("chat_messages")) == 3


def test_half_of_the_time_is_over_and_the_message_says_so(room: Lounge):
    core = room.core
    deploy = request(core)
    room.tell()
    assert "half of the time" not in shown(room, "slack")
    [row] = core.rows("approvals")
    begun = core.at() - timedelta(hours=13)
    core.set_approval(row["id"], asked_at=begun, expires_at=begun + timedelta(hours=24))
    core.set(deploy, approval_at=long_ago())
    core.admit()
    room.tell()
    for name in ALL[:2]:
        assert "0 of 2, half of the time to decide is over: nobody yet, until 20" in shown(
            room, name
        )
    assert "half of the time" in text_of(room.servers["bridge"].calls[-1].body)


def test_what_shows_nothing_new_is_not_sent(room: Lounge):
    deploy = request(room.core)
    say(room.core, deploy, BOB)
    room.tell()
    assert len(room.servers["slack"].calls) == 1
    assert states(room.core, "chat:slack") == ["delivered"] * 2


def test_a_message_whose_answer_was_lost_is_found_again(room: Lounge):
    """A crash, or a line that broke, between the message and its row makes no second message."""
    request(room.core)
    for server in room.servers.values():
        server.forgets = 1
    room.tell("slack", "ops")
    assert [row["message"] for row in room.core.rows("chat_messages")] == [None, None]
    come(room.core)
    room.tell("slack", "ops")
    for name in ("slack", "ops"):
        assert len(room.servers[name].messages) == 1
    assert {row["message"] for row in room.core.rows("chat_messages")} == {"m1"}


def test_a_chat_that_says_no_is_told_again(room: Lounge):
    request(room.core)
    room.servers["slack"].refusals += [(200, {"ok": False, "error": "internal_error"})]
    room.servers["ops"].refusals += [(503, {"message": "later"})]
    room.tell("slack", "ops")
    assert room.servers["slack"].messages == room.servers["ops"].messages == {}
    notices = [row for row in room.core.rows("notices") if row["sink"] != "chat:bridge"]
    assert {row["error"] for row in notices} == {
        "chat.postMessage: internal_error",
        "answered 503: later",
    }
    come(room.core)
    room.tell("slack", "ops")
    assert len(room.servers["slack"].messages) == len(room.servers["ops"].messages) == 1


def test_a_server_inside_is_never_asked(room: Lounge):
    found = dict(room.core.settings.chat)
    found["slack"] = replace(found["slack"], allow_networks=())
    room.core.configure(chat=found)
    request(room.core)
    room.tell("slack")
    assert room.servers["slack"].calls == []
    [error] = [r["error"] for r in room.core.rows("notices") if r["sink"] == "chat:slack"]
    assert error == "127.0.0.1 leads to an internal address that is not allowed"


def test_no_secret_is_shown(room: Lounge):
    """I18: what the chats sign with and sign in with is masked wherever somebody wrote it."""
    request(room.core, reason="the token is xoxb-planted-hunter22")
    room.tell()
    for name in ALL:
        assert "hunter22" not in shown(room, name)
        assert "the token is ***" in shown(room, name)


def test_only_the_chats_a_rule_names_are_told(room: Lounge):
    ask(room.core, replace(RULE, chat=("slack",)))
    request(room.core)
    room.tell()
    assert len(room.servers["slack"].messages) == 1
    assert room.servers["ops"].calls == room.servers["bridge"].calls == []


def test_a_deploy_nobody_is_asked_about_is_told_to_no_chat(room: Lounge):
    room.core.submit("shop", "production")
    cancel.cancel(
        room.core.desk, room.core.submit("mail", "production"), CancelRequest(), caller=ANN
    )
    room.tell()
    assert not [row for row in room.core.rows("notices") if row["sink"].startswith("chat:")]


def test_each_rule_has_its_own_buttons(room: Lounge):
    """A rule that names no chat is shown, and not to be decided there."""
    ask(room.core, RULE, Rule("law", chat=("slack",)), Rule("cab"))
    request(room.core)
    room.tell("slack")
    room.introduce("bob", "slack", "U1")
    text = shown(room, "slack")
    assert "Approve (release)" in text
    assert "Approve (law)" in text
    assert "Approval cab" in text
    assert "Approve (cab)" not in text
    room.press(room.button(number=1))
    [vote] = room.core.rows("votes")
    rule = next(r["rule"] for r in room.core.rows("approvals") if r["id"] == vote["approval"])
    assert rule == "law"
