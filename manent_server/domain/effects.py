"""Hooks whose effects must happen once: what may be done after one of them was cut short."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

OBSERVE = "observe"
ONCE = "once"
ACTING = frozenset({"deploy", "rollback"})
# How a hook ends that may have done its work, or a part of it, without saying so.
UNSURE = frozenset({None, "interrupted", "timed_out"})


class Move(StrEnum):
    """What comes next: run the hook, ask the target what is in place, or ask a person."""

    RUN = "run"
    OBSERVE = "observe"
    ASK = "ask"


@dataclass(frozen=True)
class Last:
    """The last attempt of a step that began; `result` is None while nobody has seen its end.

    `resolved`: a person has answered for it.
    """

    hook: str
    result: str | None
    outputs: Mapping[str, Any] | None
    resolved: str | None


def next_move(last: Last | None, *, can_observe: bool) -> Move:
    """What may be done now about a step that must not happen twice."""
    if last is None or last.resolved is not None:
        return Move.RUN
    if last.hook == OBSERVE:
        return _after_observing(last)
    if last.result in UNSURE:
        return Move.OBSERVE if can_observe else Move.ASK
    return Move.RUN


def _after_observing(last: Last) -> Move:
    if last.result in (None, "interrupted"):
        return Move.OBSERVE
    is_told = last.result == "succeeded" and in_place(last.outputs) is not None
    return Move.RUN if is_told else Move.ASK


def in_place(outputs: Mapping[str, Any] | None) -> bool | None:
    """What an observation says: whether the version is in place; None when it cannot tell."""
    found = (outputs or {}).get("in_place")
    return found if isinstance(found, bool) else None
