"""Slack: requests signed with version 0, buttons, a window that asks why."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from urllib.parse import parse_qs

from manent_server.domain import chat, signature
from manent_server.domain.chat import APPROVE, REJECT, Ballot, Card, Heard, Knock, Question
from manent_server.domain.signature import Fault, Signed
from manent_server.observability.chats.line import Declined, Line, Reply, inner, parsed, text
from manent_server.observability.chats.sealing import Sealing

_FIELDS: Final = 10
_TITLE: Final = 150
_WINDOW: Final = "manent-reject"
_COMMENT: Final = "comment"
_RATE: Final = "ratelimited"
_NEWEST: Final = 100
_MARK: Final = "manent_deploy"


class Slack:
    """One channel of one workspace.

    Args:
        line: To Slack's methods.
        keys: Signing secrets.
        sealing: What a button stands for.
        place: `channel`, `team` and `app` that are heard, and no others.
    """

    is_kept = True

    def __init__(
        self, line: Line, keys: Sequence[bytes], sealing: Sealing, place: Mapping[str, str]
    ) -> None:
        self._line = line
        self._keys = keys
        self._sealing = sealing
        self._place = place

    def read(self, knock: Knock) -> tuple[Signed, Heard] | Fault:
        """A press of a button, a window sent off, or something that asks for nothing."""
        signed = signature.slack(self._keys, knock.headers, knock.body)
        if isinstance(signed, Fault):
            return signed
        payload = _payload(knock.body)
        user = text(payload, "user", "id", most=64)
        if payload is None or not user:
            return Fault.UNREADABLE
        if not self._is_ours(payload):
            return Fault.ELSEWHERE
        return signed, self._heard(payload, user)

    def _is_ours(self, payload: Mapping[str, Any]) -> bool:
        channel = inner(payload, "channel", "id") or self._place["channel"]
        return (
            inner(payload, "team", "id") == self._place["team"]
            and payload.get("api_app_id") == self._place["app"]
            and channel == self._place["channel"]
        )

    def _heard(self, payload: Mapping[str, Any], user: str) -> Heard:
        place = (("trigger", text(payload, "trigger_id")), ("kind", text(payload, "type")))
        if payload.get("type") == "view_submission":
            values = self._sealing.open(text(payload, "view", "private_metadata"))
            comment = text(payload, "view", "state", "values", _COMMENT, _COMMENT, "value")
            return Heard(user, self._own(values, user), comment, place=place)
        actions = payload.get("actions")
        one = actions[0] if isinstance(actions, list) and len(actions) == 1 else None
        ballot = self._sealing.ballot(text(one, "value"))
        needs = ballot is not None and ballot.decision == REJECT
        return Heard(user, ballot, needs_comment=needs, place=place)

    def _own(self, values: Mapping[str, Any] | None, user: str) -> Ballot | None:
        return chat.ballot(values) if values and values.get("user") == user else None

    def answer(self, heard: Heard, words: str, *, is_done: bool) -> Reply:
        """In the window, or by a message in the channel that only this person sees."""
        if heard.at("kind") == "view_submission":
            return Reply() if is_done else Reply(body=_refusal(words))
        if is_done:
            return Reply()  # the message itself changes

        def tell() -> None:
            body = {"channel": self._place["channel"], "user": heard.user, **_verbatim(words)}
            self._call("chat.postEphemeral", body)

        return Reply(after=tell)

    def ask_comment(self, heard: Heard, ballot: Ballot) -> Reply:
        """Open a window."""
        sealed = self._sealing.seal({**ballot.values(), "user": heard.user})

        def ask() -> None:
            body = {"trigger_id": heard.at("trigger"), "view": _window(sealed)}
            self._call("views.open", body)

        return Reply(after=ask)

    def tell(self, card: Card, message: str | None, *, at: datetime) -> str:
        """Post it, or change the message there is."""
        del at
        body = {
            "channel": self._place["channel"],
            **_verbatim(card.title),
            "blocks": self._blocks(card),
            "metadata": {"event_type": _MARK, "event_payload": {"key": card.key}},
        }
        if message is not None:
            self._call("chat.update", {**body, "ts": message})
            return message
        return text(self._call("chat.postMessage", body), "ts")

    def find(self, card: Card) -> str | None:
        """Among the newest messages, by what we have written to it for machines."""
        query = {
            "channel": self._place["channel"],
            "limit": _NEWEST,
            "include_all_metadata": True,
        }
        for each in self._call("conversations.history", query).get("messages") or ():
            if inner(each, "metadata", "event_payload", "key") == card.key:
                return text(each, "ts") or None
        return None

    def _call(self, method: str, body: Mapping[str, Any]) -> dict[str, Any]:
        found = self._line.call("POST", f"/{method}", body)
        if found.get("ok") is not True:
            words = text(found, "error", most=100) or "no reason given"
            raise Declined(f"{method}: {words}", 429 if words == _RATE else 400)
        return found

    def _blocks(self, card: Card) -> list[dict[str, Any]]:
        fields = [_plain(f"{label}\n{words}") for label, words in chat.lines(card)]
        return [
            {"type": "header", "text": _plain(chat.plain(card.title, most=_TITLE))},
            *(
                {"type": "section", "fields": fields[at : at + _FIELDS]}
                for at in range(0, len(fields), _FIELDS)
            ),
            *(self._buttons(each, many=len(card.asked) > 1) for each in card.asked),
            {
                "type": "actions",
                "elements": [
                    {
                        "type": "button",
                        "action_id": "open",
                        "text": _plain("Open"),
                        "url": card.link,
                    }
                ],
            },
        ]

    def _buttons(self, question: Question, *, many: bool) -> dict[str, Any]:
        of = f" ({chat.plain(question.rule, most=40)})" if many else ""
        return {
            "type": "actions",
            "elements": [
                {
                    "type": "button",
                    "action_id": decision,
                    "style": style,
                    "text": _plain(f"{label}{of}"),
                    "value": self._sealing.button(question, decision),
                }
                for decision, style, label in (
                    (APPROVE, "primary", "Approve"),
                    (REJECT, "danger", "Reject"),
                )
            ],
        }


def _payload(body: bytes) -> dict[str, Any] | None:
    try:
        form = parse_qs(
            body.decode("utf-8"), strict_parsing=True, errors="strict", max_num_fields=9
        )
    except ValueError:  # what is no UTF-8 is one too
        return None
    found = form.get("payload", [])
    return parsed(found[0].encode("utf-8", "replace")) if len(found) == 1 else None


def _plain(words: str) -> dict[str, Any]:
    """Text in which Slack reads nothing: no mention, no link, no markup."""
    return {"type": "plain_text", "text": words, "emoji": False}


def _verbatim(words: str) -> dict[str, Any]:
    """The same for a message's own text, which has markup of its own."""
    shown = words.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    quiet = {"mrkdwn": False, "parse": "none", "link_names": False}
    return {"text": shown, "unfurl_links": False, "unfurl_media": False, **quiet}


def _window(sealed: str) -> dict[str, Any]:
    return {
        "type": "modal",
        "callback_id": _WINDOW,
        "private_metadata": sealed,
        "title": _plain("Reject"),
        "submit": _plain("Reject"),
        "close": _plain("Back"),
        "blocks": [
            {
                "type": "input",
                "block_id": _COMMENT,
                "label": _plain("Why?"),
                "element": {
                    "type": "plain_text_input",
                    "action_id": _COMMENT,
                    "multiline": True,
                    "max_length": 1000,
                },
            }
        ],
    }


def _refusal(words: str) -> dict[str, Any]:
    return {"response_action": "errors", "errors": {_COMMENT: words[:1000]}}
