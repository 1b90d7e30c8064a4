"""The two applications of a server: the API, and probes with metrics on their own listener."""

import threading
from functools import partial
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

import anyio
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.routing import Match

from manent_server.api import (
    access,
    admin,
    approvals,
    audit,
    deploys,
    dora,
    events,
    links,
    logs,
    marks,
    notices,
    openapi,
    places,
    probes,
    problem,
    restore,
    schedules,
    webhooks,
)
from manent_server.api.calls import Calls
from manent_server.api.envelope import Envelope
from manent_server.api.pace import AtTheDoor, OfCallers
from manent_server.api.pulse import Pulse
from manent_server.api.route import PREFIX
from manent_server.api.signin import SignIn
from manent_server.api.stream import Watching
from manent_server.api.witness import Witness
from manent_server.domain.errors import NotFound
from manent_server.observability.metrics import Metrics
from manent_server.observability.redaction import Redactor
from manent_server.observability.trace import Tracer

ROUTERS = (
    deploys.router,
    logs.router,
    places.router,
    dora.router,
    marks.router,
    approvals.router,
    schedules.router,
    events.router,
    notices.router,
    audit.router,
    restore.router,
    links.router,
    admin.router,
    access.router,
)


def create_app(  # noqa: PLR0913 - what one server is made of
    desk: Any,
    *,
    probed: Any = None,
    calls: Calls | None = None,
    metrics: Metrics | None = None,
    redactor: Redactor | None = None,
    workflow_version: str | None = None,
) -> FastAPI:
    """The API of one server.

    Args:
        desk: What the use cases work on; handed through, and asked for `settings()`.
        probed: What readiness works on; the same unless given.
        calls: The use cases; the real ones unless given.
        metrics: Where requests are counted.
        redactor: What no answer may hold.
        workflow_version: What `/version` names beside the version of the build.
    """
    app = _bare(
        desk, probed or desk, calls=calls, metrics=metrics, openapi_url=f"{PREFIX}/openapi.json"
    )
    app.state.body_limit = desk.settings().server.body_limit
    app.state.workflow_version = workflow_version
    app.state.watching = Watching(app.state.closing)
    app.state.head = events.Head()
    app.state.ear = None  # what chats are heard with: given by whoever serves them
    app.state.hearing = anyio.CapacityLimiter(webhooks.AT_ONCE)
    app.add_route(webhooks.PATH, webhooks.webhook, methods=["POST"])
    for router in ROUTERS:
        app.router.routes.extend(router.routes)
    app.add_exception_handler(HTTPException, _http_exception)
    openapi.install(app)
    app.state.refusals = None
    server = desk.settings().server
    # What is added later stands before what was added earlier.
    app.add_middleware(OfCallers, rates=server.rates)
    app.add_middleware(SignIn, authenticate=partial(app.state.calls.authenticate, desk))
    app.add_middleware(Witness, redactor=redactor or Redactor())
    app.add_middleware(AtTheDoor, rates=server.rates, header_limit=server.header_limit)
    _wrap(app, redactor)
    return app


def create_probe_app(
    desk: Any,
    *,
    probed: Any = None,
    calls: Calls | None = None,
    metrics: Metrics | None = None,
    redactor: Redactor | None = None,
) -> FastAPI:
    """`/livez`, `/readyz` and `/metrics` of one process."""
    app = _bare(desk, probed or desk, calls=calls, metrics=metrics, openapi_url=None)
    app.add_route("/metrics", probes.metrics, methods=["GET"])
    app.add_exception_handler(HTTPException, _http_exception)
    _wrap(app, redactor)
    return app


def _bare(
    desk: Any,
    probed: Any,
    *,
    calls: Calls | None,
    metrics: Metrics | None,
    openapi_url: str | None,
) -> FastAPI:
    app = FastAPI(
        title="manent",
        version=version("manent"),
        openapi_url=openapi_url,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        strict_content_type=False,
    )
    app.state.desk = desk
    app.state.probed = probed
    app.state.calls = calls or Calls()
    app.state.metrics = metrics or Metrics()
    app.state.tracer = Tracer()  # another is given by whoever serves it
    app.state.closing = threading.Event()
    app.state.probing = anyio.CapacityLimiter(2)
    app.state.asking = anyio.CapacityLimiter(8)
    app.state.pulse = Pulse()
    app.router.routes.extend(probes.router.routes)
    return app


def _wrap(app: FastAPI, redactor: Redactor | None) -> None:
    app.state.redactor = redactor or Redactor()
    app.add_middleware(Envelope, metrics=app.state.metrics, redactor=app.state.redactor)


async def _http_exception(request: Request, error: Exception) -> Response:
    """What the router itself refuses: unknown paths and wrong methods."""
    if isinstance(error, HTTPException) and error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = ", ".join(_methods(request))
        raise problem.refusal(
            405,
            f"{request.method} is not allowed here",
            advice=f"use {allowed}",
            headers={"Allow": allowed},
        )
    raise _nothing(request.url.path)


def _nothing(path: str) -> NotFound:
    """What is not there, as whoever asked may know it: an address with a '/' is no route."""
    _, mark, address = path.partition(f"{PREFIX}/deploys/")
    if mark and address:
        shown = address.encode("unicode_escape").decode("ascii")[:80]
        return NotFound(
            f"there is no deploy {shown}",
            next="give an id, at least 6 characters of it, or application/environment#number",
        )
    return NotFound("no such route", next=f"the routes are listed in {PREFIX}/openapi.json")


def _methods(request: Request) -> list[str]:
    found: set[str] = set()
    for route in request.app.routes:
        match, _ = route.matches(request.scope)
        if match is not Match.NONE:
            found |= route.methods or set()
    return sorted(found)
