"""Notices: which events a sink is told of, and when one that failed is tried again."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from manent_server.domain.events import NOTICES, Event

PLUGINS: Final = "plugins"
"""The sink of the plugins' hook `deploy_event`; no other may have its name."""
_GONE: Final = 410
_BUSY: Final = 429
_PASSING: Final = frozenset({408, 425, _BUSY})
_RECEIPTS: Final = range(200, 300)
_REDIRECTS: Final = range(300, 400)
_FIRST_FAULT: Final = 500


class NoticeState(StrEnum):
    """How far a notice is."""

    WAITING = "waiting"
    DELIVERED = "delivered"
    DEAD = "dead"


@dataclass(frozen=True)
class Interest:
    """What a sink wants to hear; nothing named is everything.

    Attributes:
        events: Names of events, `lock.*` for all of a kind, `*` for all.
    """

    events: Sequence[str] = ("*",)
    applications: Sequence[str] = ()
    environments: Sequence[str] = ()

    def wants(self, event: Event) -> bool:
        """Whether the sink is told of this event.

        What concerns every application or environment concerns the named ones too.
        """
        if event.type.startswith(NOTICES) or not any(matches(p, event.type) for p in self.events):
            return False
        return _is_among(event.application, self.applications) and _is_among(
            event.environment, self.environments
        )


def matches(pattern: str, event: str) -> bool:
    """Whether a pattern of `notify.<sink>.events` names this event."""
    if pattern.endswith("*"):
        return event.startswith(pattern[:-1])
    return pattern == event


def _is_among(name: str | None, wanted: Sequence[str]) -> bool:
    return not wanted or name is None or name in wanted


@dataclass(frozen=True)
class Retrying:
    """How a notice that failed is tried again, up to `total` after it was made."""

    initial: timedelta
    factor: float
    cap: timedelta
    total: timedelta


@dataclass(frozen=True)
class Verdict:
    """What is done after a try; `next_try_at` None: it has come to its end.

    `turns_off`: the receiver wants nothing of this sink any more.
    """

    state: NoticeState
    next_try_at: datetime | None = None
    turns_off: bool = False


@dataclass(frozen=True)
class Try:
    """One try: the how-manieth, what came of it, and by when the notice has to be delivered.

    Attributes:
        status: Of the answer; None when there was none.
        retry_after: What the receiver asks for.
        chance: 0 to 1, drawn anew each time: many senders must not come back at once.
    """

    number: int
    status: int | None
    at: datetime
    expires_at: datetime
    retry_after: timedelta | None = None
    chance: float = 0.5


def verdict(policy: Retrying, tried: Try) -> Verdict:
    """What follows from a try. Any answer of 2xx is a receipt; a redirect is none."""
    if tried.status in _RECEIPTS:
        return Verdict(NoticeState.DELIVERED)
    if tried.status == _GONE:
        return Verdict(NoticeState.DEAD, turns_off=True)
    due = tried.at + wait(policy, tried)
    if due > tried.expires_at:
        return Verdict(NoticeState.DEAD)
    return Verdict(NoticeState.WAITING, due)


def wait(policy: Retrying, tried: Try) -> timedelta:
    """How long, give or take a fifth; a receiver that asks for longer gets it, up to the cap."""
    own = pause(policy, tried.number) * (0.8 + 0.4 * tried.chance)
    asked = min(tried.retry_after or timedelta(0), policy.cap)
    return max(own, asked)


def pause(policy: Retrying, failures: int) -> timedelta:
    """The wait after so many failures, before chance has its part in it."""
    seconds, cap = policy.initial.total_seconds(), policy.cap.total_seconds()
    for _ in range(failures - 1):
        seconds *= policy.factor
        if seconds >= cap:
            break
    return timedelta(seconds=min(seconds, cap))


def is_down(status: int | None) -> bool:
    """Whether the receiver takes nothing at all now, rather than not this one event."""
    return status is None or status in _PASSING or status >= _FIRST_FAULT


def shown_status(status: int | None) -> str:
    """What a status means, in a few words."""
    if status is None:
        return "no answer"
    words = {_GONE: "the receiver wants no more", _BUSY: "the receiver is busy"}
    if status in _REDIRECTS:
        return f"answered {status}: a redirect is not followed"
    return f"answered {status}" + (f": {words[status]}" if status in words else "")
