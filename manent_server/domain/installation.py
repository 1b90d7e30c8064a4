"""The installation: whether a database is older than what is known of it outside."""

from dataclasses import dataclass
from typing import Final

FENCED: Final = "restore.fenced"
_ROOM: Final = 1_000_000
_DRAWS: Final = 2**32


@dataclass(frozen=True)
class Known:
    """How far an installation had come, as somebody remembers it outside of its database.

    Attributes:
        installation: Its id; no two databases that were made anew have the same.
        epoch: Of the installation: raised whenever a restored database is opened.
        number: The highest number of the audit.
    """

    installation: str
    epoch: int = 0
    number: int = 0

    def with_all_of(self, other: "Known") -> "Known":
        """The further of two memories of one installation."""
        further = max((self.epoch, self.number), (other.epoch, other.number))
        return Known(self.installation, *further)

    def with_number(self, number: int) -> "Known":
        """It, when a number of the record was seen elsewhere."""
        return Known(self.installation, self.epoch, max(self.number, number))


@dataclass(frozen=True)
class Reached:
    """How far a database has come; `began` is the audit number its epoch began after."""

    installation: str
    epoch: int
    began: int
    number: int


def went_back(known: Known, reached: Reached) -> bool:
    """Whether the database is older than what is known of the same installation."""
    if known.epoch == reached.epoch:
        return known.number > reached.number
    # What an earlier epoch came to lies below the beginning of a later one: else a number of
    # the record may have been given twice.
    return known.epoch > reached.epoch or known.number > reached.began


def next_epoch(known: Known, reached: Reached) -> int:
    """The epoch that begins when a restored database is opened."""
    return max(known.epoch, reached.epoch) + 1


def next_number(known: Known, reached: Reached) -> int:
    """The audit number a new epoch begins with.

    What was numbered after the last look at the database is known to nobody here: it begins far
    beyond what that can have been.
    """
    return max(known.number, reached.number) + _ROOM + 1


def least_epoch_of_deploys(epoch: int) -> int:
    """Above this all epochs of deploys lie that are drawn in an epoch of the installation.

    How many had been drawn is known to nobody outside: each epoch has a range of its own.
    """
    return (epoch - 1) * _DRAWS
