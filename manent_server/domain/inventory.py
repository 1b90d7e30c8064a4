"""What runs where, after a deploy has ended."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


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


def digest(prepared: Mapping[str, Any] | None) -> str | None:
    """The digest of what was deployed, where all targets got the same.

    Args:
        prepared: What the step `prepare` fixed.
    """
    artifacts = (prepared or {}).get("artifacts", {}).values()
    digests = {artifact["sha256"] for artifact in artifacts}
    return digests.pop() if len(digests) == 1 else None
