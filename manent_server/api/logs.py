"""The log of a deploy: a page at a time, or followed live as server-sent events."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

import anyio.to_thread
from fastapi import APIRouter, Header, Query, Request

from manent_server.api import shapes, stream
from manent_server.api.bodies import LogQuery
from manent_server.api.fields import Address
from manent_server.api.route import PREFIX, Route, needs
from manent_server.api.session import Asked, Session
from manent_server.api.stream import EVENTS, Stream
from manent_server.domain.access import READ

router = APIRouter(prefix=PREFIX, route_class=Route, tags=["deploys"])
PAGE_BYTES = 2**20
LINES = 5000
"""Lines that are read at once for a stream; what they take is bounded in characters."""


@router.get(
    "/deploys/{address:address}/logs",
    response_model=shapes.LogPage,
    openapi_extra=needs(READ),
    responses={
        200: {
            "content": {EVENTS: {"schema": {"type": "string"}}},
            "description": "Lines, or with `Accept: text/event-stream` events `line` "
            "(id = sequence) and at last `end` with the deploy.",
        }
    },
)
async def logs(
    address: Address,
    request: Request,
    asked: Asked,
    query: Annotated[LogQuery, Query()],
    last_event_id: Annotated[
        str | None, Header(alias="Last-Event-ID", description="Resume after this one.")
    ] = None,
) -> Any:
    """The log: lines after `after`, or a stream of them until the deploy has ended."""
    if EVENTS not in request.headers.get("accept", "").lower():
        page = await anyio.to_thread.run_sync(
            lambda: asked.calls.log(
                asked.desk, address, after=query.after, limit=query.limit, tail=query.tail
            )
        )
        return fitted(page, page["next"] or query.after)
    after = (
        query.after
        if last_event_id is None
        else stream.number(last_event_id, of="sequence of a line")
    )
    watcher = Watcher(asked, address, request, after=after)
    watcher.tail = query.tail if last_event_id is None else None
    return await watcher.response()


def fitted(page: Mapping[str, Any], after: int) -> dict[str, Any]:
    """The page cut to what one answer may carry; at least one line of it."""
    items = list(page["items"])
    size = 0
    for index, item in enumerate(items):
        size += len(json.dumps(item)) + 2
        if size > PAGE_BYTES and index:
            items = items[:index]
            break
    is_whole = len(items) == len(page["items"])
    return {
        "items": items,
        "next": items[-1]["sequence"] if items else after,
        "ended": bool(page["ended"]) and is_whole,
    }


class Watcher(Stream):
    """One stream of one deploy's log."""

    def __init__(self, asked: Session, address: str, request: Request, *, after: int) -> None:
        super().__init__(asked, request, after=after)
        self._address = address
        self.tail: int | None = None

    async def read(self) -> Mapping[str, Any]:
        """The lines that are there by now."""
        after, tail, self.tail = self._after, self.tail, None
        page = await self.thread(
            lambda desk: self._asked.calls.log(
                desk, self._address, after=after, limit=LINES, tail=tail
            )
        )
        self._after = max(after, page["next"] or 0) if not page["items"] else after
        return fitted(page, after)

    def frames(self, page: Mapping[str, Any]) -> list[tuple[int, bytes]]:
        """Each line with its sequence."""
        return [
            (
                item["sequence"],
                stream.frame(
                    "line",
                    shapes.LogLine.model_validate(item).model_dump(),
                    number=item["sequence"],
                ),
            )
            for item in page["items"]
        ]

    async def last(self, page: Mapping[str, Any]) -> bytes | None:
        """The deploy, when it has ended and all of its log was sent."""
        if not page["ended"] or page["items"]:
            return None
        found = await self.thread(self._asked.calls.deploy, self._address)
        return stream.frame("end", shapes.Deploy.model_validate(found).model_dump(by_alias=True))
