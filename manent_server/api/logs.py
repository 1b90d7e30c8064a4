"""The log of a deploy: a page at a time, or followed live as server-sent events."""

import json
import re
import threading
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import anyio
import anyio.to_thread
from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from manent_server.api import problem, shapes
from manent_server.api.bodies import LogQuery
from manent_server.api.fields import MAX_COUNT, Address
from manent_server.api.route import PREFIX, Route, needs
from manent_server.api.session import Asked, Session
from manent_server.domain.access import READ
from manent_server.domain.errors import Invalid, ManentError, Unavailable

router = APIRouter(prefix=PREFIX, route_class=Route, tags=["deploys"])
PAGE_BYTES = 2**20
LINES = 5000
"""Lines that are read at once for a stream; what they take is bounded in characters."""
_SEQUENCE = re.compile(r"[0-9]{1,19}")
_EVENTS = "text/event-stream"


@dataclass
class Watching:
    """What all watchers of one process share, so that they never starve the API.

    Attributes:
        closing: Set when the process stops: every watcher ends within a second.
        most: Watchers at once.
        count: Watchers now (touched by the event loop alone).
        threads: The few threads all of them read with.
    """

    closing: threading.Event
    most: int = 1000
    count: int = 0
    threads: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(4))
    fastest: float = 0.2
    slowest: float = 1.0
    keep_alive: float = 15.0
    sign_in_again: float = 30.0


@router.get(
    "/deploys/{address:address}/logs",
    response_model=shapes.LogPage,
    openapi_extra=needs(READ),
    responses={
        200: {
            "content": {_EVENTS: {"schema": {"type": "string"}}},
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
    if _EVENTS not in request.headers.get("accept", "").lower():
        page = await anyio.to_thread.run_sync(
            lambda: asked.calls.log(
                asked.desk, address, after=query.after, limit=query.limit, tail=query.tail
            )
        )
        return fitted(page, page["next"] or query.after)
    after = query.after if last_event_id is None else _sequence(last_event_id)
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


class Watcher:
    """One stream of one deploy's log."""

    def __init__(self, asked: Session, address: str, request: Request, *, after: int) -> None:
        self._asked = asked
        self._address = address
        self._after = after
        self.tail: int | None = None
        self._token = request.state.token
        self._request_id = request.state.request_id
        self._shared: Watching = request.app.state.watching
        self._pause = self._shared.fastest
        self._signed_in_at = self._sent_at = time.monotonic()

    async def response(self) -> Response:
        """The stream; what cannot begin is refused like any request."""
        if self._shared.count >= self._shared.most:
            raise Unavailable(
                "too many logs are being followed here",
                code="too_many_watchers",
                next="try again in a moment, or read the log by pages",
            )
        first = await self._read()
        return StreamingResponse(self._events(first), media_type=_EVENTS)

    async def _events(self, page: Mapping[str, Any]) -> AsyncIterator[bytes]:
        self._shared.count += 1
        try:
            yield b"retry: 1000\n\n"
            while not self._shared.closing.is_set():
                for item in page["items"]:
                    line = shapes.LogLine.model_validate(item).model_dump()
                    yield _event("line", line, number=item["sequence"])
                    self._after = item["sequence"]
                if page["ended"] and not page["items"]:
                    yield _event("end", await self._deploy())
                    return
                if comment := self._rest(len(page["items"])):
                    yield comment
                await anyio.sleep(0 if page["items"] else self._pause)
                page = await self._next()
        except ManentError as error:
            yield _event("problem", problem.from_error(error).body(self._request_id))
        finally:
            self._shared.count -= 1

    def _rest(self, count: int) -> bytes:
        """Poll faster while lines come; a comment when nothing was sent for long."""
        now = time.monotonic()
        if count:
            self._pause, self._sent_at = self._shared.fastest, now
            return b""
        self._pause = min(self._pause * 1.5, self._shared.slowest)
        if now - self._sent_at < self._shared.keep_alive:
            return b""
        self._sent_at = now
        return b": still here\n\n"

    async def _next(self) -> Mapping[str, Any]:
        try:
            await self._sign_in_again()
            return await self._read()
        except Unavailable:  # the watcher waits with us until the database is back
            return {"items": (), "ended": False}

    async def _sign_in_again(self) -> None:
        now = time.monotonic()
        if now - self._signed_in_at < self._shared.sign_in_again:
            return
        caller = await self._thread(self._asked.calls.authenticate, self._token)
        caller.demand(READ)
        self._signed_in_at = now

    async def _read(self) -> Mapping[str, Any]:
        after, tail, self.tail = self._after, self.tail, None
        page = await self._thread(
            lambda desk: self._asked.calls.log(
                desk, self._address, after=after, limit=LINES, tail=tail
            )
        )
        self._after = max(after, page["next"] or 0) if not page["items"] else after
        return fitted(page, after)

    async def _deploy(self) -> Any:
        found = await self._thread(self._asked.calls.deploy, self._address)
        return shapes.Deploy.model_validate(found).model_dump(by_alias=True)

    async def _thread(self, call: Any, *arguments: Any) -> Any:
        return await anyio.to_thread.run_sync(
            lambda: call(self._asked.desk, *arguments), limiter=self._shared.threads
        )


def _sequence(text: str) -> int:
    if _SEQUENCE.fullmatch(text) and int(text) <= MAX_COUNT:
        return int(text)
    raise Invalid(
        "the Last-Event-ID is no sequence of a line",
        next="send the id of the last event you have, or none",
        errors=[{"path": "Last-Event-ID", "message": "must be a whole number"}],
    )


def _event(name: str, value: Any, *, number: int | None = None) -> bytes:
    lines = [f"event: {name}", f"data: {json.dumps(value)}"]
    if number is not None:
        lines.insert(0, f"id: {number}")
    return ("\n".join(lines) + "\n\n").encode()
