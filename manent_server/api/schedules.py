"""Routes of schedules."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from manent_server.api import schedule_shapes as shapes
from manent_server.api.route import PREFIX, Route, needs
from manent_server.api.schedule_bodies import (
    PauseBody,
    PreviewBody,
    PreviewQuery,
    ResumeBody,
    RunQuery,
    ScheduleBody,
    ScheduleQuery,
)
from manent_server.api.session import Asked, Key
from manent_server.domain.access import READ, SCHEDULE
from manent_server.usecases.requests import ScheduleRequest

router = APIRouter(prefix=PREFIX, route_class=Route, tags=["schedules"])
_PLAINLY = PauseBody()
_AGAIN = ResumeBody()
Name = Annotated[str, Path(description="Its name, or its id.")]


@router.get("/schedules", response_model=shapes.Schedules, openapi_extra=needs(READ))
def schedules(asked: Asked, query: Annotated[ScheduleQuery, Query()]) -> Any:
    """All schedules, with their next instants and what became of the last one."""
    wanted = {"application": query.application, "environment": query.environment}
    return asked.calls.schedules(asked.desk, **wanted)


@router.post(
    "/schedules",
    status_code=201,
    response_model=shapes.Schedule,
    openapi_extra=needs(SCHEDULE),
)
def schedule(body: ScheduleBody, asked: Asked, key: Key) -> Any:
    """Deploy again and again, at the instants of a cron expression. It never fires at once."""
    request = ScheduleRequest(
        name=body.name,
        application=body.application,
        environment=body.environment,
        cron=body.cron,
        timezone=body.timezone,
        version=body.version,
        newest=body.newest,
        source=body.from_,
        overlap=body.overlap,
        catch_up=body.catch_up,
        reason=body.reason,
    )
    return asked.calls.schedule(asked.desk, request, caller=asked.caller, key=key)


@router.post(
    "/schedules/preview",
    response_model=shapes.Preview,
    openapi_extra=needs(SCHEDULE, while_fenced=True),
)
def draft(body: PreviewBody, asked: Asked, key: Key) -> Any:
    """When a schedule would fire that nobody has made yet. Creates nothing."""
    return asked.calls.schedule_draft(asked.desk, body.cron, body.timezone, count=body.count)


@router.get("/schedules/{name}", response_model=shapes.Schedule, openapi_extra=needs(READ))
def one(name: Name, asked: Asked) -> Any:
    """One schedule."""
    return asked.calls.schedule_of(asked.desk, name)


@router.get("/schedules/{name}/preview", response_model=shapes.Preview, openapi_extra=needs(READ))
def preview(name: Name, asked: Asked, query: Annotated[PreviewQuery, Query()]) -> Any:
    """When a schedule fires next; a paused one: if it were resumed now."""
    return asked.calls.schedule_preview(asked.desk, name, count=query.count)


@router.get("/schedules/{name}/runs", response_model=shapes.Runs, openapi_extra=needs(READ))
def runs(name: Name, asked: Asked, query: Annotated[RunQuery, Query()]) -> Any:
    """What became of the instants of a schedule, the newest first."""
    page = {"before": query.before, "limit": query.limit}
    return asked.calls.schedule_runs(asked.desk, name, **page)


@router.post(
    "/schedules/{name}/pause",
    response_model=shapes.Schedule,
    openapi_extra=needs(SCHEDULE, while_fenced=True),
)
def pause(name: Name, asked: Asked, key: Key, body: PauseBody = _PLAINLY) -> Any:
    """Let no further instant fire; deploys it asked for go on."""
    return asked.calls.pause_schedule(
        asked.desk, name, reason=body.reason, caller=asked.caller, key=key
    )


@router.post(
    "/schedules/{name}/resume", response_model=shapes.Schedule, openapi_extra=needs(SCHEDULE)
)
def resume(name: Name, asked: Asked, key: Key, body: ResumeBody = _AGAIN) -> Any:
    """Let a paused schedule fire again, from its next instant on."""
    return asked.calls.resume_schedule(asked.desk, name, caller=asked.caller, key=key)


@router.delete("/schedules/{name}", response_model=shapes.Schedule, openapi_extra=needs(SCHEDULE))
def delete(name: Name, asked: Asked) -> Any:
    """Let a schedule never fire again; deploys it asked for go on."""
    return asked.calls.delete_schedule(asked.desk, name, caller=asked.caller)
