"""Cancel: one write on the deploy row; whoever runs the deploy reads it within a second."""

import secrets
from dataclasses import dataclass
from typing import Any

from manent_server.domain import access
from manent_server.domain.access import Caller
from manent_server.domain.deploy import Outcome, Phase, State
from manent_server.domain.errors import Conflict
from manent_server.engine import closing
from manent_server.engine.closing import Ending
from manent_server.store import deploys, records
from manent_server.store.deploys import Deploy
from manent_server.store.records import Deed
from manent_server.store.transaction import Transaction
from manent_server.usecases import executors, inspect, once, vouch
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import CancelRequest, IdempotencyKey


def cancel(
    desk: Desk,
    address: str,
    request: CancelRequest,
    *,
    caller: Caller,
    key: IdempotencyKey | None = None,
) -> dict[str, Any]:
    """Stop a deploy: at once before its first attempt, else as soon as its hook has ended.

    Raises:
        Conflict: It has ended otherwise.
    """
    desk = desk.seen_by(caller)
    environments: list[str] = []
    mine = secrets.token_hex(16)

    def work(tx: Transaction) -> str:
        found = desk.deploy_for(tx, address, caller, access.CANCEL)
        row = deploys.lock(tx, found.id) or found
        known = once.remembered(tx, caller, key)
        if known is not None:
            return known
        if records.read_detail(tx, mine) is None:  # else an earlier answer was lost
            _cancel(tx, desk, row, _Asked(request, caller, mine))
        environments[:] = [row.environment]
        once.remember(tx, caller, key, row.id)
        return row.id

    deploy = once.run(desk.store, work)
    for environment in environments:
        desk.admission(environment)
    return inspect.deploy(desk, deploy)


@dataclass(frozen=True)
class _Asked:
    """Who asks for what; `id` is that of the deed, by which a repeated transaction finds it."""

    request: CancelRequest
    caller: Caller
    id: str


def _cancel(tx: Transaction, desk: Desk, row: Deploy, asked: _Asked) -> None:
    request, caller = asked.request, asked.caller
    leaves_touched = row.handed_out_at is not None and not row.cancel_rollback
    if row.state == State.CANCELLED and not (request.rollback and leaves_touched):
        return
    if not row.is_live:
        raise Conflict(
            f"the deploy has ended: {row.state}, {row.outcome}",
            code="deploy_ended",
            next="a rollback brings back what ran before"
            if row.state == State.SUCCESS
            else f"there is nothing to cancel; manent show {row.id} says how it ended",
        )
    at = tx.now()
    is_first = row.cancel_requested_at is None
    deploys.update(
        tx,
        row.id,
        cancel_requested_at=row.cancel_requested_at or at,
        cancel_by=caller.name,
        cancel_rollback=_wants_rollback(row, request),
        cancel_reason=request.reason,
    )
    detail = {"rollback": request.rollback, "reason": request.reason}
    place = row.application, row.environment
    asked_for = {"is_asked": True, "rollback": _wants_rollback(row, request)}
    before = {**row.standing, "cancel": {"is_asked": not is_first, "rollback": row.cancel_rollback}}
    deed = Deed(
        caller,
        "deploy.cancel",
        row.id,
        *place,
        detail,
        id=asked.id,
        before=before,
        after={**row.standing, "cancel": asked_for},
    )
    records.write_audit(tx, deed, at=at)
    if row.handed_out_at is None:
        closing.close(tx, Ending(row.id, None, Outcome.CANCELLED, actor=caller))
    elif row.executor is None or executors.is_abandoned(tx, desk, row):
        _conclude_unowned(tx, desk, row, caller)
    elif is_first and row.phase != Phase.ROLLING_BACK:
        deploys.update(tx, row.id, phase=Phase.CANCELLING)


def _conclude_unowned(tx: Transaction, desk: Desk, row: Deploy, caller: Caller) -> None:
    """End what nobody runs: where no lease ends an attempt of a lost worker, a person's word does.

    What its leases keep busy is ended by the reconciler of any process, when they are over.
    """
    ended = vouch.end_left(tx, desk, row, by=caller.name)
    if ended:
        lost = ", ".join(sorted({attempt.executor for attempt in ended}))
        words = (
            f"cancelled while {lost} was lost: that {lost} is down rests on the word of "
            f"{caller.name}; a hook still at work there could meet the next deploy"
        )
        deploys.update(tx, row.id, warnings=[*(row.warnings or ()), words])
        detail = {"rests_on": words, "attempts": [attempt.id for attempt in ended]}
        deed = Deed(caller, "deploy.vouched", row.id, row.application, row.environment, detail)
        records.write_audit(tx, deed, at=tx.now())
    if not conclude(tx, desk, row.id, actor=caller) and row.phase != Phase.ROLLING_BACK:
        deploys.update(tx, row.id, phase=Phase.CANCELLING)


def _wants_rollback(row: Deploy, request: CancelRequest) -> bool:
    """A rollback once asked for stays asked for, until a plain cancel ends it at work."""
    if row.phase == Phase.ROLLING_BACK and not request.rollback:
        return False
    return request.rollback or row.cancel_rollback


def conclude(tx: Transaction, desk: Desk, deploy: str, *, actor: Caller | str) -> bool:
    """End a cancelled deploy that nobody runs: roll it back if asked, else close it.

    Returns:
        False while an attempt of it may still be at work.
    """
    row = deploys.lock(tx, deploy)
    if row is None or not row.is_live:
        return True
    if row.cancel_rollback:
        desk.dispatcher.dispatch(tx, row.id, state=State.PENDING, phase=Phase.ROLLING_BACK)
        records.unwake(tx, row.id)
        return True
    # A rollback that was cut short is never hidden behind the cancel: somebody must look.
    outcome = Outcome.ROLLBACK_FAILED if closing.is_half_undone(tx, row) else Outcome.CANCELLED
    return closing.close(tx, Ending(row.id, None, outcome, actor=actor))
