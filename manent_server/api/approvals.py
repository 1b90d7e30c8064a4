"""Routes of approvals: what waits for people, and what they say."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from manent_server.api import approval_shapes as shapes
from manent_server.api.approval_bodies import ApprovalQuery, DecisionBody
from manent_server.api.route import PREFIX, Route, needs
from manent_server.api.session import Asked, Key
from manent_server.domain.access import APPROVE, READ
from manent_server.usecases.requests import ApprovalFilter, Decision

router = APIRouter(prefix=PREFIX, route_class=Route, tags=["approvals"])
Address = Annotated[str, Path(description="Its id, or a unique beginning of it.")]


@router.get("/approvals", response_model=shapes.Approvals, openapi_extra=needs(READ))
def approvals(asked: Asked, query: Annotated[ApprovalQuery, Query()]) -> Any:
    """What deploys ask of people, the newest first: one for each rule of a deploy."""
    wanted = ApprovalFilter(
        application=query.application,
        environment=query.environment,
        deploy=query.deploy,
        state=query.state,
        before=query.before,
        limit=query.limit,
    )
    return asked.calls.approvals(asked.desk, wanted, caller=asked.caller)


@router.get("/approvals/{address}", response_model=shapes.Approval, openapi_extra=needs(READ))
def approval(address: Address, asked: Asked) -> Any:
    """One of them, and whether the caller has a say in it."""
    return asked.calls.approval(asked.desk, address, caller=asked.caller)


@router.post(
    "/approvals/{address}/decisions",
    response_model=shapes.Decided,
    openapi_extra=needs(APPROVE),
)
def decide(address: Address, body: DecisionBody, asked: Asked, key: Key) -> Any:
    """Approve or reject: said once, it never changes. One rejection ends the deploy."""
    decision = Decision(body.decision, body.comment)
    return asked.calls.decide(asked.desk, address, decision, caller=asked.caller, key=key)
