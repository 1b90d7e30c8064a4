"""The route of the DORA figures, what may be asked of it and what it answers."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from manent_server.api.bodies import Parameters
from manent_server.api.fields import Day, Name, Text
from manent_server.api.route import PREFIX, Route, needs
from manent_server.api.session import Asked
from manent_server.api.shapes import Shape
from manent_server.domain.access import READ
from manent_server.usecases.requests import DoraRequest

router = APIRouter(prefix=PREFIX, route_class=Route, tags=["dora"])


class DoraQuery(Parameters):
    """Which deploys are counted, by the day they ended."""

    from_: Day | None = Field(
        default=None, alias="from", description="The first day; by default 29 days before `to`."
    )
    to: Day | None = Field(
        default=None, description="The last day, itself included; by default today."
    )
    timezone: Text = Field(default="UTC", description="The IANA zone whose days are meant.")
    application: Name | None = None
    environment: Name | None = None
    tier: Literal["development", "staging", "production"] | None = None


class Frequency(Shape):
    """Successful deployments."""

    per_day: float
    per_week: float


class TimeToRestore(Shape):
    """From a failure to its end, over the failures that are over."""

    count: int
    median_seconds: float | None = None
    mean_seconds: float | None = None
    unrestored: int


class Lead(Shape):
    """From a change to the end of the deployment that brought it.

    `negative` changes are said to be younger than their deployment and are in no average;
    `unexplained` deployments name no change.
    """

    count: int
    median_seconds: float | None = None
    mean_seconds: float | None = None
    negative: int
    unexplained: int


class Month(Shape):
    """The deployments of one month in the zone asked for."""

    month: str
    deploys: int
    successful: int
    failed: int


class Coverage(Shape):
    """How much of the days asked for the history still holds.

    Every deploy that counts is there from the day `since` on: what is older was pruned in part.
    """

    complete: bool
    since: str


class DoraRow(Shape):
    """One application in one tier."""

    application: str
    tier: str
    environments: list[str]
    deploys: int
    successful: int
    failed: int
    frequency: Frequency
    change_failure_rate: float | None = None
    time_to_restore: TimeToRestore
    lead_time: Lead
    months: list[Month]
    coverage: Coverage


class Dora(Shape):
    """The figures of the days asked for, of what deployed in them."""

    from_: str = Field(alias="from")
    to: str
    timezone: str
    days: int
    items: list[DoraRow]


@router.get("/dora", response_model=Dora, openapi_extra=needs(READ))
def figures(asked: Asked, query: Annotated[DoraQuery, Query()]) -> Any:
    """The four DORA figures of every application in every tier.

    A deployment is a deploy of kind deploy that brought another version and ended SUCCESS or
    ERROR; it failed when it ended ERROR or was rolled back from later.
    """
    wanted = DoraRequest(
        first=query.from_,
        last=query.to,
        timezone=query.timezone,
        application=query.application,
        environment=query.environment,
        tier=query.tier,
    )
    return asked.calls.dora(asked.desk, wanted)
