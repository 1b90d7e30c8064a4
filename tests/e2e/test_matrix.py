"""Approvals in Matrix, end to end: a real homeserver, a real server, people with clients."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rig.process import until
from tests.rig.serve import Rig
from tests.rig.synapse import Person, Synapse, code_in

TOKEN = "MATRIX_TOKEN"  # noqa: S105 - the name of one
# A homeserver starts in seconds; its first installation takes minutes where much else goes on.
pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def synapse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Synapse]:
    with Synapse(tmp_path_factory.mktemp("synapse")) as made:
        yield made


class Meeting:
    """A room with our bot, ann and bob; a server that asks there."""

    def __init__(self, folder: Path, synapse: Synapse) -> None:
        unique = os.urandom(4).hex()
        self.bot, self.ann, self.bob = (
            synapse.person(f"{name}-{unique}") for name in ("manent", "ann", "bob")
        )
        self.room = self.ann.do("POST", "/createRoom", {"preset": "private_chat"})["room_id"]
        for person in (self.bot, self.bob):
            self.ann.do("POST", f"/rooms/{self.room}/invite", {"user_id": person.name})
        self.bob.do("POST", f"/join/{self.room}")
        rule = {"name": "release", "quorum": 2, "chat": ["room"]}
        config = {
            "chat": {
                "room": {
                    "plugin": "matrix",
                    "url": synapse.url,
                    "token": f"secret://env/{TOKEN}",
                    "channel": self.room,
                    "allow_networks": ["127.0.0.0/8"],
                }
            },
            "environments": {"staging": {"approvals": [rule]}},
        }
        url = f"sqlite:///{folder / 'manent.db'}"
        self.rig = Rig(folder, url, config, environ={TOKEN: self.bot.token})

    def ours(self) -> list[dict[str, Any]]:
        """What the bot has said."""
        return [one for one in self.ann.messages(self.room) if one["by"] == self.bot.name]

    def asked(self, version: str) -> dict[str, Any]:
        """The message about a version, once it is there."""

        def find() -> dict[str, Any] | None:
            found = [one for one in self.ours() if f" {version} " in one["body"]]
            return found[-1] if found else None

        return until(find, what=f"the message about {version}") or {}

    def shows(self, version: str, words: str) -> None:
        """Wait until the message about a version shows something."""
        until(lambda: words in self.asked(version)["body"], what=f"{words!r} in its message")

    def says(self, words: str) -> None:
        """Wait until the bot has said something."""
        until(
            lambda: any(words in one["body"] for one in self.ours()), what=f"{words!r} in the room"
        )

    def introduce(self, person: Person, name: str, message: str) -> None:
        """Somebody nobody knows reacts, is told a code alone, and signs in with it."""
        person.react(self.room, message)
        [room] = until(person.invitations, what=f"an invitation of {name}") or []
        person.do("POST", f"/join/{room}")
        told = until(lambda: person.messages(room), what="the code") or []
        assert all("manent link" not in one["body"] for one in self.ours())
        made = self.rig.server_cli(
            ["token", "create", name, "--role", "approver", "--kind", "person"], check=True
        )
        linked = self.rig.cli(
            ["link", code_in(told[-1]["body"])],
            environ={"MANENT_URL": self.rig.url, "MANENT_TOKEN": made.stdout.strip()},
            check=True,
        )
        assert person.name in linked.stdout


@pytest.fixture(scope="module")
def meeting(synapse: Synapse, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Meeting]:
    made = Meeting(tmp_path_factory.mktemp("matrix"), synapse)
    with made.rig:
        yield made


def test_people_decide_by_reactions_and_replies(meeting: Meeting, synapse: Synapse):
    first = meeting.rig.deploy("1", reason="<b>why</b> not @room")
    message = meeting.asked("1")
    assert "<b>why</b> not @room" in message["body"]
    assert "&lt;b&gt;why&lt;/b&gt;" in message["formatted_body"]
    assert message["m.mentions"] == {}
    meeting.introduce(meeting.ann, "ann", message["id"])
    meeting.introduce(meeting.bob, "bob", message["id"])
    assert meeting.rig.get(f"/deploys/{first['id']}")["state"] == "DELAYED"

    # The reactions that were nobody's then count only when they are made again.
    meeting.ann.react(meeting.room, message["id"], "✅")
    meeting.shows("1", "1 of 2: ann approved")
    meeting.bob.reply(meeting.room, message["id"], "> <@manent> deploy shop\n\napprove, fine")
    assert meeting.rig.ended(first["id"])["state"] == "SUCCESS"
    meeting.shows("1", "Outcome: SUCCESS deployed")
    assert len([one for one in meeting.ours() if " 1 " in one["body"]]) == 1


def test_a_rejection_needs_words_and_nothing_is_missed_while_it_is_down(
    meeting: Meeting, synapse: Synapse
):
    second = meeting.rig.deploy("2")
    message = meeting.asked("2")["id"]
    meeting.ann.react(meeting.room, message, "👎")
    meeting.says("reply to the message: reject, and why")

    meeting.rig.stop()
    for number in range(120):  # more than the homeserver shows at once
        meeting.bob.send(
            meeting.room, "m.room.message", {"msgtype": "m.text", "body": f"chatter {number}"}
        )
        if number == 5:
            meeting.bob.reply(meeting.room, message, "reject: it is Friday")
    meeting.rig.start()
    ended = meeting.rig.ended(second["id"])
    assert (ended["state"], ended["outcome"]) == ("CANCELLED", "rejected")
    meeting.shows("2", "bob rejected (it is Friday)")
    meeting.ann.react(meeting.room, message)
    meeting.says("nothing is asked here any more")
