"""What retention keeps, and the words for it.

A deploy may be deleted when it ended longer ago than the maximum age and nothing below holds
it. Each reason says what would break without the row.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final


class Kept(StrEnum):
    """Why an old deploy stays."""

    LIVE = "live"
    CURRENT = "current"
    RELEASES = "releases"
    PREVIOUS = "previous"
    MARKED = "marked"
    GIVEN_UP = "given_up"
    AUTOMATION = "automation"
    SEQUENCE = "sequence"
    REFERRED = "referred"
    UNFINISHED = "unfinished"


MEANING: Final = {
    Kept.LIVE: "it runs, is queued, or waits",
    Kept.CURRENT: "the inventory says that it is what runs on a target",
    Kept.RELEASES: "it is among the last keep_releases that succeeded in its place",
    Kept.PREVIOUS: "it is what a rollback would go back to, or leads there",
    Kept.MARKED: "a lock, hold or veto in force came of it",
    Kept.GIVEN_UP: "it is the proof that a version still at hand was rolled back from there",
    Kept.AUTOMATION: "a schedule or an automatic promotion decides by it",
    Kept.SEQUENCE: "it carries the highest sequence that succeeded in its place",
    Kept.REFERRED: "a deploy that stays was made of it: a rollback, a promotion, a rerun",
    Kept.UNFINISHED: "a dispatch of it is still on its way through the engine",
}


@dataclass(frozen=True)
class Policy:
    """How much history stays.

    Attributes:
        max_age: Since the end of a deploy; younger ones are never looked at.
        keep_releases: Deploys that succeeded last, kept whatever their age, for each
            application in each environment; one is kept even at 0.
    """

    max_age: timedelta
    keep_releases: int

    @property
    def releases(self) -> int:
        """How many successes stay: what runs is never deleted."""
        return max(1, self.keep_releases)
