"""Mattermost: actions and dialogs. It signs nothing, so what comes back has to hold our seal.

The seal stands in the context of an action, which the server keeps to itself: only it can send it.
Which user pressed is the server's word; the trigger of the press says the same and when.
"""

import base64
import binascii
import hashlib
import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from manent_server.domain import chat
from manent_server.domain.chat import APPROVE, REJECT, Ballot, Card, Heard, Knock
from manent_server.domain.signature import Fault, Signed
from manent_server.observability.chats.line import Line, Reply, inner, parsed, text
from manent_server.observability.chats.sealing import Sealing

_DIALOG: Final = "dialog_submission"
_TO_WRITE: Final = timedelta(minutes=15)
"""How long a dialog may be open: a reason has to be written."""
_PARTS: Final = 4
_MARK: Final = "manent_deploy"
_NEWEST: Final = 60
_LARGEST: Final = 2 * 2**20
_MILLISECONDS: Final = re.compile(r"[0-9]{1,15}")


class Mattermost:
    """One channel of one team.

    Args:
        line: To the server.
        sealing: What actions and dialogs stand for.
        place: `channel` and `team` that are heard, and no others.
        webhook: Our own address, where the server sends what is pressed.
    """

    is_kept = True

    def __init__(
        self, line: Line, sealing: Sealing, place: Mapping[str, str], webhook: str
    ) -> None:
        self._line = line
        self._sealing = sealing
        self._place = place
        self._webhook = webhook

    def read(self, knock: Knock) -> tuple[Signed, Heard] | Fault:
        """A press of a button, or a dialog sent off."""
        found = parsed(knock.body)
        if found is None:
            return Fault.UNSIGNED
        is_dialog = found.get("type") == _DIALOG
        sealed = text(found, "state") if is_dialog else text(found, "context", "seal")
        values = self._sealing.open(sealed)
        if values is None:
            return Fault.FORGED if sealed else Fault.UNSIGNED
        user = text(found, "user_id", most=64)
        signed = _of_dialog(values, user) if is_dialog else _of_press(found, sealed, user)
        if signed is None:
            return Fault.FORGED
        if any(found.get(f"{key}_id") != self._place[key] for key in ("channel", "team")):
            return Fault.ELSEWHERE
        return signed, _heard(found, values, user, is_dialog=is_dialog)

    def answer(self, heard: Heard, words: str, *, is_done: bool) -> Reply:
        """In the dialog, or by a message only this person sees."""
        if heard.at("kind") == _DIALOG:
            return Reply(body={} if is_done else {"error": words})
        return Reply(body={} if is_done else {"ephemeral_text": _code(words)})

    def ask_comment(self, heard: Heard, ballot: Ballot) -> Reply:
        """Open a dialog: its state is good for this person once."""
        state = {
            **ballot.values(),
            "user": heard.user,
            "nonce": secrets.token_hex(16),
            "made": heard.at("made"),
        }
        body = {
            "trigger_id": heard.at("trigger"),
            "url": self._webhook,
            "dialog": _dialog(self._sealing.seal(state)),
        }

        def ask() -> None:
            self._line.call("POST", "/api/v4/actions/dialogs/open", body)

        return Reply(body={}, after=ask)

    def tell(self, card: Card, message: str | None, *, at: datetime) -> str:
        """Post it, or change the message there is."""
        del at
        props = {_MARK: card.key, "attachments": [self._attachment(card)]}
        content = {"message": "", "props": props}
        if message is not None:
            self._line.call("PUT", f"/api/v4/posts/{message}/patch", content)
            return message
        found = self._line.call(
            "POST", "/api/v4/posts", {"channel_id": self._place["channel"], **content}
        )
        return text(found, "id")

    def find(self, card: Card) -> str | None:
        """Among the newest posts, by what we have written to it for machines."""
        path = f"/api/v4/channels/{self._place['channel']}/posts?per_page={_NEWEST}"
        posts = self._line.call("GET", path, most=_LARGEST).get("posts")
        for each in posts.values() if isinstance(posts, dict) else ():
            if inner(each, "props", _MARK) == card.key:
                return text(each, "id") or None
        return None

    def _attachment(self, card: Card) -> dict[str, Any]:
        many = len(card.asked) > 1
        return {
            "fallback": _code(card.title),
            "title": _code(card.title),
            "title_link": card.link,
            "fields": [
                {"title": label, "value": _code(words), "short": True}
                for label, words in chat.lines(card)
            ],
            "actions": [
                {
                    "id": f"{decision}{number}",
                    "type": "button",
                    "name": f"{label} ({chat.plain(each.rule, most=40)})" if many else label,
                    "style": style,
                    "integration": {
                        "url": self._webhook,
                        "context": {"seal": self._sealing.button(each, decision)},
                    },
                }
                for number, each in enumerate(card.asked)
                for decision, label, style in (
                    (APPROVE, "Approve", "primary"),
                    (REJECT, "Reject", "danger"),
                )
            ],
        }


def _heard(
    found: Mapping[str, Any], values: Mapping[str, Any], user: str, *, is_dialog: bool
) -> Heard:
    trigger = text(found, "trigger_id")
    ballot = chat.ballot(values)
    if is_dialog:
        is_void = found.get("cancelled") is True
        comment = text(found, "submission", "comment")
        return Heard(user, None if is_void else ballot, comment, place=(("kind", _DIALOG),))
    needs = ballot is not None and ballot.decision == REJECT
    place = (("trigger", trigger), ("made", str(_pressed(trigger)[1])))
    return Heard(user, ballot, needs_comment=needs, place=place)


def _of_dialog(values: Mapping[str, Any], user: str) -> Signed | None:
    at = _instant(str(values.get("made", "")))
    nonce = values.get("nonce")
    if at is None or not user or values.get("user") != user or not isinstance(nonce, str):
        return None
    return Signed(nonce, at, _TO_WRITE)


def _of_press(found: Mapping[str, Any], sealed: str, user: str) -> Signed | None:
    """The trigger names the person and the moment; each press has its own."""
    trigger = text(found, "trigger_id")
    presser, made = _pressed(trigger)
    at = _instant(made)
    if at is None or not user or presser != user:
        return None
    return Signed(hashlib.sha256(f"{sealed} {trigger}".encode()).hexdigest(), at)


def _pressed(trigger: str) -> tuple[str, str]:
    """Who and when, as a trigger has it: its id, the user, milliseconds, a signature."""
    try:
        parts = base64.b64decode(trigger, validate=True).decode("ascii").split(":")
    except (binascii.Error, ValueError):
        return "", ""
    return (parts[1], parts[2]) if len(parts) == _PARTS else ("", "")


def _instant(milliseconds: str) -> datetime | None:
    if not _MILLISECONDS.fullmatch(milliseconds):
        return None
    try:
        return datetime.fromtimestamp(int(milliseconds) / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def _code(words: str) -> str:
    """Text in which Mattermost reads nothing: no mention, no link, no markup."""
    return f"`{words.replace('`', chr(39))}`" if words else ""


def _dialog(state: str) -> dict[str, Any]:
    return {
        "callback_id": REJECT,
        "title": "Reject",
        "submit_label": "Reject",
        "state": state,
        "elements": [
            {
                "display_name": "Why?",
                "name": "comment",
                "type": "textarea",
                "max_length": 1000,
            }
        ],
    }
