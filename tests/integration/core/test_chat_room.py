"""A room of Matrix: what people say there to our messages, read by a loop of ours."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from manent_server.domain.approval import Rule
from manent_server.domain.errors import Unavailable
from manent_server.observability.redaction import Redactor
from manent_server.sources.secrets import Secrets
from manent_server.usecases import authenticate, carry, link, publish, tokens
from manent_server.usecases.chats import Chats
from manent_server.usecases.deliver import Courier
from manent_server.usecases.desk import Desk
from manent_server.usecases.overhear import Overhearing
from manent_server.usecases.requests import TokenRequest
from tests.integration.core.approving import ANN, DAY, ask, request
from tests.integration.core.chatting import SECRETS, settings, text_of
from tests.rig.core import ADMIN, Core
from tests.rig.fake_chats import ALONE, ME, ROOM, ChatServer

RULE = Rule("release", quorum=2, expires=DAY, chat=("room",))


@dataclass
class Meeting:
    """A core that asks in a room, and the homeserver of the room."""

    core: Core
    server: ChatServer
    chats: Chats

    def ask(self, version: str = "1", *rules: Rule) -> str:
        """A deploy that waits and is shown; its id."""
        ask(self.core, *(rules or (RULE,)))
        deploy = request(self.core, version, by=ANN)
        self.tell()
        return deploy

    def tell(self) -> None:
        publish.publish(self.core.desk)
        secrets = Secrets(SECRETS, self.core.settings.path.parent)
        carrier = carry.carriers(self.core.desk, secrets, Redactor())
        Courier(self.core.desk, self.core.store, "chat:room", lambda: carrier("chat:room")).round()

    def message(self, deploy: str) -> str:
        """The id of the message about a deploy."""
        rows = self.core.rows("chat_messages")
        return next(str(row["message"]) for row in rows if row["deploy"] == deploy)

    def introduce(self, name: str) -> None:
        wanted = TokenRequest(name, "approver", kind="person")
        text = tokens.create(self.core.desk, wanted, caller=ADMIN)["token"]
        code = link.give(self.core.store, "room", f"@{name}:example")
        link.link(self.core.desk, code, caller=authenticate.authenticate(self.core.desk, text))

    def listen(self, desk: Desk | None = None) -> None:
        wait = timedelta(seconds=0)
        Overhearing(desk or self.core.desk, self.chats, "room", wait=wait).round()

    def heard(self, room: str = ROOM) -> list[str]:
        """What we have answered in a room."""
        found = [body for name, body in self.server.messages.items() if name.startswith(room)]
        return [str(body["body"]) for body in found if "m.in_reply_to" in str(body) or room != ROOM]

    def votes(self) -> list[tuple[str, str, str]]:
        rows = sorted(self.core.rows("votes"), key=lambda row: row["at"])
        return [(row["login"], row["decision"], row["channel"]) for row in rows]


@pytest.fixture
def meeting(core: Core) -> Iterator[Meeting]:
    with ChatServer() as server:
        room = settings("matrix", server.url, "SLACK", channel=ROOM, signing_secret=())
        core.configure(chat={"room": room})
        chats = Chats(Secrets(SECRETS, core.settings.path.parent), Redactor())
        yield Meeting(core, server, chats)


def test_signs_and_replies_to_our_message_are_votes_and_nothing_else_is(meeting: Meeting):
    deploy = meeting.ask()
    about = meeting.message(deploy)
    meeting.introduce("bob")
    meeting.introduce("eve")
    meeting.server.react(ME, about, "\U0001f44d")
    meeting.server.react("@bob:example", "$other", "\U0001f44d")
    meeting.server.reply("@bob:example", about, "I approve of this")
    meeting.listen()
    assert meeting.votes() == []
    assert meeting.heard(ALONE) == [], "we do not answer ourselves"
    meeting.server.react("@bob:example", about, "\U0001f44d")
    meeting.server.reply("@bob:example", about, "approve")
    meeting.listen()
    assert meeting.votes() == [("bob", "approve", "matrix")]
    meeting.server.react("@eve:example", about, "\u274c")
    meeting.listen()
    assert meeting.heard() == ["reply to the message: reject, and why"]
    meeting.server.reply("@eve:example", about, "> quoted\n\nreject: it is Friday")
    meeting.listen()
    assert meeting.votes()[1:] == [("eve", "reject", "matrix")]
    assert meeting.core.deploy(deploy).outcome == "rejected"
    meeting.server.react("@bob:example", about, "\U0001f44d")
    meeting.listen()
    assert meeting.heard()[1:] == ["nothing is asked here any more"]


def test_a_stranger_is_given_a_code_alone(meeting: Meeting):
    about = meeting.message(meeting.ask())
    meeting.server.react("@mallory:example", about, "\U0001f44d")
    meeting.listen()
    assert (meeting.votes(), meeting.heard()) == ([], [])
    [told] = meeting.heard(ALONE)
    assert "manent link" in told
    [refused] = [r for r in meeting.core.rows("audit") if r["action"] == "chat.refused"]
    assert (refused["actor"], refused["detail"]["fault"]) == ("matrix:@mallory:example", "unmapped")


def test_who_has_no_say_is_told_why(meeting: Meeting):
    about = meeting.message(meeting.ask())
    meeting.introduce("ann")
    meeting.server.react("@ann:example", about, "\U0001f44d")
    meeting.listen()
    assert meeting.votes() == []
    assert "ann asked for it" in meeting.heard()[0]


def test_of_two_rules_one_is_named(meeting: Meeting):
    deploy = meeting.ask("1", RULE, Rule("law", chat=("room",)))
    about = meeting.message(deploy)
    meeting.introduce("bob")
    meeting.server.react("@bob:example", about, "\U0001f44d")
    meeting.listen()
    assert meeting.heard() == ["which approval? Reply: approve and one of release, law"]
    meeting.server.reply("@bob:example", about, "approve law fine with me")
    meeting.listen()
    [vote] = meeting.core.rows("votes")
    rules = {row["id"]: row["rule"] for row in meeting.core.rows("approvals")}
    assert (rules[vote["approval"]], vote["comment"]) == ("law", "fine with me")


def test_a_message_about_what_has_changed_decides_nothing(meeting: Meeting):
    """Whoever answers it has seen what nobody asks any more."""
    deploy = meeting.ask()
    about = meeting.message(deploy)
    meeting.introduce("bob")
    meeting.core.set(deploy, approval_digest="f" * 64)
    with meeting.core.store.write() as tx:
        tx.connection.execute(tx.tables.approvals.update().values(digest="f" * 64))
    meeting.server.react("@bob:example", about, "\U0001f44d")
    meeting.listen()
    assert (meeting.votes(), meeting.heard()) == ([], ["nothing is asked here any more"])


def test_what_was_said_while_the_database_was_away_is_read_again(meeting: Meeting):
    about = meeting.message(meeting.ask())
    meeting.introduce("bob")
    meeting.introduce("eve")
    meeting.listen()
    meeting.server.react("@bob:example", about, "\U0001f44d")

    def away(tx: Any) -> None:
        raise Unavailable("the database does not answer", next="try again")

    with pytest.raises(Unavailable):
        meeting.listen(meeting.core.desk.under(away))
    assert meeting.votes() == []
    meeting.server.react("@eve:example", about, "\U0001f44d")
    meeting.listen()
    assert [vote[0] for vote in meeting.votes()] == ["bob", "eve"]
    meeting.listen()
    assert len(meeting.votes()) == 2


def test_a_secret_in_a_reply_is_stored_and_shown_nowhere(meeting: Meeting):
    """I18: what people write in a chat is stored, told and put on record."""
    deploy = meeting.ask()
    meeting.introduce("bob")
    words = f"reject: the token is {SECRETS['TOKEN']}, is it not"
    meeting.server.reply("@bob:example", meeting.message(deploy), words)
    meeting.listen()
    meeting.tell()
    assert meeting.core.rows("votes")[0]["comment"] == "the token is ***, is it not"
    tables = ("votes", "audit", "events", "deploys", "approvals", "chat_messages", "notices")
    stored = text_of([meeting.core.rows(table) for table in tables])
    assert "the token is ***" in stored
    assert SECRETS["TOKEN"] not in stored
    assert SECRETS["TOKEN"] not in text_of(meeting.server.messages)
