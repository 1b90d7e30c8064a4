"""Routes of locks."""

from typing import Any

from fastapi import APIRouter

from manent_server.api import shapes
from manent_server.api.bodies import LockBody
from manent_server.api.route import PREFIX, Route, needs
from manent_server.api.session import Asked, Key
from manent_server.domain.access import LOCK, READ
from manent_server.usecases.requests import LockRequest

router = APIRouter(prefix=PREFIX, route_class=Route, tags=["locks"])


@router.get("/locks", response_model=shapes.Locks, openapi_extra=needs(READ))
def locks(asked: Asked) -> Any:
    """All locks that hold."""
    return asked.calls.locks(asked.desk)


@router.post("/locks", status_code=201, response_model=shapes.Lock, openapi_extra=needs(LOCK))
def lock(body: LockBody, asked: Asked, key: Key) -> Any:
    """Keep deploys from starting."""
    request = LockRequest(
        application=body.application,
        environment=body.environment,
        reason=body.reason,
        expires_at=body.expires_at,
    )
    return asked.calls.lock(asked.desk, request, caller=asked.caller, key=key)


@router.delete("/locks/{lock_id}", response_model=shapes.Lock, openapi_extra=needs(LOCK))
def unlock(lock_id: str, asked: Asked) -> Any:
    """Lift a lock."""
    return asked.calls.unlock(asked.desk, lock_id, caller=asked.caller)
