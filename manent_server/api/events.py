"""Events: a page at a time, or live as server-sent events."""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any

import anyio
import anyio.to_thread
from fastapi import APIRouter, Header, Query, Request

from manent_server.api import notice_shapes as shapes
from manent_server.api import stream
from manent_server.api.bodies import EventQuery
from manent_server.api.route import PREFIX, Route, needs
from manent_server.api.session import Asked, Session
from manent_server.api.stream import EVENTS, Stream
from manent_server.domain.access import READ

router = APIRouter(prefix=PREFIX, route_class=Route, tags=["events"])
_PAGE = 200


class Head:
    """The newest position, asked for once for all watchers that have read so far.

    Attributes:
        pause: Seconds for which an answer stands.
    """

    def __init__(self) -> None:
        self.pause = 0.2
        self._position = 0
        self._asked_at = float("-inf")
        self._asking = anyio.Lock()

    async def newest(self, ask: Callable[[], Awaitable[int]]) -> int:
        """The position, at most `pause` seconds old."""
        async with self._asking:
            if time.monotonic() - self._asked_at >= self.pause:
                self._position = await ask()
                self._asked_at = time.monotonic()
        return self._position


@router.get(
    "/events",
    response_model=shapes.Events,
    openapi_extra=needs(READ),
    responses={
        200: {
            "content": {EVENTS: {"schema": {"type": "string"}}},
            "description": "A page, or with `Accept: text/event-stream` events `event` "
            "(id = position) without an end.",
        }
    },
)
async def events(
    request: Request,
    asked: Asked,
    query: Annotated[EventQuery, Query()],
    last_event_id: Annotated[
        str | None, Header(alias="Last-Event-ID", description="Resume after this one.")
    ] = None,
) -> Any:
    """What happened: events after `after`, or a stream of them as they come."""
    place = {"application": query.application, "environment": query.environment}
    if EVENTS not in request.headers.get("accept", "").lower():
        return await anyio.to_thread.run_sync(
            lambda: asked.calls.events(
                asked.desk, after=query.after or 0, limit=query.limit, **place
            )
        )
    after = await _beginning(asked, query, last_event_id)
    return await Listener(asked, request, place, after=after).response()


async def _beginning(asked: Session, query: EventQuery, last_event_id: str | None) -> int:
    """After which position a stream begins: of what is newest now, unless somebody says."""
    if last_event_id is not None:
        return stream.number(last_event_id, of="position of an event")
    if query.after is not None:
        return query.after
    newest: int = await anyio.to_thread.run_sync(asked.calls.newest_event, asked.desk)
    return newest


class Listener(Stream):
    """One stream of events."""

    def __init__(
        self, asked: Session, request: Request, place: Mapping[str, str | None], *, after: int
    ) -> None:
        super().__init__(asked, request, after=after)
        self._place = place
        self._head: Head = request.app.state.head
        self._has_read = False

    async def read(self) -> Mapping[str, Any]:
        """The events that are there by now; nothing is read while there is no newer one."""
        newest = await self._head.newest(lambda: self.thread(self._asked.calls.newest_event))
        if self._has_read and newest <= self._after:
            return {"items": ()}
        page = await self.thread(
            lambda desk: self._asked.calls.events(
                desk, after=self._after, limit=_PAGE, **self._place
            )
        )
        self._has_read = True
        if not page["items"]:
            self._after = page["next"]
        return dict(page)

    def frames(self, page: Mapping[str, Any]) -> list[tuple[int, bytes]]:
        """Each event with its position."""
        return [
            (
                item["position"],
                stream.frame(
                    "event",
                    shapes.Event.model_validate(item).model_dump(),
                    number=item["position"],
                ),
            )
            for item in page["items"]
        ]
