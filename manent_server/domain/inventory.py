"""What runs where, after a deploy has ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Standing(StrEnum):
    """How far a target came in the pass that ended."""

    UNTOUCHED = "untouched"
    TOUCHED = "touched"
    REACHED = "reached"
    RETURNED = "returned"


class Knowledge(StrEnum):
    """Whether the row says what runs."""

    KNOWN = "known"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Change:
    """A new inventory row: `brought` (this deploy's version), `returned` (the one before)."""

    target: str
    standing: Standing
    state: Knowledge


def standing(*, touched: bool, reached: bool, returned: bool | None) -> Standing:
    """How far one target came.

    Args:
        touched: An attempt of the acting hook was handed out and began.
        reached: The acting hook and the verification succeeded.
        returned: Its rollback succeeded; None when there was none.
    """
    if returned:
        return Standing.RETURNED
    if returned is None and reached:
        return Standing.REACHED
    return Standing.TOUCHED if touched else Standing.UNTOUCHED


def changes(standings: Mapping[str, Standing]) -> tuple[Change, ...]:
    """The rows to write; untouched targets keep theirs."""
    return tuple(
        Change(
            target,
            how,
            Knowledge.UNKNOWN if how == Standing.TOUCHED else Knowledge.KNOWN,
        )
        for target, how in standings.items()
        if how != Standing.UNTOUCHED
    )
