"""The hand-out and the end of an attempt: the only place that keeps hooks apart.

Nothing acts before a hand-out has committed. The engine checks ownership only when it
saves; these two transactions check it before a hook begins and before its outcome counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from manent_server.domain import effects, retry, suspicion
from manent_server.domain.deploy import Phase, State
from manent_server.domain.order import Retry
from manent_server.domain.plan import Step
from manent_server.domain.retry import Failure
from manent_server.engine import clearance
from manent_server.engine.identity import Identity
from manent_server.plugins.protocol import boottime
from manent_server.plugins.runner import HookEnd
from manent_server.store import deploys, work, workers
from manent_server.store.deploys import Deploy
from manent_server.store.transaction import Transaction
from manent_server.store.work import Attempt, StepRow

_AGAIN = timedelta(seconds=1)
_LONGEST = timedelta(seconds=30)
COUNTED = frozenset({"failed", "timed_out"})
_PHASES = {
    "deploy": Phase.DEPLOYING,
    "verify": Phase.VERIFYING,
    "rollback": Phase.ROLLING_BACK,
    effects.OBSERVE: Phase.DEPLOYING,
}


class Refusal(StrEnum):
    """Why an attempt was not handed out."""

    NOT_MINE = "not_mine"
    CANCELLED = "cancelled"
    OVERDUE = "overdue"
    OCCUPIED = "occupied"
    DONE = "done"
    SUSPECT = "suspect"


@dataclass(frozen=True)
class Errand:
    """An attempt to be handed out; its id and lock file are made before the transaction.

    `lease` is how long it may act without news of its worker; None has no end.
    """

    id: str
    deploy: Deploy
    step: Step
    plugin: str
    identity: Identity
    lock_file: str
    is_undo: bool
    is_trial: bool = False
    lease: timedelta | None = None

    @property
    def is_observing(self) -> bool:
        """Whether it only asks the target what is in place."""
        return self.step.hook == effects.OBSERVE


@dataclass(frozen=True)
class HandOut:
    """The answer: the number of the attempt, or why there is none and until when.

    `lease_until` is the CLOCK_BOOTTIME second at which its hook must be dead; None has no end.
    """

    refusal: Refusal | None
    attempt: int = 0
    checkpoint: Any = None
    until: datetime | None = None
    lease_until: float | None = None


def hand_out(tx: Transaction, errand: Errand) -> HandOut:
    """Insert the attempt, or say why not; repeated with the same errand it answers the same."""
    # Before anything is sent: the count of the database, which begins later, ends later too.
    lease_until = None if errand.lease is None else boottime() + errand.lease.total_seconds()
    row = deploys.lock(tx, errand.deploy.id)
    at = tx.now()
    refusal = _refusal(tx, errand, row, at)
    if refusal is not None or row is None:
        # It may have been handed out by a COMMIT whose answer was lost: nobody acts on that.
        work.update_attempt(tx, errand.id, ended_at=at, result="not_started")
        return HandOut(refusal or Refusal.NOT_MINE)
    around = work.attempts_around(tx, row, errand.step.name)
    before = next((attempt for attempt in around if attempt.id == errand.id), None)
    if before is not None:
        again = _handed_out(tx, errand, before, at)
        return replace(again, lease_until=None if again.refusal else lease_until)
    earlier = work.others(around, row, target=errand.step.target or "")
    occupied = clearance.clear(tx, earlier, at=at)
    if occupied:
        return HandOut(Refusal.OCCUPIED, until=clearance.until(occupied))
    if earlier:  # they were ended just now, as deaths perhaps
        around = work.attempts_around(tx, row, errand.step.name)
    over = _hand_over(tx, errand, row, around)
    return replace(over, lease_until=None if over.refusal else lease_until)


def _hand_over(tx: Transaction, errand: Errand, row: Deploy, around: Sequence[Attempt]) -> HandOut:
    """Nothing is in the way any more."""
    at = tx.now()
    if _is_suspect(around, row, errand.step.name) and not errand.is_trial:
        return HandOut(Refusal.SUSPECT)
    number = sum(1 for attempt in around if _is_of(attempt, row, errand.step.name)) + 1
    step = _begin_step(tx, errand, row, number, at)
    if step is None:
        return HandOut(Refusal.DONE)
    _write(tx, errand, row, number, at)
    return HandOut(None, number, step.checkpoint)


def _handed_out(tx: Transaction, errand: Errand, before: Attempt, at: datetime) -> HandOut:
    """The answer again; the one before was lost, and its lease is counted anew from this one."""
    step = work.read_step(tx, before.deploy, before.pass_number, before.step)
    if step is None or step.ended_at is not None:
        return HandOut(Refusal.DONE)
    if not work.update_attempt(tx, before.id, lease_until=_lease_until(errand, at)):
        return HandOut(Refusal.DONE)
    return HandOut(None, before.attempt, step.checkpoint)


def _is_suspect(around: Sequence[Attempt], row: Deploy, step: str) -> bool:
    """Whether it may be the step that kills its workers."""
    deaths = sum(bool(attempt.died) for attempt in around if _is_of(attempt, row, step))
    return suspicion.is_suspect(deaths)


def _begin_step(
    tx: Transaction, errand: Errand, row: Deploy, number: int, at: datetime
) -> StepRow | None:
    values: dict[str, Any] = {"state": "running", "next_try_at": None}
    if number == 1:
        values["started_at"] = at
    return work.update_step(tx, row.id, row.pass_number, errand.step.name, **values)


def _is_of(attempt: Attempt, row: Deploy, step: str) -> bool:
    place = (attempt.deploy, attempt.pass_number, attempt.step)
    return place == (row.id, row.pass_number, step)


def _refusal(tx: Transaction, errand: Errand, row: Deploy | None, at: datetime) -> Refusal | None:
    if row is None or not is_current(row, errand.deploy):
        return Refusal.NOT_MINE
    if not workers.is_mine(tx, errand.identity.executor, errand.identity.incarnation):
        return Refusal.NOT_MINE
    if row.cancel_requested_at is not None and not (errand.is_undo and row.cancel_rollback):
        return Refusal.CANCELLED
    if not errand.is_undo and row.deadline_at is not None and row.deadline_at <= at:
        return Refusal.OVERDUE
    return None


def is_current(row: Deploy, held: Deploy) -> bool:
    """Whether the row still is the run that holds it: alive, same epoch, same incarnation."""
    return (
        row.state == State.PENDING
        and row.epoch == held.epoch
        and row.incarnation == held.incarnation
    )


def _lease_until(errand: Errand, at: datetime) -> datetime | None:
    return None if errand.lease is None else at + errand.lease


def _write(tx: Transaction, errand: Errand, row: Deploy, number: int, at: datetime) -> None:
    identity, step = errand.identity, errand.step
    work.insert_attempt(
        tx,
        {
            "id": errand.id,
            "deploy": row.id,
            "pass_number": row.pass_number,
            "step": step.name,
            "attempt": number,
            "application": row.application,
            "environment": row.environment,
            "hook": step.hook,
            "target": step.target or "",
            "plugin": errand.plugin,
            "epoch": row.epoch,
            "executor": identity.executor,
            "incarnation": identity.incarnation,
            "hostname": identity.hostname,
            "boot": identity.boot,
            "pid_namespace": identity.pid_namespace,
            "lock_file": errand.lock_file,
            "handed_out_at": at,
            "lease_until": _lease_until(errand, at),
        },
    )
    phase = Phase.ROLLING_BACK if errand.is_undo else _PHASES[step.hook]
    deploys.update(tx, row.id, phase=phase, handed_out_at=row.handed_out_at or at)


@dataclass(frozen=True)
class Result:
    """How an attempt ended, and whether its step stays open for another one."""

    errand: Errand
    attempt: int
    end: HookEnd
    policy: Retry
    is_overdue: bool


def finish(tx: Transaction, result: Result) -> StepRow | None:
    """End the attempt and say what that means for its step, in one transaction.

    An attempt whose processes are known dead is ended whoever owns the deploy now; the step
    is changed only by the current epoch.

    Returns:
        The step as it now stands, or None if the deploy is no longer this run's.
    """
    errand, end = result.errand, result.end
    row = deploys.lock(tx, errand.deploy.id)
    at = tx.now()
    is_news = work.update_attempt(
        tx,
        errand.id,
        ended_at=at,
        result=end.result,
        died=False if end.result == "interrupted" else None,
        error=end.error,
        outputs=end.outputs,
    )
    if row is None or not is_current(row, errand.deploy):
        return None
    if is_news and _is_done(errand, end):
        outputs = None if errand.is_observing else end.outputs
        values = {"state": "succeeded", "outputs": outputs, "ended_at": at, "error": None}
        done = work.update_step(tx, row.id, row.pass_number, errand.step.name, **values)
        if done is not None:
            return done
    step = work.read_step(tx, row.id, row.pass_number, errand.step.name)
    if step is None or step.ended_at is not None or not is_news:
        # Its answer was lost before: attempt and step were changed together then.
        return step
    consequence = _consequence(result, step, at)
    return work.update_step(tx, row.id, row.pass_number, step.name, **consequence)


def _is_done(errand: Errand, end: HookEnd) -> bool:
    """Whether the step has done its work: its hook says so, or the target does."""
    if end.result != "succeeded":
        return False
    return not errand.is_observing or effects.in_place(end.outputs) is True


def _consequence(result: Result, step: StepRow, at: datetime) -> Mapping[str, Any]:
    end = result.end
    if end.result == "cancelled":
        return {"state": "failed", "error": end.error, "ended_at": at}
    if end.result not in COUNTED | {"succeeded"} and not result.is_overdue:
        # What never began or was interrupted costs nothing, but is not tried in a tight loop.
        pause = min(_AGAIN * 2 ** min(result.attempt - 1, 5), _LONGEST)
        return {"state": "waiting", "next_try_at": at + pause}
    if result.errand.is_observing and not result.is_overdue:
        return {"state": "waiting", "next_try_at": None}
    failures = step.failures + 1
    failure = Failure(failures, is_retryable=end.retryable, retry_after=end.retry_after)
    began_at = step.started_at or at
    due = None if result.is_overdue else _due(result.policy, failure, began_at, at)
    error = deadline_error() if result.is_overdue else end.error
    if due is None:
        return {"state": "failed", "error": error, "ended_at": at, "failures": failures}
    return {"state": "waiting", "error": error, "next_try_at": due, "failures": failures}


def _due(policy: Retry, failure: Failure, began_at: datetime, at: datetime) -> datetime | None:
    return retry.next_try(policy, failure, began_at=began_at, at=at)


def deadline_error() -> dict[str, str]:
    """The error of a step that the deploy's deadline ended."""
    return {"code": "deadline", "message": "the deadline of the deploy has passed"}
