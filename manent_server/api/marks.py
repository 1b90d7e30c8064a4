"""Routes of what keeps deploys from starting: locks, freezes, holds, vetoes and stops."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from manent_server.api import shapes
from manent_server.api.bodies import (
    FreezeBody,
    HoldBody,
    LockBody,
    MarkQuery,
    StopBody,
    VetoBody,
)
from manent_server.api.route import PREFIX, Route, needs
from manent_server.api.session import Asked, Key
from manent_server.domain.access import LOCK, READ, RESUME, STOP
from manent_server.domain.marks import Sort
from manent_server.usecases.requests import MarkRequest

router = APIRouter(prefix=PREFIX, route_class=Route)


def _set(sort: Sort, body: StopBody, asked: Asked, key: Key) -> Any:
    request = MarkRequest(sort=sort, **body.model_dump())
    return asked.calls.mark(asked.desk, request, caller=asked.caller, key=key)


def _lift(sort: Sort, mark: str, asked: Asked) -> Any:
    return asked.calls.lift(asked.desk, sort, mark, caller=asked.caller)


@router.get("/marks", response_model=shapes.Marks, tags=["marks"], openapi_extra=needs(READ))
def every(asked: Asked, query: Annotated[MarkQuery, Query()]) -> Any:
    """Everything that keeps deploys from starting or will, and the command that lifts each."""
    return asked.calls.marks(
        asked.desk,
        *(Sort(sort) for sort in query.sort),
        application=query.application,
        environment=query.environment,
    )


@router.get("/locks", response_model=shapes.Marks, tags=["locks"], openapi_extra=needs(READ))
def locks(asked: Asked) -> Any:
    """All locks that hold."""
    return asked.calls.marks(asked.desk, Sort.LOCK)


@router.post(
    "/locks",
    status_code=201,
    response_model=shapes.Mark,
    tags=["locks"],
    openapi_extra=needs(LOCK, while_fenced=True),
)
def lock(body: LockBody, asked: Asked, key: Key) -> Any:
    """Keep deploys from starting."""
    return _set(Sort.LOCK, body, asked, key)


@router.delete(
    "/locks/{lock_id}",
    response_model=shapes.Mark,
    tags=["locks"],
    openapi_extra=needs(LOCK),
)
def unlock(lock_id: str, asked: Asked) -> Any:
    """Lift a lock."""
    return _lift(Sort.LOCK, lock_id, asked)


@router.get("/freezes", response_model=shapes.Marks, tags=["freezes"], openapi_extra=needs(READ))
def freezes(asked: Asked) -> Any:
    """All freezes that hold or will."""
    return asked.calls.marks(asked.desk, Sort.FREEZE)


@router.post(
    "/freezes",
    status_code=201,
    response_model=shapes.Mark,
    tags=["freezes"],
    openapi_extra=needs(LOCK),
)
def freeze(body: FreezeBody, asked: Asked, key: Key) -> Any:
    """Plan a time in which no deploy starts."""
    return _set(Sort.FREEZE, body, asked, key)


@router.delete(
    "/freezes/{freeze_id}",
    response_model=shapes.Mark,
    tags=["freezes"],
    openapi_extra=needs(LOCK),
)
def unfreeze(freeze_id: str, asked: Asked) -> Any:
    """Lift a freeze."""
    return _lift(Sort.FREEZE, freeze_id, asked)


@router.get("/holds", response_model=shapes.Marks, tags=["holds"], openapi_extra=needs(READ))
def holds(asked: Asked) -> Any:
    """All holds that hold."""
    return asked.calls.marks(asked.desk, Sort.HOLD)


@router.post(
    "/holds",
    status_code=201,
    response_model=shapes.Mark,
    tags=["holds"],
    openapi_extra=needs(LOCK),
)
def hold(body: HoldBody, asked: Asked, key: Key) -> Any:
    """Keep schedules and promotions from starting deploys; people still can."""
    return _set(Sort.HOLD, body, asked, key)


@router.delete(
    "/holds/{hold_id}",
    response_model=shapes.Mark,
    tags=["holds"],
    openapi_extra=needs(LOCK),
)
def unhold(hold_id: str, asked: Asked) -> Any:
    """Lift a hold."""
    return _lift(Sort.HOLD, hold_id, asked)


@router.get("/vetoes", response_model=shapes.Marks, tags=["vetoes"], openapi_extra=needs(READ))
def vetoes(asked: Asked) -> Any:
    """All vetoes that hold."""
    return asked.calls.marks(asked.desk, Sort.VETO)


@router.post(
    "/vetoes",
    status_code=201,
    response_model=shapes.Mark,
    tags=["vetoes"],
    openapi_extra=needs(LOCK),
)
def veto(body: VetoBody, asked: Asked, key: Key) -> Any:
    """Keep a version out."""
    return _set(Sort.VETO, body, asked, key)


@router.delete(
    "/vetoes/{veto_id}",
    response_model=shapes.Mark,
    tags=["vetoes"],
    openapi_extra=needs(LOCK),
)
def unveto(veto_id: str, asked: Asked) -> Any:
    """Lift a veto."""
    return _lift(Sort.VETO, veto_id, asked)


@router.get("/stops", response_model=shapes.Marks, tags=["stops"], openapi_extra=needs(READ))
def stops(asked: Asked) -> Any:
    """The stops that hold."""
    return asked.calls.marks(asked.desk, Sort.STOP)


@router.post(
    "/stops",
    status_code=201,
    response_model=shapes.Mark,
    tags=["stops"],
    openapi_extra=needs(STOP),
)
def stop(body: StopBody, asked: Asked, key: Key) -> Any:
    """Stop everything: the emergency."""
    return _set(Sort.STOP, body, asked, key)


@router.delete(
    "/stops/{stop_id}",
    response_model=shapes.Mark,
    tags=["stops"],
    openapi_extra=needs(RESUME),
)
def resume(stop_id: str, asked: Asked) -> Any:
    """Let everything go on."""
    return _lift(Sort.STOP, stop_id, asked)
