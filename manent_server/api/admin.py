"""Routes of operators: who works, and what to do about a worker that is gone."""

from typing import Annotated, Any

from fastapi import APIRouter, Path

from manent_server.api import registry
from manent_server.api.bodies import PruneBody, RecoverBody, ReloadBody
from manent_server.api.route import PREFIX, Route, needs
from manent_server.api.session import Asked, Key
from manent_server.domain.access import ADMINISTER, READ
from manent_server.usecases.requests import PruneRequest, RecoverRequest

router = APIRouter(prefix=f"{PREFIX}/admin", route_class=Route, tags=["admin"])
_PLAINLY = ReloadBody()
Executor = Annotated[str, Path(description="Id of an executor.", examples=["manent-worker-1"])]


@router.get(
    "/executors",
    response_model=registry.Executors,
    response_model_exclude_none=True,
    openapi_extra=needs(READ),
)
def executors(asked: Asked) -> Any:
    """Every worker of the registry, and those missing from it that hold deploys."""
    return asked.calls.executors(asked.desk, caller=asked.caller)


@router.post("/recover", response_model=registry.Recovery, openapi_extra=needs(ADMINISTER))
def recover(body: RecoverBody, asked: Asked, key: Key) -> Any:
    """Take over what a lost worker left."""
    request = RecoverRequest(
        executor=body.executor, dry_run=body.dry_run, force=body.force, reason=body.reason
    )
    return asked.calls.recover(asked.desk, request, caller=asked.caller, key=key)


@router.post(
    "/prune",
    response_model=registry.Pruned,
    response_model_exclude_none=True,
    openapi_extra=needs(ADMINISTER),
)
def prune(body: PruneBody, asked: Asked, key: Key) -> Any:
    """Delete deploys that ended long ago, but what is live or referred to."""
    request = PruneRequest(
        dry_run=body.dry_run,
        max_age=body.max_age,
        keep_releases=body.keep_releases,
        explain=body.explain,
    )
    return asked.calls.prune(asked.desk, request, caller=asked.caller, key=key)


@router.post(
    "/reload",
    response_model=registry.Reload,
    response_model_exclude_none=True,
    openapi_extra=needs(ADMINISTER, while_fenced=True),
)
def reload(asked: Asked, key: Key, body: ReloadBody = _PLAINLY) -> Any:
    """Let every process take up its files anew, within a few seconds.

    The process that answers looks at its own files first: 422 with their faults, or 409 with the
    live deploys that need what would go, and nobody is asked. Each process reads its own files;
    one whose files have faults goes on with what it had.
    """
    return asked.calls.reload(asked.desk, body.reason, caller=asked.caller, key=key)


@router.delete(
    "/executors/{executor}", response_model=registry.Forgotten, openapi_extra=needs(ADMINISTER)
)
def forget(executor: Executor, asked: Asked) -> Any:
    """Take a lost worker that holds nothing out of the registry."""
    return asked.calls.forget(asked.desk, executor, caller=asked.caller)
