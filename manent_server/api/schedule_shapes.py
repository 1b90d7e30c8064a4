"""What answers about schedules say."""

from pydantic import Field

from manent_server.api.shapes import Shape, When


class Moment(Shape):
    """An instant, and the same as the schedule's zone shows it, with its offset."""

    at: When
    local: str


class Run(Shape):
    """What became of one instant: `fired`, `skipped`, `missed`, `refused` or `failed`."""

    schedule: str
    at: When
    result: str
    reason: str | None = None
    detail: str | None = None
    deploy: str | None = None
    settled_at: When | None = None


class Schedule(Shape):
    """One schedule."""

    id: str
    name: str
    application: str
    environment: str
    cron: str
    timezone: str
    version: str | None = None
    newest: bool = False
    from_: str | None = Field(default=None, alias="from")
    overlap: str
    catch_up: str | None = None
    reason: str | None = None
    created_by: str | None = None
    created_at: When | None = None
    paused_at: When | None = None
    paused_by: str | None = None
    pause_reason: str | None = None
    deleted_at: When | None = None
    deleted_by: str | None = None
    next_at: When | None = None
    next: list[Moment] = Field(default_factory=list)
    last: Run | None = None


class Schedules(Shape):
    """All schedules."""

    items: list[Schedule]
    next: str | None = None


class Runs(Shape):
    """A page of past instants, the newest first."""

    items: list[Run]
    next: str | None = None


class Preview(Shape):
    """The next instants."""

    items: list[Moment]
