"""Close: the end of a deploy, in one transaction."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from manent_server.domain import inventory as inventories
from manent_server.domain.access import Caller
from manent_server.domain.deploy import LOCKING, Kind, Outcome, state_of
from manent_server.domain.inventory import Change, Knowledge, Standing
from manent_server.domain.marks import Mark, Sort
from manent_server.engine import clearance
from manent_server.store import approvals, deploys, marks, queue, records, work
from manent_server.store.deploys import Deploy
from manent_server.store.records import Deed, Stock
from manent_server.store.transaction import Transaction
from manent_server.store.work import Attempt, StepRow

ACTOR = "manent"


class Close(Enum):
    """What came of asking for an end; every one but `LATER` is final."""

    ENDED = "now, or by an earlier answer that was lost"
    FOREIGN = "the deploy is not the writer's any more"
    LATER = "another attempt of its application there may still be at work: ask again"


@dataclass(frozen=True)
class Ending:
    """How a deploy ends; `epoch` is the writer's, None for a use case acting on a waiting one.

    `is_on_word`: a person vouches for it, whatever may still be at work; `vouched`: and for how far
    every target came.
    """

    deploy: str
    epoch: int | None
    outcome: Outcome
    actor: Caller | str = ACTOR
    error: Mapping[str, Any] | None = None
    superseded_by: str | None = None
    is_on_word: bool = False
    vouched: Standing | None = None


def close(tx: Transaction, ending: Ending) -> bool:
    """End the deploy; False if that has to wait."""
    return conclude(tx, ending) != Close.LATER


def conclude(tx: Transaction, ending: Ending) -> Close:
    """End the deploy, and say what came of it."""
    row = deploys.lock(tx, ending.deploy)
    if row is None or (ending.epoch is not None and row.epoch != ending.epoch):
        return Close.FOREIGN
    if not row.is_live:
        return Close.ENDED
    at = tx.now()
    course = _course(tx, row)
    left = [attempt for attempt in course.attempts if attempt.ended_at is None]
    if clearance.clear(tx, left, at=at) and not ending.is_on_word:
        return Close.LATER
    deploys.update(
        tx,
        row.id,
        state=state_of(ending.outcome),
        phase=None,
        outcome=ending.outcome,
        ended_at=at,
        error=ending.error,
        superseded_by=ending.superseded_by,
        blocked=None,
    )
    _skip_steps(tx, row, course, at)
    queue.free_slot(tx, row.id)
    records.unwake(tx, row.id)
    if row.approval is not None:
        is_late = ending.outcome == Outcome.EXPIRED
        state = approvals.EXPIRED if is_late else approvals.ENDED
        approvals.close(tx, row.id, state, at=at)
    standings = _standings(row, course) if ending.vouched is None else _vouched(row, ending.vouched)
    for change in inventories.changes(standings):
        records.write_stock(tx, _stock(row, course, change, at))
    _mark(tx, row, ending.outcome, at)
    detail = {"outcome": ending.outcome, "version": row.version, "error": ending.error}
    if ending.superseded_by is not None:
        detail["superseded_by"] = ending.superseded_by
    detail |= _told(row)
    deed = Deed(
        ending.actor,
        "deploy.ended",
        row.id,
        row.application,
        row.environment,
        detail,
        before=row.standing,
        after={"state": state_of(ending.outcome), "outcome": ending.outcome},
    )
    records.write_audit(tx, deed, at=at)
    return Close.ENDED


def _told(row: Deploy) -> dict[str, Any]:
    """What a listener wants to know of an end without asking."""
    return {
        "number": row.number,
        "kind": row.kind,
        "sha256": row.sha256 or inventories.digest(row.prepared),
        "root": row.root,
        "replaces": row.replaces,
    }


@dataclass(frozen=True)
class _Course:
    """What has been done: the steps of the pass by name, and every attempt of the deploy."""

    steps: Mapping[str, StepRow]
    attempts: Sequence[Attempt]

    def begun(self, row: Deploy, step: str) -> frozenset[str]:
        """Targets on which such a step was handed out and began, in this pass or one before."""
        handed_out = frozenset(
            attempt.target
            for attempt in self.attempts
            if attempt.step.split(":", 1)[0] == step and attempt.result != "not_started"
        )
        return handed_out | self._carried(row, step)

    def since(self, target: str) -> datetime | None:
        """When what runs there was brought, if this deploy only took it over."""
        mine = [step for step in self.steps.values() if step.target == target]
        ends = [step.ended_at for step in mine if step.carried_from is not None]
        return max(filter(None, ends), default=None) if len(ends) == len(mine) else None

    def _carried(self, row: Deploy, step: str) -> frozenset[str]:
        """Targets such a step of the deploy this one reruns had changed."""
        brought = (row.prepared or {}).get("carried", ())
        return frozenset(target for target in brought if self._has(f"{step}:{target}"))

    def _has(self, name: str) -> bool:
        return name in self.steps and self.steps[name].carried_from is not None


def _course(tx: Transaction, row: Deploy) -> _Course:
    steps = work.read_steps(tx, row.id, pass_number=row.pass_number)
    return _Course({step.name: step for step in steps}, work.read_attempts(tx, row.id))


def _skip_steps(tx: Transaction, row: Deploy, course: _Course, at: datetime) -> None:
    for step in course.steps.values():
        if step.ended_at is None:
            state = "skipped" if step.started_at is None else "failed"
            work.update_step(tx, row.id, row.pass_number, step.name, state=state, ended_at=at)


def touched(tx: Transaction, row: Deploy) -> frozenset[str]:
    """Targets on which the acting hook was handed out and began, in this pass."""
    return _course(tx, row).begun(row, _acting(row))


def is_half_undone(tx: Transaction, row: Deploy) -> bool:
    """Whether a rollback of the pass was begun on some target and has not succeeded there."""
    if row.kind == Kind.ROLLBACK:
        return False
    course = _course(tx, row)
    return any(
        course.steps[f"rollback:{target}"].state != "succeeded"
        for target in course.begun(row, "rollback")
    )


def _acting(row: Deploy) -> str:
    return "rollback" if row.kind == Kind.ROLLBACK else "deploy"


def _standings(row: Deploy, course: _Course) -> dict[str, Standing]:
    """How far each target of the pass came."""
    steps = course.steps
    reached_by = course.begun(row, _acting(row))
    undone = course.begun(row, "rollback")
    found = {}
    # Also those an order that cannot be read does not name any more.
    for target in dict.fromkeys((*row.order_body.get("targets", ()), *sorted(reached_by))):
        acting = steps.get(f"{_acting(row)}:{target}")
        verify = steps.get(f"verify:{target}")
        undo = steps.get(f"rollback:{target}") if row.kind != Kind.ROLLBACK else None
        undo = undo if target in undone else None
        good = acting is not None and acting.state == "succeeded"
        good = good and (verify is None or verify.state == "succeeded")
        returned = None if undo is None else undo.state == "succeeded"
        found[target] = inventories.standing(
            touched=target in reached_by, reached=good, returned=returned
        )
    return found


def _vouched(row: Deploy, standing: Standing) -> dict[str, Standing]:
    """As a person says; what a target went back to is known only where `prepare` fixed it."""
    past = (row.prepared or {}).get("past", {})
    return {
        target: Standing.TOUCHED
        if standing == Standing.RETURNED and not past.get(target)
        else standing
        for target in row.order_body.get("targets", ())
    }


def _stock(row: Deploy, course: _Course, change: Change, at: datetime) -> Stock:
    prepared = row.prepared or {}
    past = prepared.get("past", {}).get(change.target) or {}
    returned = change.standing == Standing.RETURNED
    artifact = (
        past.get("artifact") if returned else prepared.get("artifacts", {}).get(change.target)
    )
    known = change.state == Knowledge.KNOWN
    return Stock(
        application=row.application,
        environment=row.environment,
        target=change.target,
        version=(past.get("version") if returned else row.version) if known else None,
        sha256=artifact["sha256"] if artifact and known else None,
        configuration=(past if returned else prepared).get("configuration_digest")
        if known
        else None,
        outputs=_returned_outputs(course, change.target, past)
        if returned
        else _outputs(row, course, change.target),
        since=course.since(change.target) or at,
        deploy=row.id,
        state=change.state,
    )


def _returned_outputs(course: _Course, target: str, past: Mapping[str, Any]) -> Any:
    """What the rollback said of the target, else what the deploy gone back to had said."""
    undo = course.steps.get(f"rollback:{target}")
    return (undo.outputs if undo else None) or past.get("outputs")


def _outputs(row: Deploy, course: _Course, target: str) -> Mapping[str, Any] | None:
    step = course.steps.get(f"{_acting(row)}:{target}")
    return step.outputs if step else None


def _mark(tx: Transaction, row: Deploy, outcome: Outcome, at: datetime) -> None:
    """A rollback holds automation back; an end nobody can vouch for locks the application.

    A good rollback lifts the automatic lock; a later good deploy that a person asked for, the hold.
    """
    if outcome == Outcome.DEPLOYED:
        _lift(tx, row, Sort.LOCK if row.kind == Kind.ROLLBACK else Sort.HOLD, at)
    if outcome == Outcome.ROLLED_BACK:
        _set(tx, row, Sort.HOLD, "was rolled back", at)
    if outcome in LOCKING:
        lock(tx, row, f"ended {outcome}: look at its targets first", at=at)


def _lift(tx: Transaction, row: Deploy, sort: Sort, at: datetime) -> None:
    if sort == Sort.HOLD and row.origin != deploys.REQUEST:
        return
    standing = marks.of_place(tx, row.application, row.environment, sort=sort, at=at)
    mine = [mark for mark in standing if mark.automatic]
    marks.lift(tx, [mark.id for mark in mine], by=row.requested_by, at=at)
    for mark in mine:
        marks.record(tx, mark, "lifted", by=row.requested_by, at=at)


def lock(tx: Transaction, row: Deploy, words: str, *, at: datetime) -> None:
    """Set the automatic lock on the deploy's application there: somebody must look first."""
    _set(tx, row, Sort.LOCK, words, at)


def _set(tx: Transaction, row: Deploy, sort: Sort, words: str, at: datetime) -> None:
    mark = Mark(
        id=secrets.token_hex(8),
        sort=sort,
        application=row.application,
        environment=row.environment,
        version=None,
        reason=f"{row.environment}#{row.number} {words}",
        owner=ACTOR,
        created_at=at,
        starts_at=None,
        expires_at=None,
        automatic=True,
        deploy=row.id,
    )
    marks.insert(tx, mark)
    marks.record(tx, mark, "set", by=ACTOR, at=at)
