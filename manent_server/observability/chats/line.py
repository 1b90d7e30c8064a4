"""The line to a chat's server, and what every chat answers by."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final, Protocol

from manent_server.domain.chat import Ballot, Card, Heard, Knock
from manent_server.domain.signature import Fault, Signed
from manent_server.observability.egress import Egress, Unreached

_AGENT: Final = "manent"
_WORDS: Final = 200
_DEEPEST: Final = 20


class Declined(Exception):
    """The chat's server answered, and did not do it.

    Attributes:
        status: Of the answer.
        retry_after: When it wants to be asked again, as it wrote it.
    """

    def __init__(self, words: str, status: int, retry_after: str | None = None) -> None:
        super().__init__(words)
        self.status = status
        self.retry_after = retry_after


@dataclass(frozen=True)
class Reply:
    """The answer to a request.

    Attributes:
        body: JSON; None is an empty body.
        after: What is done once it has been sent: a chat waits for an answer three seconds only.
    """

    status: int = HTTPStatus.OK
    body: Mapping[str, Any] | None = None
    after: Callable[[], None] | None = None


class Chat(Protocol):
    """One chat by today's configuration."""

    @property
    def is_kept(self) -> bool:
        """Whether its messages are changed where they are; else new content is a new message."""

    def read(self, knock: Knock) -> tuple[Signed, Heard] | Fault:
        """Who says what, if it is the chat that says so."""

    def answer(self, heard: Heard, words: str, *, is_done: bool) -> Reply:
        """Tell the person, and nobody else where the chat can do that."""

    def ask_comment(self, heard: Heard, ballot: Ballot) -> Reply:
        """Ask the person why."""

    def tell(self, card: Card, message: str | None, *, at: datetime) -> str:
        """Show the card, in the message of that id or a new one; the id of the message.

        Args:
            card: What is shown.
            message: The chat's own id of the message there is.
            at: Now.

        Raises:
            Declined: The chat does not want it.
            Unreached: It did not answer.
        """

    def find(self, card: Card) -> str | None:
        """The message of a card, where nobody knows whether it was posted; None: it was not.

        Raises:
            Declined: The chat does not say.
            Unreached: It did not answer.
        """


class Line:
    """Calls to one server, in JSON and with a token."""

    def __init__(self, egress: Egress, url: str, token: str) -> None:
        self._egress = egress
        self._url = url
        self._token = token

    def call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, *, most: int = 262144
    ) -> dict[str, Any]:
        """What the server answers.

        Raises:
            Declined: Not with a status of 2xx.
            Unreached: Not at all, or with no JSON object.
        """
        headers = {
            "authorization": f"Bearer {self._token}",
            "content-type": "application/json; charset=utf-8",
            "user-agent": _AGENT,
        }
        content = json.dumps(body).encode() if body is not None else b""
        url = f"{self._url}{path}"
        answer = self._egress.ask(method, url, headers=headers, content=content, most=most)
        found = parsed(answer.body)
        if answer.status // 100 != HTTPStatus.OK // 100:
            words = _words(found)
            told = f"answered {answer.status}" + (f": {words}" if words else "")
            raise Declined(told, answer.status, answer.retry_after)
        if found is None:
            raise Unreached("the answer is no JSON object")
        return found


def _words(found: Mapping[str, Any] | None) -> str:
    text = next((found[key] for key in ("error", "message") if key in found), "") if found else ""
    return str(text)[:_WORDS]


def parsed(content: bytes) -> dict[str, Any] | None:
    """The JSON object in a body; None for anything else."""
    try:
        found = json.loads(content.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def inner(found: Any, *keys: str) -> Any:
    """What stands under these keys, one inside the other; None if it is not there."""
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def text(found: Any, *keys: str, most: int = 4000) -> str:
    """The text that stands there; empty for anything else."""
    value = inner(found, *keys)
    return value if isinstance(value, str) and len(value) <= most else ""
