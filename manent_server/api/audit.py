"""The route of the record: who did what."""

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from manent_server.api.bodies import Parameters
from manent_server.api.fields import Instant, Limit, Name
from manent_server.api.route import PREFIX, Route, needs
from manent_server.api.session import Asked
from manent_server.api.shapes import Shape, When
from manent_server.domain.access import AUDIT
from manent_server.domain.audit import Wanted

router = APIRouter(prefix=PREFIX, route_class=Route, tags=["audit"])
Given = Annotated[str, Field(min_length=1, max_length=500)]


class AuditQuery(Parameters):
    """Which records to list."""

    deploy: Given | None = Field(
        default=None, description="Only about this deploy: its id or `app/env#number`."
    )
    actor: Given | None = Field(default=None, description="Only of this principal.")
    action: Given | None = Field(
        default=None, description="Only this action; `deploy.*` is all that begin so."
    )
    application: Name | None = None
    environment: Name | None = None
    since: Instant | None = Field(default=None, description="Not before this instant.")
    until: Instant | None = Field(default=None, description="Before this instant.")
    before: Given | None = Field(default=None, description="`next` of the page before.")
    limit: Limit = 50


class Record(Shape):
    """Who did what, and which way it came; `number` and `hash` are its place in the chain."""

    id: str
    number: int | None = None
    hash: str | None = None
    at: When
    actor: str
    action: str
    channel: str | None = None
    address: str | None = None
    deploy: str | None = None
    application: str | None = None
    environment: str | None = None
    detail: dict[str, Any] | None = None
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None


class Records(Shape):
    """A page of the record, the newest first."""

    items: list[Record]
    next: str | None = None


@router.get("/audit", response_model=Records, openapi_extra=needs(AUDIT))
def audit(asked: Asked, query: Annotated[AuditQuery, Query()]) -> Any:
    """Who did what. Who may read it in some places only has to name one of them."""
    return asked.calls.audit(asked.desk, Wanted(**query.model_dump()), caller=asked.caller)
