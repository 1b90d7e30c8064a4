"""What an installation looks like at one moment, in few numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from manent_server.domain.tally import Key


@dataclass(frozen=True)
class Group:
    """Live deploys that stand alike."""

    environment: str
    state: str
    phase: str
    executor: str | None
    count: int
    cancel_since: datetime | None


@dataclass(frozen=True)
class Tenancy:
    """A lease: its token, until when somebody has it, and how long it rests between rounds."""

    name: str
    token: int
    until: datetime
    rests: timedelta = timedelta(0)


@dataclass(frozen=True)
class Census:
    """One look at the database.

    Attributes:
        at: The database's clock.
        live: Live deploys by how they stand.
        taken_since: Since when the oldest place of an environment is taken.
        approvals: How many wait for people, and since when the oldest.
        marks: Marks in force, by sort and whether manent set them.
        leases: Of the loops that are to run.
        configurations: How many different digests live workers run with.
        is_fenced: Whether a database that went back in time waits for a person.
        tallies: What deploys have added up to.
    """

    at: datetime
    live: Sequence[Group] = ()
    taken_since: Mapping[str, datetime] = field(default_factory=dict)
    approvals: tuple[int, datetime | None] = (0, None)
    marks: Mapping[tuple[str, bool], int] = field(default_factory=dict)
    leases: Sequence[Tenancy] = ()
    configurations: int = 0
    is_fenced: bool = False
    tallies: Mapping[Key, int] = field(default_factory=dict)

    def since(self, instant: datetime | None) -> float:
        """Seconds since then; 0 for never."""
        return max(0.0, (self.at - instant).total_seconds()) if instant is not None else 0.0
