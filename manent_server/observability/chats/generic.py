"""Any other chat, by a bridge that signs as Standard Webhooks has it and is told the same way."""

import hashlib
import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from manent_server.domain import chat, signature
from manent_server.domain.chat import Ballot, Card, Heard, Knock
from manent_server.domain.signature import Fault, Signed
from manent_server.observability import webhook
from manent_server.observability.chats.line import Declined, Reply, parsed, text
from manent_server.observability.egress import Egress

_REFUSED: Final = 403
_KIND: Final = "application/json"


class Generic:
    """A bridge.

    Args:
        egress: How it is told.
        url: Where; None: nowhere.
        keys: What both sign with.
    """

    is_kept = True

    def __init__(self, egress: Egress, url: str | None, keys: Sequence[bytes]) -> None:
        self._egress = egress
        self._url = url
        self._keys = keys

    def read(self, knock: Knock) -> tuple[Signed, Heard] | Fault:
        """A decision."""
        signed = signature.standard(self._keys, knock.headers, knock.body)
        if isinstance(signed, Fault):
            return signed
        found = parsed(knock.body)
        user = text(found, "user", most=255)
        if found is None or not user:
            return Fault.UNREADABLE
        comment = text(found, "comment") or None
        return signed, Heard(user, chat.ballot(found), comment)

    def answer(self, heard: Heard, words: str, *, is_done: bool) -> Reply:
        """In the answer itself: the bridge tells the person."""
        del heard
        return Reply(200 if is_done else _REFUSED, {"ok": is_done, "message": words})

    def ask_comment(self, heard: Heard, ballot: Ballot) -> Reply:
        """The bridge has asked already."""
        del ballot
        return self.answer(heard, "say why: a rejection needs a comment", is_done=False)

    def tell(self, card: Card, message: str | None, *, at: datetime) -> str:
        """Send it; the key says which message it belongs to."""
        if self._url is None:
            return card.key
        content = json.dumps(_body(card, is_new=message is None)).encode()
        moment = int(at.timestamp())
        name = f"{card.key}.{hashlib.sha256(content).hexdigest()[:16]}"
        headers = webhook.headers(self._keys, message=name, timestamp=moment, content=content)
        answer = self._egress.post(
            self._url, headers={**headers, "content-type": _KIND}, content=content
        )
        if answer.status // 100 != 2:  # noqa: PLR2004 - any 2xx is a receipt
            raise Declined(f"answered {answer.status}", answer.status, answer.retry_after)
        return card.key

    def find(self, card: Card) -> str | None:
        """The bridge knows the message by its key: to send it again makes no second one."""
        return card.key


def _body(card: Card, *, is_new: bool) -> dict[str, Any]:
    return {
        "message": card.key,
        "is_new": is_new,
        "title": chat.plain(card.title),
        "facts": [{"label": label, "text": words} for label, words in chat.lines(card)],
        "approvals": [
            {"approval": each.id, "rule": each.rule, "digest": each.digest} for each in card.asked
        ],
        "outcome": card.outcome,
        "url": card.link,
    }
