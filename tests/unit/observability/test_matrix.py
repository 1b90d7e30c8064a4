"""Matrix: what is said to our messages, and what they show."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from manent_server.domain.chat import Heard, Knock
from manent_server.domain.signature import Fault
from manent_server.observability.chats.line import Declined
from manent_server.observability.chats.matrix import Matrix, _said, _sign, _word
from tests.unit.domain.test_chat import CARD
from tests.unit.observability.test_chats import AT, HOSTILE, FakeLine


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("approve", ("approve", "")),
        ("Approve!", ("approve", "")),
        ("reject: it is Friday", ("reject", "it is Friday")),
        ("> <@bot> deploy shop\n> more\n\napprove release fine", ("approve", "release fine")),
        ("I approve", (None, "approve")),
        ("approved", (None, "")),
        ("", (None, "")),
        ("> approve", (None, "")),
    ],
)
def test_a_reply_says_what_it_begins_with(body: str, said: tuple[str | None, str]):
    assert _said(body) == said


def test_signs_are_known_in_every_skin():
    assert {_sign(key) for key in ("👍", "👍🏿", "👍\ufe0f", "✅", "✔️")} == {"approve"}
    assert {_sign(key) for key in ("👎", "❌", "✖️")} == {"reject"}
    assert {_sign(key) for key in ("", "❤️", "approve")} == {None}


def reaction(**changed: Any) -> dict[str, Any]:
    relates = {"rel_type": "m.annotation", "event_id": "$m", "key": "👍"}
    return {
        "type": "m.reaction",
        "event_id": "$e",
        "sender": "@ann:example",
        "content": {"m.relates_to": relates},
        **changed,
    }


@pytest.mark.parametrize(
    "event",
    [
        None,
        [],
        {},
        reaction(sender=None),
        reaction(event_id=7),
        reaction(type="m.room.member"),
        reaction(content=None),
        reaction(content={"m.relates_to": "x"}),
        reaction(content={"m.relates_to": {"event_id": "$m", "key": "🎉"}}),
        reaction(type="m.room.message", content={"body": "approve"}),
        reaction(type="m.room.message", content={"body": 7, "m.relates_to": {}}),
    ],
)
def test_what_says_nothing_to_a_message_is_left_out(event: Any):
    assert _word(event) is None


def test_reactions_and_replies_are_words():
    word = _word(reaction())
    assert word is not None
    assert (word.user, word.about, word.decision) == ("@ann:example", "$m", "approve")
    content = {"body": "reject no", "m.relates_to": {"m.in_reply_to": {"event_id": "$m"}}}
    word = _word(reaction(type="m.room.message", content=content))
    assert word is not None
    assert (word.decision, word.rest, word.is_reaction) == ("reject", "no", False)


def test_matrix_shows_no_text_that_it_would_read():
    line = FakeLine(send={"event_id": "$1"})
    chat = Matrix(line, "!r:example")
    assert chat.tell(HOSTILE, None, at=AT) == "$1"
    content = line.last()
    assert content["m.mentions"] == {}
    assert "<b>" not in content["formatted_body"].replace("<br>", "")
    assert "&lt;!channel&gt; @all" in content["formatted_body"]
    assert "%21r%3Aexample" in line.calls[-1][1]
    assert chat.read(Knock({}, b"")) == Fault.UNKNOWN


def test_matrix_sends_a_message_under_one_name():
    """A message that may have been sent is sent again under the same name: there is one."""
    line = FakeLine(send={"event_id": "$1"})
    chat = Matrix(line, "!r:example")
    chat.tell(CARD, None, at=AT)
    chat.tell(replace(CARD, outcome="other"), None, at=AT)
    chat.tell(replace(CARD, digest="y"), None, at=AT)
    paths = [path for _, path, _ in line.calls]
    assert paths[0] == paths[1] != paths[2]
    assert chat.find(CARD) is None
    assert chat.tell(CARD, "$1", at=AT) == "$1"
    assert line.last()["m.relates_to"] == {"rel_type": "m.replace", "event_id": "$1"}


def test_matrix_reads_on_where_the_homeserver_left_something_out():
    timeline = {"limited": True, "events": [reaction(event_id="$new")]}
    room = {"!r:example": {"timeline": timeline}}
    line = FakeLine(
        sync={"next_batch": "s2", "rooms": {"join": room}},
        messages={"chunk": [reaction(event_id="$old")], "end": None},
    )
    chat = Matrix(line, "!r:example")
    words, end = chat.words("s1", timedelta(seconds=1))
    assert ([word.id for word in words], end) == (["$old"], "s2")
    words, _ = chat.words(None, timedelta(seconds=1))
    assert [word.id for word in words] == ["$new"]


def test_matrix_whispers_in_a_room_of_two():
    line = FakeLine(
        whoami={"user_id": "@bot:example"},
        direct=Declined("answered 404", 404),
        createRoom={"room_id": "!dm:example"},
    )
    after = Matrix(line, "!r:example").answer(Heard("@a:e").whisper(), "code", is_done=False).after
    assert after is not None
    with pytest.raises(Declined):
        after()  # the fake declines to remember the room, too
    assert line.calls[-2][2]["invite"] == ["@a:e"]
