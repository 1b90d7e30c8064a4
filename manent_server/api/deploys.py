"""Routes of deploys: ask for one, look at it, stop it, go back."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from manent_server.api import plan_shapes, shapes
from manent_server.api.approval_bodies import RegateBody
from manent_server.api.bodies import (
    AbandonBody,
    CancelBody,
    DeployBody,
    DeployQuery,
    PlanBody,
    PromotionBody,
    RerunBody,
    RerunQuery,
    ResolveBody,
    RetryBody,
    RollbackBody,
    SkipBody,
)
from manent_server.api.fields import Address
from manent_server.api.route import PREFIX, Route, needs
from manent_server.api.session import Asked, Key
from manent_server.domain.access import CANCEL, DEPLOY, OVERRIDE, READ, RESOLVE, ROLLBACK
from manent_server.domain.question import Answer
from manent_server.usecases.requests import (
    AbandonRequest,
    AnswerRequest,
    CancelRequest,
    DeployFilter,
    DeployRequest,
    PromotionRequest,
    RegateRequest,
    RerunRequest,
    RollbackRequest,
    SkipRequest,
)

router = APIRouter(prefix=PREFIX, route_class=Route, tags=["deploys"])
_ONE = "/deploys/{address:address}"
_PLAINLY = CancelBody()
_AS_IT_WAS = RetryBody()


@router.post("/deploys", status_code=202, response_model=shapes.Deploy, openapi_extra=needs(DEPLOY))
def submit(body: DeployBody, asked: Asked, key: Key) -> Any:
    """Ask for a deploy: accepted, it waits, runs and ends on its own."""
    return asked.calls.submit(asked.desk, _request(body), caller=asked.caller, key=key)


@router.post(
    "/plans", response_model=plan_shapes.Plan, openapi_extra=needs(READ, while_fenced=True)
)
def plan(body: PlanBody, asked: Asked) -> Any:
    """What a deploy would do and meet; nothing is created."""
    return asked.calls.plan(asked.desk, _request(body), caller=asked.caller, at=body.at)


def _request(body: DeployBody) -> DeployRequest:
    return DeployRequest(
        application=body.application,
        environment=body.environment,
        version=body.version,
        kind=body.kind,
        sha256=body.sha256,
        reason=body.reason,
        not_before=body.not_before,
        not_after=body.not_after,
        priority=body.priority,
        sequence=body.sequence,
        collision=body.collision,
        if_blocked=body.if_blocked,
        override=tuple(body.override),
        targets=None if body.targets is None else tuple(body.targets),
        links=body.links.model_dump(exclude_none=True) if body.links else None,
        changes=[change.model_dump(mode="json") for change in body.changes] or None,
    )


@router.get("/deploys", response_model=shapes.Deploys, openapi_extra=needs(READ))
def deploys(asked: Asked, query: Annotated[DeployQuery, Query()]) -> Any:
    """List deploys, newest first, a page at a time."""
    wanted = DeployFilter(
        application=query.application,
        environment=query.environment,
        version=query.version,
        states=tuple(query.state),
        outcome=query.outcome,
        before=query.before,
        limit=query.limit,
    )
    return asked.calls.deploys(asked.desk, wanted)


@router.post(
    "/promotions", status_code=202, response_model=shapes.Deploy, openapi_extra=needs(DEPLOY)
)
def promote(body: PromotionBody, asked: Asked, key: Key) -> Any:
    """Bring to one environment what runs in another, by its very digest."""
    request = PromotionRequest(
        application=body.application,
        source=body.from_,
        to=body.to,
        version=body.version,
        reason=body.reason,
        override=tuple(body.override),
    )
    return asked.calls.promote(asked.desk, request, caller=asked.caller, key=key)


@router.post(
    "/rollbacks", status_code=201, response_model=shapes.Deploy, openapi_extra=needs(ROLLBACK)
)
def roll_back(body: RollbackBody, asked: Asked, key: Key) -> Any:
    """Go back: a deploy of kind rollback."""
    request = RollbackRequest(
        application=body.application,
        environment=body.environment,
        to=body.to,
        reason=body.reason,
        current_configuration=body.current_configuration,
        veto=body.veto,
    )
    return asked.calls.roll_back(asked.desk, request, caller=asked.caller, key=key)


@router.get(f"{_ONE}/steps", response_model=shapes.Steps, openapi_extra=needs(READ))
def steps(address: Address, asked: Asked) -> Any:
    """The steps of a deploy."""
    return asked.calls.steps(asked.desk, address)


@router.get(f"{_ONE}/attempts", response_model=shapes.Attempts, openapi_extra=needs(READ))
def attempts(address: Address, asked: Asked) -> Any:
    """The attempts of a deploy: each run of a hook."""
    return asked.calls.attempts(asked.desk, address)


@router.get(f"{_ONE}/explain", response_model=shapes.Explanation, openapi_extra=needs(READ))
def explain(address: Address, asked: Asked) -> Any:
    """Why a deploy is where it is."""
    return asked.calls.explain(asked.desk, address)


@router.post(
    f"{_ONE}/cancel", response_model=shapes.Deploy, openapi_extra=needs(CANCEL, while_fenced=True)
)
def cancel(address: Address, asked: Asked, key: Key, body: CancelBody = _PLAINLY) -> Any:
    """Stop a deploy; with `rollback`, roll back what it touched."""
    request = CancelRequest(rollback=body.rollback, reason=body.reason)
    return asked.calls.cancel(asked.desk, address, request, caller=asked.caller, key=key)


@router.post(f"{_ONE}/skip-wait", response_model=shapes.Deploy, openapi_extra=needs(OVERRIDE))
def skip_wait(address: Address, body: SkipBody, asked: Asked, key: Key) -> Any:
    """End a wait for time: `not_before`, the soak of a promotion, the soak between waves."""
    request = SkipRequest(reason=body.reason)
    return asked.calls.skip_wait(asked.desk, address, request, caller=asked.caller, key=key)


@router.post(f"{_ONE}/regate", response_model=shapes.Deploy, openapi_extra=needs(OVERRIDE))
def regate(address: Address, body: RegateBody, asked: Asked, key: Key) -> Any:
    """Let a deploy that waits take the rules of today: approvals, promotion, collision."""
    request = RegateRequest(reason=body.reason)
    return asked.calls.regate(asked.desk, address, request, caller=asked.caller, key=key)


@router.post(f"{_ONE}/abandon", response_model=shapes.Deploy, openapi_extra=needs(CANCEL))
def abandon(address: Address, body: AbandonBody, asked: Asked, key: Key) -> Any:
    """Give up a deploy a minute after its cancel: it ends although its work may go on."""
    request = AbandonRequest(reason=body.reason, force=body.force)
    return asked.calls.abandon(asked.desk, address, request, caller=asked.caller, key=key)


@router.post(f"{_ONE}/resolve", response_model=shapes.Deploy, openapi_extra=needs(RESOLVE))
def resolve(address: Address, body: ResolveBody, asked: Asked, key: Key) -> Any:
    """Answer a deploy that waits for a person, in phase `unknown` or `paused`."""
    request = AnswerRequest(Answer(body.answer), body.target, body.reason)
    return asked.calls.resolve(asked.desk, address, request, caller=asked.caller, key=key)


@router.get(f"{_ONE}/rerun", response_model=shapes.RerunPlan, openapi_extra=needs(READ))
def rerun_plan(address: Address, asked: Asked, query: Annotated[RerunQuery, Query()]) -> Any:
    """What a rerun would carry over and do again."""
    return asked.calls.rerun_plan(asked.desk, address, begin=query.from_)


@router.post(
    f"{_ONE}/rerun", status_code=202, response_model=shapes.Deploy, openapi_extra=needs(DEPLOY)
)
def rerun(address: Address, body: RerunBody, asked: Asked, key: Key) -> Any:
    """Do an ended deploy again from a step: a new deploy that takes over what came before."""
    request = RerunRequest(body.from_, body.reason, tuple(body.override))
    return asked.calls.rerun(asked.desk, address, request, caller=asked.caller, key=key)


@router.post(
    f"{_ONE}/retry", status_code=202, response_model=shapes.Deploy, openapi_extra=needs(DEPLOY)
)
def retry(address: Address, asked: Asked, key: Key, body: RetryBody = _AS_IT_WAS) -> Any:
    """Do a deploy that has ended or is paused again from the first step that did not succeed."""
    request = RerunRequest(None, body.reason, tuple(body.override))
    return asked.calls.retry(asked.desk, address, request, caller=asked.caller, key=key)


@router.get(_ONE, response_model=shapes.Deploy, openapi_extra=needs(READ))
def deploy(address: Address, asked: Asked) -> Any:
    """One deploy."""
    return asked.calls.deploy(asked.desk, address)
