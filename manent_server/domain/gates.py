"""Every reason a deploy may not run now: one pure function of facts.

Admission, the prelude, the check between waves and `explain` all ask `closed`, so they
cannot disagree.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from manent_server.domain.deploy import Kind, Phase


@dataclass(frozen=True)
class Lock:
    """Nothing of `application` in `environment` starts while it holds (None means any)."""

    id: str
    application: str | None
    environment: str | None
    reason: str
    owner: str
    created_at: datetime
    expires_at: datetime | None
    automatic: bool
    lifted_at: datetime | None = None

    def covers(self, application: str, environment: str) -> bool:
        """Whether it speaks of this application in this environment."""
        return self.application in (None, application) and self.environment in (None, environment)

    def holds(self, *, at: datetime) -> bool:
        """Whether it has not expired."""
        return self.expires_at is None or self.expires_at > at


@dataclass(frozen=True)
class Asked:
    """What the gates need to know of a deploy."""

    application: str
    environment: str
    kind: Kind
    requested_at: datetime
    not_before: datetime | None = None
    not_after: datetime | None = None


@dataclass(frozen=True)
class ClosedGate:
    """One reason: which gate, since when, when or by whom it opens."""

    gate: str
    phase: Phase
    closed_since: datetime
    opens_at: datetime | None
    opened_by: str
    command: str | None
    detail: str


def closed(asked: Asked, locks: Iterable[Lock], *, at: datetime) -> tuple[ClosedGate, ...]:
    """The gates that are closed now, the one that decides the phase first."""
    found = [_locked(lock) for lock in _binding(asked, locks, at=at)]
    if asked.not_before is not None and asked.not_before > at:
        found.insert(0, _scheduled(asked, asked.not_before))
    return tuple(found)


def stopping(asked: Asked, locks: Iterable[Lock], *, at: datetime) -> tuple[ClosedGate, ...]:
    """What keeps a running deploy from its next wave: locks set since it started.

    Which those are needs no comparison of instants: a lock that was in force at the start would
    have kept it from starting. Automatic ones speak of the end of another deploy.
    """
    set_since = [lock for lock in locks if not lock.automatic]
    return tuple(_locked(lock) for lock in _binding(asked, set_since, at=at))


def is_expired(asked: Asked, *, at: datetime) -> bool:
    """Whether it was not to be started any more."""
    return asked.not_after is not None and asked.not_after <= at


def opens_at(gates: Sequence[ClosedGate]) -> datetime | None:
    """When time alone may have opened one of them: the earliest instant worth a look."""
    instants = [gate.opens_at for gate in gates if gate.opens_at is not None]
    return min(instants, default=None)


def _binding(asked: Asked, locks: Iterable[Lock], *, at: datetime) -> list[Lock]:
    binding = [
        lock
        for lock in locks
        if lock.covers(asked.application, asked.environment)
        and lock.holds(at=at)
        # What an automatic lock guards against is repaired by a rollback: it may pass.
        and not (lock.automatic and asked.kind == Kind.ROLLBACK)
    ]
    return sorted(binding, key=lambda lock: (lock.created_at, lock.id))


def _locked(lock: Lock) -> ClosedGate:
    scope = " in ".join(
        part
        for part in (
            lock.application or ("everything" if not lock.environment else "every application"),
            lock.environment,
        )
        if part
    )
    words = ["manent unlock"]
    words += [lock.environment] if lock.environment else []
    words += ["--application", lock.application] if lock.application else []
    return ClosedGate(
        gate="lock",
        phase=Phase.LOCKED,
        closed_since=lock.created_at,
        opens_at=lock.expires_at,
        opened_by=lock.owner,
        command=" ".join(words),
        detail=f"{scope} is locked by {lock.owner}: {lock.reason}",
    )


def _scheduled(asked: Asked, not_before: datetime) -> ClosedGate:
    return ClosedGate(
        gate="schedule",
        phase=Phase.SCHEDULED,
        closed_since=asked.requested_at,
        opens_at=not_before,
        opened_by="time",
        command=None,
        detail=f"not to be started before {not_before.isoformat()}",
    )
