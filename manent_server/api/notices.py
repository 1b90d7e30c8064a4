"""Routes of notices: what somebody was not told, and sending it again."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query

from manent_server.api import notice_shapes as shapes
from manent_server.api.bodies import NoticeQuery, ResendBody
from manent_server.api.route import PREFIX, Route, needs
from manent_server.api.session import Asked, Key
from manent_server.domain.access import ADMINISTER, READ

router = APIRouter(prefix=PREFIX, route_class=Route, tags=["notices"])
Notice = Annotated[str, Path(description="Id of a notice.", examples=["0123456789abcdef0123"])]
SinkName = Annotated[str, Path(description="Name under `notify`, or `plugins`.")]
_AGAIN = ResendBody()


@router.get("/notices", response_model=shapes.Notices, openapi_extra=needs(READ))
def notices(asked: Asked, query: Annotated[NoticeQuery, Query()]) -> Any:
    """What each sink was told or is to be told, the newest events first."""
    return asked.calls.notices(
        asked.desk, state=query.state, sink=query.sink, before=query.before, limit=query.limit
    )


@router.post(
    "/notices/{notice}/resend", response_model=shapes.Notice, openapi_extra=needs(ADMINISTER)
)
def resend(notice: Notice, asked: Asked, key: Key, body: ResendBody = _AGAIN) -> Any:
    """Send a dead notice again; its sink is turned on if it was off."""
    return asked.calls.resend(asked.desk, notice, reason=body.reason, caller=asked.caller, key=key)


@router.get("/sinks", response_model=shapes.Sinks, openapi_extra=needs(READ))
def sinks(asked: Asked) -> Any:
    """Who is told of events, and what they were not told."""
    return asked.calls.sinks(asked.desk)


@router.post("/sinks/{name}/resend", response_model=shapes.Sink, openapi_extra=needs(ADMINISTER))
def resend_all(name: SinkName, asked: Asked, key: Key, body: ResendBody = _AGAIN) -> Any:
    """Turn a sink on, and send everything again that it was not told."""
    return asked.calls.resend_all(
        asked.desk, name, reason=body.reason, caller=asked.caller, key=key
    )
