"""Regate: a deploy that waits takes the rules of today, on purpose."""

from dataclasses import replace
from typing import Any

from manent_server.domain import access
from manent_server.domain import order as orders
from manent_server.domain.access import Caller
from manent_server.domain.awaiting import Stage
from manent_server.domain.deploy import Phase, State
from manent_server.domain.errors import Conflict
from manent_server.domain.order import Order
from manent_server.store import approvals, deploys, queue, records
from manent_server.store.deploys import Deploy
from manent_server.store.records import Deed
from manent_server.store.transaction import Transaction
from manent_server.usecases import identify, inspect, once
from manent_server.usecases.accept import order_for
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import IdempotencyKey, RegateRequest

_GATE = "gate"


def regate(
    desk: Desk,
    address: str,
    request: RegateRequest,
    *,
    caller: Caller,
    key: IdempotencyKey | None = None,
) -> dict[str, Any]:
    """Freeze the rules anew that decide when it may begin: approvals, promotion, collision.

    Where people were asked, what they said counts no more.

    Raises:
        Conflict: It has its place already, or has ended.
        Refused: A program asked for it, and a rule of today wants to know for whom.
    """
    desk = desk.seen_by(caller)
    with desk.store.read() as tx:
        found = desk.deploy_for(tx, address, caller, access.OVERRIDE)
    today = order_for(
        desk, desk.application(found.application), desk.environment(found.environment)
    )

    def work(tx: Transaction) -> str:
        queue.lock_environment(tx, found.environment)
        row = deploys.lock(tx, found.id) or found
        known = once.remembered(tx, caller, key)
        if known is not None:
            return known
        _demand_waiting(tx, row)
        changed = _changed(row, today)
        if "approvals" in changed:
            asks = approvals.subject(row).requester
            identify.demand_known(today.approvals, asks, override=row.override or ())
        if changed:
            _take(tx, row, today)
            detail = {"keys": changed, "reason": request.reason}
            place = (row.id, row.application, row.environment)
            records.write_audit(tx, Deed(caller, "deploy.regated", *place, detail), at=tx.now())
        once.remember(tx, caller, key, row.id)
        return row.id

    deploy = once.run(desk.store, work)
    desk.admission(found.environment, only=[deploy])
    return inspect.deploy(desk, deploy)


def _demand_waiting(tx: Transaction, row: Deploy) -> None:
    is_waiting = row.state in (State.DELAYED, State.ENQUEUED) and row.handed_out_at is None
    if is_waiting and not queue.has_slot(tx, row.id):
        return
    raise Conflict(
        f"deploy {row.id} waits for no gate",
        code="not_waiting",
        next=f"manent explain {row.id} says what it does",
    )


def _changed(row: Deploy, today: Order) -> list[str]:
    """Which of its rules are other ones today."""
    before, after = row.order_body, orders.dump(today)
    keys = ("approvals", "promotion", "collision")
    return [key for key in keys if before.get(key) != after[key]]


def _take(tx: Transaction, row: Deploy, today: Order) -> None:
    order = replace(
        orders.load(row.order_body),
        approvals=today.approvals,
        promotion=today.promotion,
        collision=today.collision,
    )
    body, at = orders.dump(order), tx.now()
    rows = approvals.standing_of(approvals.of_deploy(tx, row.id), row.approval_digest)
    approvals.change(tx, [one.id for one in rows], state=approvals.VOID, closed_at=at)
    deploys.update(
        tx,
        row.id,
        order_body=body,
        order_digest=orders.digest(body),
        state=State.DELAYED,
        phase=Phase.RESOLVING if order.approvals else row.phase,
        ticket=None,
        approval=Stage.RESOLVING if order.approvals else None,
        approval_at=None,
        # Nobody had to agree before: who wrote what it brings is asked for only now.
        changes=row.changes or identify.named_before(tx, order, of=row),
    )
    records.wake(tx, row.id, at, _GATE)
