"""How a pass ends: from what became of its steps to the outcome of its deploy."""

from dataclasses import dataclass
from enum import StrEnum

from manent_server.domain.deploy import Kind, Outcome


class Undoing(StrEnum):
    """What became of the rollback of the touched targets."""

    NONE = "none"
    WORKED = "worked"
    FAILED = "failed"


@dataclass(frozen=True)
class Passed:
    """What a pass came to: every step succeeded, or it failed or was cancelled on the way.

    `is_partial`: a person left targets out.
    """

    kind: Kind
    is_complete: bool
    is_cancelled: bool
    undoing: Undoing
    is_partial: bool = False


def name(passed: Passed) -> Outcome:
    """The outcome.

    A cancel that came when everything was done changes nothing. A rollback that failed is
    never hidden behind a cancel: a person must look.
    """
    if passed.is_complete:
        return Outcome.PARTIAL if passed.is_partial else Outcome.DEPLOYED
    if passed.undoing == Undoing.FAILED:
        return Outcome.ROLLBACK_FAILED
    if passed.is_cancelled:
        return Outcome.CANCELLED
    if passed.kind == Kind.ROLLBACK:
        return Outcome.ROLLBACK_FAILED
    return Outcome.ROLLED_BACK if passed.undoing == Undoing.WORKED else Outcome.FAILED


def should_undo(
    passed: Passed, *, is_automatic: bool, wants_rollback: bool, is_touched: bool
) -> bool:
    """Whether touched targets are brought back now.

    Args:
        passed: Where the pass stands.
        is_automatic: The order says that a failed deploy is rolled back.
        wants_rollback: The cancel asked for it.
        is_touched: Some target was touched that has something to go back to.
    """
    if passed.is_complete or not is_touched or passed.kind == Kind.ROLLBACK:
        return False
    return wants_rollback if passed.is_cancelled else is_automatic
