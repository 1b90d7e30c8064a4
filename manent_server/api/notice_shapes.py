"""What answers about events and notices say."""

from typing import Any

from manent_server.api.shapes import Shape, When


class Event(Shape):
    """What happened; `position` counts all events without a hole."""

    id: str
    position: int
    at: When
    type: str
    actor: str
    deploy: str | None = None
    application: str | None = None
    environment: str | None = None
    detail: dict[str, Any]


class Events(Shape):
    """Events in their order; `next` is the `after` of the following page."""

    items: list[Event]
    next: int


class Notice(Shape):
    """One event for one sink."""

    id: str
    sink: str
    state: str
    created_at: When
    tries: int
    next_try_at: When | None = None
    expires_at: When
    done_at: When | None = None
    status: int | None = None
    error: str | None = None
    event: Event


class Notices(Shape):
    """A page of notices, those of the newest events first."""

    items: list[Notice]
    next: str | None = None


class Sink(Shape):
    """Who is told of events; `dead` counts what it was not told and will not be by itself."""

    name: str
    plugin: str
    events: list[str]
    applications: list[str]
    environments: list[str]
    is_on: bool
    off_at: When | None = None
    off_reason: str | None = None
    waiting: int
    dead: int
    oldest_at: When | None = None


class Sinks(Shape):
    """All sinks of this server."""

    items: list[Sink]
    next: str | None = None
