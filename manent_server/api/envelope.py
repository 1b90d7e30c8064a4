"""Around every request: its id, the headers of every answer, the access log, the last resort."""

import logging
import re
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from manent_server.api import problem
from manent_server.api.signin import SIGNED
from manent_server.domain.errors import ManentError
from manent_server.observability.log import bound, fields
from manent_server.observability.metrics import Metrics
from manent_server.observability.redaction import Redactor
from manent_server.observability.trace import Note, Tracer

_log = logging.getLogger("manent.api")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
"""What every answer says to browsers."""
_SECURE = (b"strict-transport-security", b"max-age=31536000")
_OURS = frozenset({_SECURE[0], *(name for name, _ in HEADERS)})
_QUIET = frozenset({"/livez", "/readyz", "/metrics"})


class Envelope:
    """ASGI middleware around everything else.

    Gives each request an id (the caller's `X-Request-Id` when it is well formed), turns what
    nobody else caught into a problem body, counts and logs what was answered.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        metrics: Metrics,
        redactor: Redactor,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._redactor = redactor
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = self._clock()
        answer = _Answer(
            send,
            _request_id(scope),
            is_bare=scope["method"] == "HEAD",
            is_secure=scope.get("scheme") == "https",
        )
        if answer.is_bare:
            # What answers GET answers HEAD, without the body: probes ask so.
            scope["method"] = "GET"
        scope.setdefault("state", {})["request_id"] = answer.request_id
        with bound(request_id=answer.request_id), _span(scope, answer.request_id) as note:
            try:
                await self._guarded(scope, receive, answer)
            finally:
                note(name=f"{scope['method']} {_route(scope)}", status=answer.status)
                self._report(scope, answer.status, self._clock() - began)

    async def _guarded(self, scope: Scope, receive: Receive, answer: "_Answer") -> None:
        try:
            await self._app(scope, receive, answer.send)
        except ClientDisconnect:
            _log.debug("client went away")
        except ManentError as error:
            await self._refuse(problem.from_error(error), scope, receive, answer)
        except problem.HttpRefusal as error:
            await self._refuse(error.problem, scope, receive, answer)
        except Exception:  # noqa: BLE001 - the last resort: nothing of it may reach the caller
            _log.exception("unexpected error", extra=fields(path=scope["path"]))
            await self._refuse(problem.unexpected(), scope, receive, answer)

    async def _refuse(
        self, refusal: problem.Problem, scope: Scope, receive: Receive, answer: "_Answer"
    ) -> None:
        if answer.status:  # something was sent already: all that is left is to stop
            return
        if scope["path"].startswith(SIGNED):
            # So that a bridge finds here too what it tells its person; chats go by the status.
            told = {"ok": False, "message": refusal.detail}
            refusal = replace(refusal, facts={**refusal.facts, **told})
        shown = problem.redacted(refusal, self._redactor)
        response = problem.response(shown, answer.request_id)
        await response(scope, receive, answer.send)

    def _report(self, scope: Scope, status: int, seconds: float) -> None:
        self._metrics.http_request(scope["method"], _route(scope), status, seconds=seconds)
        caller = scope["state"].get("caller")
        write = _log.debug if scope["path"] in _QUIET else _log.info
        named = fields(
            method=scope["method"],
            path=scope["path"],
            status=status,
            milliseconds=round(seconds * 1000, 1),
            client=(scope.get("client") or ("",))[0],
            **_named(caller),
        )
        write("request", extra=named)


class _Answer:
    """The way out of one request: adds the headers and remembers the status."""

    def __init__(self, send: Send, request_id: str, *, is_bare: bool, is_secure: bool) -> None:
        self._send = send
        self.is_bare = is_bare
        self._more = (*HEADERS, _SECURE) if is_secure else HEADERS
        self.request_id = request_id
        self.status = 0

    async def send(self, message: Message) -> None:
        """Pass one ASGI message on."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            kept = [pair for pair in message.get("headers", ()) if pair[0].lower() not in _OURS]
            named = (b"x-request-id", self.request_id.encode())
            message = {**message, "headers": [*kept, *self._more, named]}
        elif self.is_bare and message["type"] == "http.response.body":
            message = {**message, "body": b""}
        await self._send(message)


def _span(scope: Scope, request_id: str) -> AbstractContextManager[Note]:
    """The request in the trace of its caller; what only looks at the process is in none."""
    tracer: Tracer = Tracer() if scope["path"] in _QUIET else scope["app"].state.tracer
    parent = Headers(scope=scope).get("traceparent")
    return tracer.span(scope["method"], parent=parent, request_id=request_id)


def _route(scope: Scope) -> str:
    found: str = getattr(scope.get("route"), "path_format", "unmatched")
    return found


def _request_id(scope: Scope) -> str:
    given = Headers(scope=scope).get("x-request-id", "")
    return given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)


def _named(caller: Any) -> Mapping[str, str]:
    return {"caller": caller.name} if caller is not None else {}
