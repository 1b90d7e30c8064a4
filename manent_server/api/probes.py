"""Probes and metrics: for the platform, never for people, and without a token."""

from typing import Any

import anyio
import anyio.to_thread
from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse

from manent_server.api import probe_shapes as shapes
from manent_server.observability.metrics import CONTENT_TYPE
from manent_server.usecases import health

router = APIRouter(tags=["probes"])
SECONDS = 5.0


@router.get("/livez", response_model=shapes.Liveness)
async def livez() -> Any:
    """The process answers. Asks nothing of the database."""
    return {"alive": True}


@router.get(
    "/readyz", response_model=shapes.Readiness, responses={503: {"model": shapes.Readiness}}
)
async def readyz(request: Request) -> Response:
    """Whether this process should get work.

    503 while it starts or drains, and when the database has not answered for a while; a short
    interruption and a slow answer are said in `reasons`.
    """
    state = request.app.state
    verdict = await anyio.to_thread.run_sync(
        lambda: state.pulse.ask(lambda: state.calls.ready(state.probed)),
        limiter=state.asking,
        abandon_on_cancel=True,
    )
    found = verdict.found or health.alone(state.probed.report(), [verdict.words])
    body = shapes.Readiness.model_validate(found).model_dump()
    body["ready"] = body["ready"] and not verdict.is_outage
    return JSONResponse(body, status_code=200 if body["ready"] else 503)


async def metrics(request: Request) -> Response:
    """All metrics of this process."""
    state = request.app.state
    try:
        with anyio.fail_after(SECONDS):
            text = await anyio.to_thread.run_sync(
                state.metrics.render, limiter=state.probing, abandon_on_cancel=True
            )
    except TimeoutError:
        return Response(status_code=503)
    return Response(text, media_type=CONTENT_TYPE)
