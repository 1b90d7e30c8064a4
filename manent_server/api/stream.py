"""Server-sent events: what the streams of this API have in common."""

import json
import re
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import anyio
import anyio.to_thread
from fastapi import Request, Response
from fastapi.responses import StreamingResponse

from manent_server.api import problem
from manent_server.api.fields import MAX_COUNT
from manent_server.api.session import Session
from manent_server.domain.access import READ
from manent_server.domain.errors import Invalid, ManentError, Unavailable

EVENTS = "text/event-stream"
_SEQUENCE = re.compile(r"[0-9]{1,19}")


@dataclass
class Ends:
    """What changes when somebody is let in no more, asked for once for all watchers."""

    every: float = 1.0
    known: str | None = None
    _asked_at: float = float("-inf")
    _lock: anyio.Lock = field(default_factory=anyio.Lock)

    async def newest(self, ask: Callable[[], Awaitable[str]]) -> str:
        """The newest mark; at most so old as `every`."""
        async with self._lock:
            if self.known is None or time.monotonic() - self._asked_at >= self.every:
                self.known = await ask()
                self._asked_at = time.monotonic()
            return self.known


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
    ends: Ends = field(default_factory=Ends)


class Stream(ABC):
    """One watcher: it reads pages of `{items}` after a number, for as long as they last."""

    def __init__(self, asked: Session, request: Request, *, after: int) -> None:
        self._asked = asked
        self._after = after
        self._token = request.state.token
        self._request_id = request.state.request_id
        self._shared: Watching = request.app.state.watching
        self._pause = self._shared.fastest
        self._signed_in_at = self._sent_at = time.monotonic()
        self._visit = request.state.visit
        self._whole = request.app.state.desk
        self._ends: str | None = None

    async def response(self) -> Response:
        """The stream; what cannot begin is refused like any request."""
        if self._shared.count >= self._shared.most:
            raise Unavailable(
                f"this process serves {self._shared.most} streams at once, and all are taken",
                code="too_many_watchers",
                next="try again in a moment, ask another process, or read by pages",
            )
        first = await self.read()
        return StreamingResponse(self._events(first), media_type=EVENTS)

    @abstractmethod
    async def read(self) -> Mapping[str, Any]:
        """The next page; called again after a pause, or at once after one that was not empty."""

    @abstractmethod
    def frames(self, page: Mapping[str, Any]) -> list[tuple[int, bytes]]:
        """The events of a page, each with its number."""

    async def last(self, page: Mapping[str, Any]) -> bytes | None:
        """What ends the stream after this page; None while it goes on."""
        del page
        return None

    async def thread(self, call: Any, *arguments: Any) -> Any:
        """What a use case answers, in one of the few threads."""
        return await anyio.to_thread.run_sync(
            lambda: call(self._asked.desk, *arguments), limiter=self._shared.threads
        )

    async def _events(self, page: Mapping[str, Any]) -> AsyncIterator[bytes]:
        self._shared.count += 1
        try:
            yield b"retry: 1000\n\n"
            while not self._shared.closing.is_set():
                for number, sent in self.frames(page):
                    yield sent
                    self._after = number
                if last := await self.last(page):
                    yield last
                    return
                if comment := self._rest(len(page["items"])):
                    yield comment
                await anyio.sleep(0 if page["items"] else self._pause)
                page = await self._next()
        except ManentError as error:
            yield frame("problem", problem.from_error(error).body(self._request_id))
        finally:
            self._shared.count -= 1

    def _rest(self, count: int) -> bytes:
        """Poll faster while something comes; a comment when nothing was sent for long."""
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
            return await self.read()
        except Unavailable:  # the watcher waits with us until the database is back
            return {"items": (), "ended": False}

    async def _sign_in_again(self) -> None:
        """Look again who watches: now and then, and as soon as anybody was let in no more.

        What is not seen any more is not sent any more.
        """
        now = time.monotonic()
        newest = await self._shared.ends.newest(
            lambda: self.thread(lambda _: self._asked.calls.newest_end(self._whole))
        )
        # At first too: somebody may have been let in no more since the request was.
        is_same = newest == self._ends
        self._ends = newest
        if is_same and now - self._signed_in_at < self._shared.sign_in_again:
            return
        caller = await self.thread(
            lambda _: self._asked.calls.authenticate(
                self._whole, self._token.reveal(), visit=self._visit
            )
        )
        caller.demand_somewhere(READ)
        self._asked = replace(self._asked, desk=self._whole.seen_by(caller), caller=caller)
        self._signed_in_at = now


def number(text: str, *, of: str) -> int:
    """The number in a `Last-Event-ID`.

    Args:
        text: As it was sent.
        of: What it is the number of.
    """
    if _SEQUENCE.fullmatch(text) and int(text) <= MAX_COUNT:
        return int(text)
    raise Invalid(
        f"the Last-Event-ID is no {of}",
        next="send the id of the last event you have, or none",
        errors=[{"path": "Last-Event-ID", "message": "must be a whole number"}],
    )


def frame(name: str, value: Any, *, number: int | None = None) -> bytes:
    """One event as it is sent."""
    lines = [f"event: {name}", f"data: {json.dumps(value)}"]
    if number is not None:
        lines.insert(0, f"id: {number}")
    return ("\n".join(lines) + "\n\n").encode()
