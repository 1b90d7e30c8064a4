"""Chats: what a person pressed or wrote there, and what is shown of a deploy that waits."""

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

SINK: Final = "chat:"
"""What the sink of a chat is called: this and the chat's name, which no other sink can have."""
APPROVE: Final = "approve"
REJECT: Final = "reject"
_LONGEST: Final = 300
# What turns text around or hides in it.
_HIDDEN: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


@dataclass(frozen=True)
class Ballot:
    """What a button stands for: one decision on one approval, as it was shown.

    Attributes:
        approval: Its id.
        digest: What is approved; another one by now is another question.
        decision: `approve` or `reject`.
    """

    approval: str
    digest: str
    decision: str

    def values(self) -> dict[str, str]:
        """As JSON."""
        return {"approval": self.approval, "digest": self.digest, "decision": self.decision}


def ballot(values: Any) -> Ballot | None:
    """The ballot in JSON somebody sent; None if it is none."""
    if not isinstance(values, dict):
        return None
    found = [values.get(name) for name in ("approval", "digest", "decision")]
    if not all(isinstance(value, str) and 0 < len(value) <= _LONGEST for value in found):
        return None
    if found[2] not in (APPROVE, REJECT):
        return None
    return Ballot(*map(str, found))


@dataclass(frozen=True)
class Knock:
    """A request to a chat's webhook, as it came.

    Attributes:
        headers: By lower-case name; one that came twice is left out.
        address: Of the client.
    """

    headers: dict[str, str]
    body: bytes
    address: str | None = None


@dataclass(frozen=True)
class Heard:
    """What an authentic request says.

    Attributes:
        user: Who, by the chat's own unchanging id.
        ballot: What was decided; None when the request asks for nothing.
        comment: The person's words.
        needs_comment: A rejection whose words are still to be asked for.
        place: Where an answer goes, as the chat has it: a trigger, a user, a channel.
    """

    user: str
    ballot: Ballot | None = None
    comment: str | None = None
    needs_comment: bool = False
    place: tuple[tuple[str, str], ...] = ()

    def at(self, name: str) -> str:
        """A part of the place; empty when it is not there."""
        return dict(self.place).get(name, "")

    def whisper(self) -> "Heard":
        """The same, to be answered to nobody but the person."""
        return replace(self, place=(*self.place, ("is_private", "yes")))


@dataclass(frozen=True)
class Question:
    """One approval a deploy waits for, or has had.

    Attributes:
        id: Of the approval.
        rule: Its name.
        digest: What is approved.
        quorum: How many have to.
        votes: Who has, and how: `ann approved`.
        expires_at: When the waiting ends; None if never or no more.
        is_open: Whether somebody may still decide.
        state: A few words.
    """

    id: str
    rule: str
    digest: str
    quorum: int
    votes: Sequence[str]
    expires_at: datetime | None
    is_open: bool
    state: str


@dataclass(frozen=True)
class Card:
    """What a chat shows of a deploy. Texts are as people wrote them; each chat makes them safe.

    Attributes:
        key: Of the deploy.
        digest: Of what is asked; in a chat whose answers refer to a message and not to what it
            showed, another digest is another message.
        facts: Labels and what they are.
        outcome: How it ended, in a few words; None while it has not.
        link: Where more is to be read.
    """

    key: str
    digest: str
    title: str
    facts: Sequence[tuple[str, str]]
    questions: Sequence[Question]
    outcome: str | None
    link: str

    @property
    def asked(self) -> Sequence[Question]:
        """The approvals somebody may still decide."""
        return [each for each in self.questions if each.is_open]


def is_plain(name: str) -> bool:
    """Whether an id of a chat has nothing in it that hides: no id of any chat has."""
    return not any(unicodedata.category(c) in _HIDDEN for c in name)


def plain(text: str, *, most: int = _LONGEST) -> str:
    """One line of visible characters: no controls, nothing that hides or turns text around."""
    spaced = re.sub(r"\s+", " ", text)
    shown = "".join(c for c in spaced if unicodedata.category(c) not in _HIDDEN).strip()
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def lines(card: Card) -> list[tuple[str, str]]:
    """What every chat shows below the title: labels and safe, but not yet escaped, texts."""
    found = [(label, plain(text)) for label, text in card.facts if text]
    for each in card.questions:
        votes = ", ".join(each.votes) or "nobody yet"
        until = f", until {each.expires_at:%Y-%m-%d %H:%M} UTC" if each.expires_at else ""
        found.append(
            (f"Approval {plain(each.rule)}", plain(f"{each.state}: {votes}{until}", most=600))
        )
    if card.outcome is not None:
        found.append(("Outcome", plain(card.outcome)))
    return found
