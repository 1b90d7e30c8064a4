"""Skip wait: end a wait for time alone, on a person's word."""

from datetime import timedelta
from typing import Any

from manent_server.domain import access, gates
from manent_server.domain.access import Caller
from manent_server.domain.deploy import State
from manent_server.domain.errors import Conflict
from manent_server.engine import soaking
from manent_server.store import deploys, facts, records, work
from manent_server.store.deploys import Deploy
from manent_server.store.records import Deed
from manent_server.store.transaction import Transaction
from manent_server.usecases import inspect, once
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import IdempotencyKey, SkipRequest

SOAK = "soak"
TIMER = "schedule"


def skip_wait(
    desk: Desk,
    address: str,
    request: SkipRequest,
    *,
    caller: Caller,
    key: IdempotencyKey | None = None,
) -> dict[str, Any]:
    """Let a deploy go on that waits for its first instant, for a soak or between waves.

    What people and rules have closed stays closed: locks, freezes, windows, holds, vetoes, stops.

    Raises:
        Conflict: It waits for no timer.
    """
    desk = desk.seen_by(caller)
    places: list[tuple[str, str]] = []

    def work_on(tx: Transaction) -> str:
        found = desk.deploy_for(tx, address, caller, access.OVERRIDE)
        row = deploys.lock(tx, found.id) or found
        known = once.remembered(tx, caller, key)
        if known is not None:
            return known
        skipped = _skip(tx, row)
        if not skipped:
            raise _nothing(row)
        detail = {"skipped": skipped, "reason": request.reason}
        deed = Deed(
            caller,
            "deploy.wait_skipped",
            row.id,
            row.application,
            row.environment,
            detail,
            before=row.standing,
        )
        records.write_audit(tx, deed, at=tx.now())
        places[:] = [(row.environment, row.id)] if row.state == State.DELAYED else []
        once.remember(tx, caller, key, row.id)
        return row.id

    deploy = once.run(desk.store, work_on)
    for environment, waiting in places:
        desk.admission(environment, only=[waiting])
    return inspect.deploy(desk, deploy)


def _skip(tx: Transaction, row: Deploy) -> list[str]:
    """The waits that are ended, by name."""
    if row.state == State.DELAYED:
        return _before_the_start(tx, row)
    if row.state == State.PENDING and row.cancel_requested_at is None:
        return _between_waves(tx, row)
    return []


def _before_the_start(tx: Transaction, row: Deploy) -> list[str]:
    closed = gates.closed(row.asked, facts.read(tx, row.environment, [row.asked]))
    waits = [gate.gate for gate in closed if gate.gate in (SOAK, TIMER)]
    if TIMER in waits:
        deploys.update(tx, row.id, not_before=tx.now())
    if SOAK in waits:
        deploys.update(tx, row.id, override=[*(row.override or ()), SOAK])
    return waits


def _between_waves(tx: Transaction, row: Deploy) -> list[str]:
    steps = work.read_steps(tx, row.id, pass_number=row.pass_number)
    step = next((one for one in steps if one.hook == SOAK and one.state == "running"), None)
    if step is None:
        return []
    soak = timedelta(seconds=row.order_body["limits"]["soak"])
    soaking.end(tx, row, step, soak=soak)
    wake = records.wake_of(tx, row.id)
    if wake is not None and wake[1] == SOAK:
        records.wake(tx, row.id, tx.now(), SOAK)
    return [step.name]


def _nothing(row: Deploy) -> Conflict:
    return Conflict(
        f"deploy {row.id} waits for no timer",
        code="no_wait",
        next=f"manent explain {row.id} says what it waits for, and who opens it",
    )
