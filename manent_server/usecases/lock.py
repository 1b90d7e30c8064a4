"""Lock and unlock: keep deploys from starting, and let them start again."""

import secrets
from typing import Any

from manent_server.domain import access
from manent_server.domain.access import Caller
from manent_server.domain.errors import Invalid, NotFound
from manent_server.domain.gates import Lock
from manent_server.store import marks, queue, records
from manent_server.store.records import Deed
from manent_server.store.transaction import Transaction
from manent_server.usecases import once, view
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import IdempotencyKey, LockRequest


def lock(
    desk: Desk, request: LockRequest, *, caller: Caller, key: IdempotencyKey | None = None
) -> dict[str, Any]:
    """Set a lock; deploys that run finish their wave."""
    caller.demand(access.LOCK)
    values = _values(desk, request, caller)

    def work(tx: Transaction) -> str:
        known = once.remembered(tx, caller, key)
        if known is not None:
            return known
        at = tx.now()
        if request.expires_at is not None and request.expires_at <= at:
            raise Invalid(
                "expires_at lies in the past",
                code="instant_past",
                next="give a later instant",
                errors=[{"path": "expires_at", "message": "lies in the past"}],
            )
        if not any(lock.id == values["id"] for lock in marks.locks(tx, at=at)):
            marks.insert_lock(tx, values | {"created_at": at})
            detail = {"lock": values["id"], "reason": request.reason}
            deed = Deed(
                caller.name,
                "lock.set",
                None,
                values["application"],
                values["environment"],
                detail,
            )
            records.write_audit(tx, deed, at=at)
        once.remember(tx, caller, key, values["id"])
        return str(values["id"])

    return _one(desk, once.run(desk.store, work))


def _values(desk: Desk, request: LockRequest, caller: Caller) -> dict[str, Any]:
    if not request.reason.strip():
        raise Invalid("a lock needs a reason", next="say why, for whoever meets it")
    return {
        "id": secrets.token_hex(8),
        "application": desk.application(request.application).name
        if request.application is not None
        else None,
        "environment": desk.environment(request.environment).name
        if request.environment is not None
        else None,
        "reason": request.reason,
        "owner": caller.name,
        "expires_at": request.expires_at,
        "automatic": False,
    }


def unlock(desk: Desk, lock: str, *, caller: Caller) -> dict[str, Any]:
    """Lift a lock; what it held back is admitted at once.

    Raises:
        NotFound: No lock in force has that id.
    """
    caller.demand(access.LOCK)
    lifted: list[Lock] = []

    def work(tx: Transaction) -> list[str]:
        at = tx.now()
        lifted[:] = [held for held in marks.locks(tx, at=at) if held.id == lock] or lifted
        if not lifted:
            raise NotFound(f"there is no lock {lock[:40]!r}", next="GET /api/v1/locks lists them")
        marks.lift_locks(tx, [lock], by=caller.name, at=at)
        held = lifted[0]
        deed = Deed(
            caller.name, "lock.lifted", None, held.application, held.environment, {"lock": lock}
        )
        records.write_audit(tx, deed, at=at)
        records.wake_waiting(tx, held.environment, held.application, at=at)
        return [environment.name for environment in queue.environments(tx)]

    for environment in desk.store.once(work):
        if lifted[0].environment in (None, environment):
            desk.admission(environment)
    return view.lock(lifted[0])


def _one(desk: Desk, lock: str) -> dict[str, Any]:
    with desk.store.read() as tx:
        found = marks.read_lock(tx, lock)
    if found is None:
        raise NotFound(f"the lock {lock} is gone", next="set a new one")
    return view.lock(found)
