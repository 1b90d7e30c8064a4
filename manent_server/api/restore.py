"""Routes of operators about a restored database: they work while nothing else begins."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from manent_server.api import restore_shapes as shapes
from manent_server.api.restore_bodies import (
    CloseBody,
    DropBody,
    GoOnBody,
    OpenBody,
    RestoreQuery,
)
from manent_server.api.route import PREFIX, Route, needs
from manent_server.api.session import Asked, Key
from manent_server.domain.access import ADMINISTER, AUDIT
from manent_server.usecases.requests import OpenRequest, RestoreLook, RestoreRequest

router = APIRouter(prefix=f"{PREFIX}/admin/restore", route_class=Route, tags=["admin"])
_NEEDS = needs(ADMINISTER, while_fenced=True)


@router.get(
    "",
    response_model=shapes.Restore,
    response_model_exclude_none=True,
    openapi_extra=needs(AUDIT),
)
def listing(asked: Asked, query: Annotated[RestoreQuery, Query()]) -> Any:
    """Whether the database went back in time, and what is known of its live deploys.

    With `observe` their targets are asked too, by the hook of that name: at most 100 of them,
    within half a minute. Only a process with a worker can do that, for who may administer.
    """
    request = RestoreLook(tuple(query.deploy), query.observe, query.lost_after)
    return asked.calls.restore(asked.desk, request, caller=asked.caller)


@router.post("/resume", response_model=shapes.RestoreDecided, openapi_extra=_NEEDS)
def resume(body: GoOnBody, asked: Asked, key: Key) -> Any:
    """Let deploys go on when the database is opened."""
    return _decide(asked, _request("resume", body), key)


@router.post("/close", response_model=shapes.RestoreDecided, openapi_extra=_NEEDS)
def close(body: CloseBody, asked: Asked, key: Key) -> Any:
    """End deploys that already ran, with the outcome they had."""
    return _decide(asked, _request("close", body, outcome=body.outcome), key)


@router.post("/cancel", response_model=shapes.RestoreDecided, openapi_extra=_NEEDS)
def cancel(body: DropBody, asked: Asked, key: Key) -> Any:
    """End deploys that are not wanted any more."""
    return _decide(asked, _request("cancel", body), key)


@router.post(
    "/open", response_model=shapes.Opened, response_model_exclude_none=True, openapi_extra=_NEEDS
)
def open_up(body: OpenBody, asked: Asked, key: Key) -> Any:
    """Let everything begin again: in a new epoch, beyond all that is known of the lost one."""
    request = OpenRequest(body.force, body.reason)
    return asked.calls.open_restored(asked.desk, request, caller=asked.caller, key=key)


def _request(decision: str, body: GoOnBody, *, outcome: str | None = None) -> RestoreRequest:
    return RestoreRequest(decision, tuple(body.deploys), body.all, outcome, body.reason)


def _decide(asked: Asked, request: RestoreRequest, key: Key) -> Any:
    return asked.calls.decide_restored(asked.desk, request, caller=asked.caller, key=key)
