"""Listen: read what happened, in its order, from any place on."""

from typing import Any

from manent_server.domain.errors import Conflict
from manent_server.store import events as rows
from manent_server.store.events import Wanted
from manent_server.usecases import inspect, view
from manent_server.usecases.desk import Desk


def newest(desk: Desk) -> int:
    """The position of the newest event; 0 before the first."""
    with desk.store.read() as tx:
        return rows.newest(tx)


def events(
    desk: Desk,
    *,
    after: int,
    limit: int,
    application: str | None = None,
    environment: str | None = None,
) -> dict[str, Any]:
    """Events after a position; `next` is what to ask after: nothing up to it is missed.

    Args:
        desk: The collaborators.
        after: Only events with a higher position.
        limit: At most so many.
        application: Only of this application.
        environment: Only of this environment.

    Raises:
        Conflict: Nothing has that position yet: whoever has read so far read of another database,
            or of this one before it was set back, and would miss what comes now.
    """
    with desk.store.read() as tx:
        place = inspect.place(tx, desk, application, environment)
        until = rows.newest(tx)
        if after > until:
            raise Conflict(
                f"{after} lies beyond the newest event, {until}",
                code="position_ahead",
                next=f"read again from a position up to {until}; 0 is the oldest that is kept",
            )
        found = rows.read(tx, Wanted(after, limit, **place, sight=desk.sight), until=until)
    reached = found[-1].position if len(found) == limit else until
    return {"items": [view.event(event) for event in found], "next": reached}
