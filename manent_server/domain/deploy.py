"""The life of a deploy: its states, phases and ends, and which move may follow which."""

from enum import StrEnum


class State(StrEnum):
    """Where a deploy is, in the engine's words."""

    DELAYED = "DELAYED"
    ENQUEUED = "ENQUEUED"
    PENDING = "PENDING"
    SUCCESS = "SUCCESS"
    ERROR = "ERROR"
    CANCELLED = "CANCELLED"


class Phase(StrEnum):
    """What a live deploy does or waits for within its state."""

    RESOLVING = "resolving"
    AWAITING_APPROVAL = "awaiting_approval"
    SCHEDULED = "scheduled"
    STOPPED = "stopped"
    VETOED = "vetoed"
    LOCKED = "locked"
    FROZEN = "frozen"
    HELD = "held"
    UNPROVEN = "unproven"
    BLOCKED = "blocked"
    QUEUED = "queued"
    DISPATCHED = "dispatched"
    PREPARING = "preparing"
    DEPLOYING = "deploying"
    VERIFYING = "verifying"
    SOAKING = "soaking"
    ROLLING_BACK = "rolling_back"
    PAUSED = "paused"
    UNKNOWN = "unknown"
    CANCELLING = "cancelling"
    INTERRUPTED = "interrupted"


class Outcome(StrEnum):
    """How an ended deploy ended."""

    DEPLOYED = "deployed"
    PARTIAL = "partial"
    FAILED = "failed"
    ROLLED_BACK = "rolled_back"
    ROLLBACK_FAILED = "rollback_failed"
    POISONED = "poisoned"
    CANCELLED = "cancelled"
    REJECTED = "rejected"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"
    ABANDONED = "abandoned"


class Kind(StrEnum):
    """What was asked for."""

    DEPLOY = "deploy"
    REDEPLOY = "redeploy"
    ROLLBACK = "rollback"


LIVE = frozenset({State.DELAYED, State.ENQUEUED, State.PENDING})
OUTCOMES = {
    State.SUCCESS: frozenset({Outcome.DEPLOYED, Outcome.PARTIAL}),
    State.ERROR: frozenset(
        {Outcome.FAILED, Outcome.ROLLED_BACK, Outcome.ROLLBACK_FAILED, Outcome.POISONED}
    ),
    State.CANCELLED: frozenset(
        {
            Outcome.CANCELLED,
            Outcome.REJECTED,
            Outcome.EXPIRED,
            Outcome.SUPERSEDED,
            Outcome.ABANDONED,
        }
    ),
}
MOVES = {
    State.DELAYED: frozenset({State.ENQUEUED, State.CANCELLED}),
    State.ENQUEUED: frozenset({State.DELAYED, State.PENDING, State.CANCELLED}),
    State.PENDING: frozenset(
        {State.DELAYED, State.ENQUEUED, State.SUCCESS, State.ERROR, State.CANCELLED}
    ),
    State.SUCCESS: frozenset[State](),
    State.ERROR: frozenset[State](),
    State.CANCELLED: frozenset[State](),
}
# A deploy that ended without anybody knowing what runs keeps its application locked there.
LOCKING = frozenset({Outcome.ROLLBACK_FAILED, Outcome.POISONED, Outcome.ABANDONED})


def state_of(outcome: Outcome) -> State:
    """The state an outcome belongs to."""
    return next(state for state, outcomes in OUTCOMES.items() if outcome in outcomes)


def may_move(start: State, to: State) -> bool:
    """Whether a deploy may go from one state to another; an ended one never moves."""
    return to in MOVES[start]
