"""Matrix: a client of ours in a room. It has no buttons: people react, or reply.

Nothing comes to our webhook; who wrote what is the homeserver's word, as our client reads it.
"""

import hashlib
import html
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import quote, urlencode

from manent_server.domain import chat
from manent_server.domain.chat import APPROVE, REJECT, Ballot, Card, Heard, Knock
from manent_server.domain.signature import Fault
from manent_server.observability.chats.line import Declined, Line, Reply, inner, text

_BASE: Final = "/_matrix/client/v3"
_YES: Final = ("👍", "✅", "✔")
_NO: Final = ("👎", "❌", "✖")
_PAGE: Final = 100
_LARGEST: Final = 4 * 2**20
_GONE: Final = 404
_TYPES: Final = ("m.reaction", "m.room.message")


@dataclass(frozen=True)
class Word:
    """What somebody said to a message of ours.

    Attributes:
        id: Of the event.
        user: Who, by the full Matrix id.
        about: The message it refers to.
        decision: `approve` or `reject`; None if it says neither.
        rest: What follows the decision: a rule's name, a comment.
        is_reaction: Whether it is a sign without words.
    """

    id: str
    user: str
    about: str
    decision: str | None
    rest: str
    is_reaction: bool


class Matrix:
    """One room.

    Args:
        line: To the homeserver.
        room: Its id.
    """

    is_kept = False

    def __init__(self, line: Line, room: str) -> None:
        self._line = line
        self._room = f"{_BASE}/rooms/{quote(room, safe='')}"
        self._name = room

    def read(self, knock: Knock) -> Fault:
        """Nobody has to knock: whatever comes this way is not from the homeserver."""
        del knock
        return Fault.UNKNOWN

    def answer(self, heard: Heard, words: str, *, is_done: bool) -> Reply:
        """By a reply in the room; a secret word goes to the person alone."""
        if is_done:
            return Reply()

        def tell() -> None:
            if heard.at("is_private"):
                self._whisper(heard.user, words)
            else:
                self._send(self._room, heard.at("event"), _reply(words, heard.at("event")))

        return Reply(after=tell)

    def ask_comment(self, heard: Heard, ballot: Ballot) -> Reply:
        """A sign has no words."""
        del ballot
        return self.answer(heard, "reply to the message: reject, and why", is_done=False)

    def tell(self, card: Card, message: str | None, *, at: datetime) -> str:
        """Post it, or change the message there is."""
        del at
        content = _content(card)
        if message is None:
            return self._send(self._room, f"{card.key}.{card.digest}", content)
        told = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
        edit = {
            **content,
            "body": f"* {content['body']}",
            "m.new_content": content,
            "m.relates_to": {"rel_type": "m.replace", "event_id": message},
        }
        self._send(self._room, f"{message}.{told}", edit)
        return message

    def find(self, card: Card) -> str | None:
        """None: to post it again makes no second one, the homeserver knows the transaction."""
        del card
        return None

    def join(self) -> str:
        """Be in the room, as it has to be; our own id."""
        self._line.call("POST", f"{_BASE}/join/{quote(self._name, safe='')}", {})
        return text(self._line.call("GET", f"{_BASE}/account/whoami"), "user_id")

    def words(self, since: str | None, wait: timedelta) -> tuple[list[Word], str]:
        """What was said since, and from where to read on; waits if there is nothing yet.

        Nothing is left out: a homeserver that shows only the newest is asked for the rest.

        Raises:
            Declined: The homeserver does not want to say.
            Unreached: It did not answer.
        """
        query = {"filter": json.dumps(self._filter()), "set_presence": "offline"}
        if since is not None:
            query |= {"since": since, "timeout": str(int(wait.total_seconds() * 1000))}
        path = f"{_BASE}/sync?{urlencode(query)}"
        found = self._line.call("GET", path, most=_LARGEST)
        end = text(found, "next_batch")
        timeline = inner(found, "rooms", "join", self._name, "timeline") or {}
        if since is not None and timeline.get("limited"):
            return self._between(since, end), end
        return _words(timeline.get("events")), end

    def _filter(self) -> dict[str, Any]:
        nothing = {"types": [], "limit": 0}
        room = {
            "rooms": [self._name],
            "timeline": {"types": list(_TYPES), "limit": _PAGE},
            "state": {"types": []},
            "ephemeral": nothing,
            "account_data": nothing,
        }
        return {"room": room, "presence": nothing, "account_data": nothing}

    def _between(self, since: str, until: str) -> list[Word]:
        """All of it, however much: only what is said to a message is kept."""
        words: list[Word] = []
        position, before = since, ""
        while position and position != before:
            query = {"dir": "f", "from": position, "to": until, "limit": str(_PAGE)}
            path = f"{self._room}/messages?{urlencode(query)}"
            found = self._line.call("GET", path, most=_LARGEST)
            words += _words(found.get("chunk"))
            position, before = text(found, "end"), position
        return words

    def _send(self, room: str, name: str, content: Mapping[str, Any]) -> str:
        """Send a message; under one name only once, however often it is tried."""
        once = hashlib.sha256(name.encode()).hexdigest()[:32]
        path = f"{room}/send/m.room.message/manent-{once}"
        return text(self._line.call("PUT", path, content), "event_id")

    def _whisper(self, user: str, words: str) -> None:
        me = text(self._line.call("GET", f"{_BASE}/account/whoami"), "user_id")
        path = f"{_BASE}/user/{quote(me, safe='')}/account_data/m.direct"
        known = self._direct(path)
        rooms = known.get(user)
        room = rooms[0] if isinstance(rooms, list) and rooms else None
        if room is None:
            wanted = {"is_direct": True, "preset": "private_chat", "invite": [user]}
            room = text(self._line.call("POST", f"{_BASE}/createRoom", wanted), "room_id")
            self._line.call("PUT", path, {**known, user: [room]})
        self._send(f"{_BASE}/rooms/{quote(str(room), safe='')}", words, _notice(words))

    def _direct(self, path: str) -> dict[str, Any]:
        try:
            return self._line.call("GET", path)
        except Declined as error:
            if error.status != _GONE:
                raise
            return {}


