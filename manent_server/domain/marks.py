"""What people and manent itself put in the way of deploys: locks, freezes, holds, vetoes, stops."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Sort(StrEnum):
    """What a mark does.

    A lock keeps everything of its scope from starting; a freeze does so from an instant that was
    planned; a hold keeps automation alone back; a veto keeps one version out; a stop is the
    emergency: nothing starts anywhere.
    """

    LOCK = "lock"
    FREEZE = "freeze"
    HOLD = "hold"
    VETO = "veto"
    STOP = "stop"


@dataclass(frozen=True)
class Mark:
    """One of them; `application`, `environment` and `version` None mean any.

    It binds from `starts_at` (None: from the beginning) until `expires_at` (None: until somebody
    lifts it). `automatic`: manent set it, because of the end of `deploy`.
    """

    id: str
    sort: Sort
    application: str | None
    environment: str | None
    version: str | None
    reason: str
    owner: str
    created_at: datetime
    starts_at: datetime | None
    expires_at: datetime | None
    automatic: bool
    deploy: str | None = None
    lifted_at: datetime | None = None

    @property
    def since(self) -> datetime:
        """From when on it binds."""
        return self.created_at if self.starts_at is None else max(self.starts_at, self.created_at)

    def covers(self, application: str, environment: str) -> bool:
        """Whether it speaks of this application in this environment."""
        return self.application in (None, application) and self.environment in (None, environment)

    def bans(self, version: str) -> bool:
        """Whether it speaks of this version."""
        return self.version in (None, version)

    def binds(self, *, at: datetime) -> bool:
        """Whether it has begun and has not expired."""
        return self.since <= at and (self.expires_at is None or self.expires_at > at)

    @property
    def scope(self) -> str:
        """What it speaks of, in words."""
        what = self.application or (
            "every application" if self.environment is not None else "everything"
        )
        if self.version is not None:
            what = f"{self.application or 'every application'} {self.version}"
        return f"{what} in {self.environment}" if self.environment is not None else what
