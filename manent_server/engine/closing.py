"""Close: the end of a deploy, in one transaction."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from manent_server.domain import inventory as inventories
from manent_server.domain.deploy import LOCKING, Kind, Outcome, state_of
from manent_server.domain.inventory import Change, Knowledge, Standing
from manent_server.store import deploys, marks, queue, records, work
from manent_server.store.deploys import Deploy
from manent_server.store.records import Deed, Stock
from manent_server.store.transaction import Transaction

ACTOR = "manent"


@dataclass(frozen=True)
class Ending:
    """How a deploy ends; `epoch` is the writer's, None for a use case acting on a waiting one."""

    deploy: str
    epoch: int | None
    outcome: Outcome
    actor: str = ACTOR
    error: Mapping[str, Any] | None = None
    superseded_by: str | None = None


def close(tx: Transaction, ending: Ending) -> bool:
    """End the deploy.

    Returns:
        True if it has ended now or had ended by an earlier answer that was lost; False if
        another attempt of its application there may still be at work: ask again.
    """
    row = deploys.lock(tx, ending.deploy)
    if row is None or not row.is_live:
        return True
    if ending.epoch is not None and row.epoch != ending.epoch:
        return True
    at = tx.now()
    if _is_occupied(tx, row, at):
        return False
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
    _skip_steps(tx, row, at)
    queue.free_slot(tx, row.id)
    records.unwake(tx, row.id)
    for change in inventories.changes(standings(tx, row)):
        records.write_stock(tx, _stock(tx, row, change, at))
    _mark(tx, row, ending.outcome, at)
    detail = {"outcome": ending.outcome, "version": row.version, "error": ending.error}
    deed = Deed(ending.actor, "deploy.ended", row.id, row.application, row.environment, detail)
    records.write_audit(tx, deed, at=at)
    return True


def _is_occupied(tx: Transaction, row: Deploy, at: datetime) -> bool:
    return any(
        attempt.lease_until is None or attempt.lease_until > at
        for attempt in work.open_attempts(tx, place=(row.environment, row.application))
        if attempt.deploy == row.id
    )


def _skip_steps(tx: Transaction, row: Deploy, at: datetime) -> None:
    for step in work.read_steps(tx, row.id, pass_number=row.pass_number):
        if step.ended_at is None:
            state = "skipped" if step.state == "waiting" and not step.failures else "failed"
            work.update_step(tx, row.id, row.pass_number, step.name, state=state, ended_at=at)


def touched(tx: Transaction, row: Deploy) -> frozenset[str]:
    """Targets on which the acting hook was handed out and began, in this pass."""
    return _begun(tx, row, _acting(row))


def _begun(tx: Transaction, row: Deploy, step: str) -> frozenset[str]:
    return frozenset(
        attempt.target
        for attempt in work.read_attempts(tx, row.id)
        if attempt.pass_number == row.pass_number
        and attempt.step.split(":", 1)[0] == step
        and attempt.result != "not_started"
    )


def is_half_undone(tx: Transaction, row: Deploy) -> bool:
    """Whether a rollback of the pass was begun on some target and has not succeeded there."""
    if row.kind == Kind.ROLLBACK:
        return False
    steps = {step.name: step for step in work.read_steps(tx, row.id, pass_number=row.pass_number)}
    return any(
        steps[f"rollback:{target}"].state != "succeeded" for target in _begun(tx, row, "rollback")
    )


def _acting(row: Deploy) -> str:
    return "rollback" if row.kind == Kind.ROLLBACK else "deploy"


def standings(tx: Transaction, row: Deploy) -> dict[str, Standing]:
    """How far each target of the pass came."""
    steps = {step.name: step for step in work.read_steps(tx, row.id, pass_number=row.pass_number)}
    reached_by = touched(tx, row)
    undone = _begun(tx, row, "rollback")
    found = {}
    for target in row.order_body["targets"]:
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


def _stock(tx: Transaction, row: Deploy, change: Change, at: datetime) -> Stock:
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
        outputs=past.get("outputs") if returned else _outputs(tx, row, change.target),
        since=at,
        deploy=row.id,
        state=change.state,
    )


def _outputs(tx: Transaction, row: Deploy, target: str) -> Mapping[str, Any] | None:
    step = work.read_step(tx, row.id, row.pass_number, f"{_acting(row)}:{target}")
    return step.outputs if step else None


def _mark(tx: Transaction, row: Deploy, outcome: Outcome, at: datetime) -> None:
    """A rollback holds automation back; an end nobody can vouch for locks the application."""
    place = {"application": row.application, "environment": row.environment, "deploy": row.id}
    is_good_rollback = row.kind == Kind.ROLLBACK and outcome == Outcome.DEPLOYED
    if is_good_rollback:
        marks.lift_automatic(tx, row.application, row.environment, by=row.requested_by, at=at)
    if outcome == Outcome.ROLLED_BACK:
        reason = f"rolled back by {row.environment}#{row.number}"
        marks.insert_hold(
            tx,
            place
            | {
                "id": secrets.token_hex(8),
                "reason": reason,
                "owner": ACTOR,
                "created_at": at,
            },
        )
    if outcome in LOCKING:
        reason = f"{row.environment}#{row.number} ended {outcome}: look at its targets first"
        marks.insert_lock(
            tx,
            place
            | {
                "id": secrets.token_hex(8),
                "reason": reason,
                "owner": ACTOR,
                "created_at": at,
                "automatic": True,
            },
        )
