"""Questions to a person: a deploy that waits for an answer, and what may be answered."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any


class Topic(StrEnum):
    """What is asked; each is also the phase of the deploy that asks.

    `UNKNOWN`: whether a hook that must not run twice did its work before it was interrupted.
    `PAUSED`: what to do about steps that have used up their tries.
    """

    UNKNOWN = "unknown"
    PAUSED = "paused"


class Answer(StrEnum):
    """What a person may say."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    RETRY = "retry"
    SKIP = "skip"
    ROLLBACK = "rollback"


OFFERED = {
    Topic.UNKNOWN: (Answer.SUCCEEDED, Answer.FAILED, Answer.RETRY),
    Topic.PAUSED: (Answer.RETRY, Answer.SKIP, Answer.ROLLBACK, Answer.FAILED),
}


@dataclass(frozen=True)
class Reply:
    """An answer as it was given; `id` tells it from every other."""

    id: str
    answer: Answer
    by: str
    at: datetime
    reason: str | None


@dataclass(frozen=True)
class Question:
    """What is asked about which steps of which pass, and the replies by step."""

    topic: Topic
    pass_number: int
    steps: tuple[str, ...]
    detail: str
    asked_at: datetime
    replies: Mapping[str, Reply] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def open_steps(self) -> tuple[str, ...]:
        """The steps nobody has answered for."""
        return tuple(step for step in self.steps if step not in self.replies)

    @property
    def is_open(self) -> bool:
        """Whether the deploy waits for a person."""
        return bool(self.open_steps)

    @property
    def last(self) -> Reply | None:
        """The newest reply."""
        return max(self.replies.values(), key=lambda reply: reply.at, default=None)

    def answered(self, steps: tuple[str, ...], reply: Reply) -> "Question":
        """The question with a reply to some of its steps."""
        return replace(self, replies={**self.replies, **dict.fromkeys(steps, reply)})


def dump(question: Question) -> dict[str, Any]:
    """The question as JSON."""
    return {
        "topic": question.topic,
        "pass": question.pass_number,
        "steps": list(question.steps),
        "detail": question.detail,
        "asked_at": question.asked_at.isoformat(),
        "replies": {
            step: {
                "id": reply.id,
                "answer": reply.answer,
                "by": reply.by,
                "at": reply.at.isoformat(),
                "reason": reply.reason,
            }
            for step, reply in question.replies.items()
        },
    }


def load(body: Mapping[str, Any]) -> Question:
    """Read what `dump` wrote."""
    return Question(
        topic=Topic(body["topic"]),
        pass_number=body["pass"],
        steps=tuple(body["steps"]),
        detail=body["detail"],
        asked_at=datetime.fromisoformat(body["asked_at"]),
        replies={
            step: Reply(
                id=reply["id"],
                answer=Answer(reply["answer"]),
                by=reply["by"],
                at=datetime.fromisoformat(reply["at"]),
                reason=reply["reason"],
            )
            for step, reply in body["replies"].items()
        },
    )