def _words(events: Any) -> list[Word]:
    return [word for word in map(_word, events or ()) if word is not None]


def _word(event: Any) -> Word | None:
    """What an event says to a message; None if it says nothing to any."""
    user, name = text(event, "sender", most=255), text(event, "event_id", most=255)
    content = inner(event, "content")
    if not user or not name or inner(event, "type") not in _TYPES:
        return None
    relates = inner(content, "m.relates_to")
    if inner(event, "type") == "m.reaction":
        about = text(relates, "event_id", most=255)
        sign = _sign(text(relates, "key", most=64))
        return Word(name, user, about, sign, "", is_reaction=True) if about and sign else None
    about = text(relates, "m.in_reply_to", "event_id", most=255)
    if not about or inner(relates, "rel_type") == "m.replace":
        return None
    decision, rest = _said(text(content, "body", most=20000))
    return Word(name, user, about, decision, rest, is_reaction=False) if decision else None


def _sign(key: str) -> str | None:
    if key.startswith(_YES):
        return APPROVE
    return REJECT if key.startswith(_NO) else None


def _said(body: str) -> tuple[str | None, str]:
    """The decision a reply begins with, and the rest; older clients quote what it is about."""
    lines = body.splitlines()
    while lines and (lines[0].startswith(">") or not lines[0].strip()):
        lines.pop(0)
    first, _, rest = " ".join(lines).strip().partition(" ")
    decision = first.strip(".,:;!").casefold()
    return (decision if decision in (APPROVE, REJECT) else None), rest.strip()[:1000]


def _content(card: Card) -> dict[str, Any]:
    rows = chat.lines(card)
    title = chat.plain(card.title)
    ends = _how(card.asked)
    plain = [title, *(f"{label}: {words}" for label, words in rows), card.link, ends]
    shown = "".join(
        f"<li>{_code(label)}: <code>{_code(words)}</code></li>" for label, words in rows
    )
    link = f'<a href="{html.escape(card.link)}">{_code(card.link)}</a>'
    formatted = f"<strong>{_code(title)}</strong><ul>{shown}</ul>{link}<br>{_code(ends)}"
    return {**_notice("\n".join(filter(None, plain))), "formatted_body": formatted} | _HTML


def _how(asked: Sequence[chat.Question]) -> str:
    if not asked:
        return ""
    if len(asked) == 1:
        return "React with 👍 to approve, or reply: approve, or: reject and why."
    names = ", ".join(chat.plain(each.rule, most=40) for each in asked)
    return f"Reply: approve or reject, one of {names}, and why if you reject."


_HTML: Final = {"format": "org.matrix.custom.html"}


def _notice(words: str) -> dict[str, Any]:
    """Text nobody is called by: the empty mentions say so to every client."""
    return {"msgtype": "m.notice", "body": words, "m.mentions": {}}


def _reply(words: str, event: str) -> dict[str, Any]:
    return {**_notice(words), "m.relates_to": {"m.in_reply_to": {"event_id": event}}}


def _code(words: str) -> str:
    return html.escape(words)
