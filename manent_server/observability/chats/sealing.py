"""Sealing: what a button, a window or a dialog of ours stands for, proof against changes."""

from collections.abc import Mapping, Sequence
from typing import Any

from manent_server.domain import chat, signature
from manent_server.domain.chat import Ballot, Question


class Sealing:
    """Seals of one chat; those of another mean nothing here.

    Args:
        name: Of the chat.
        keys: The first seals, all are believed.
    """

    def __init__(self, name: str, keys: Sequence[bytes]) -> None:
        self._name = name
        self._keys = keys

    def seal(self, values: Mapping[str, Any]) -> str:
        """Values as a text only we can make."""
        return signature.seal(self._keys[0], {**values, "chat": self._name})

    def open(self, text: str) -> dict[str, Any] | None:
        """The values, if it was made here."""
        values = signature.unseal(self._keys, text) if text else None
        return values if values and values.get("chat") == self._name else None

    def button(self, question: Question, decision: str) -> str:
        """What a button stands for."""
        return self.seal(Ballot(question.id, question.digest, decision).values())

    def ballot(self, text: str) -> Ballot | None:
        """The same, when it was pressed."""
        return chat.ballot(self.open(text))
