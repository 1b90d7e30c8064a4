"""Where chats knock: public, and believed only by what they sign."""

import logging
from collections import Counter
from typing import Any

import anyio.to_thread
from fastapi import Request, Response
from starlette.background import BackgroundTask
from starlette.responses import JSONResponse

from manent_server.api import problem
from manent_server.api.route import receive
from manent_server.domain.chat import Knock
from manent_server.domain.errors import ManentError

_log = logging.getLogger("manent.api")
PATH = "/webhooks/{name}"
AT_ONCE = 16


async def webhook(request: Request) -> Response:
    """Hear what a chat says: a decision in an approval, signed as that chat signs."""
    state = request.app.state
    name = request.path_params["name"]
    address = request.client.host if request.client else None

    async def ask(call: Any, *arguments: Any) -> Any:
        # A place of its own: however busy the routes are, a chat is answered in time.
        return await anyio.to_thread.run_sync(
            lambda: call(state.desk.opened(), state.ear, name, *arguments), limiter=state.hearing
        )

    try:
        body = await receive(request, request.app.state.body_limit)
    except problem.HttpRefusal:
        await ask(state.calls.hear_too_much, address)
        raise
    reply = await ask(state.calls.hear, Knock(_headers(request), body, address))
    after = BackgroundTask(_safely, name, reply.after) if reply.after else None
    if reply.body is None:
        return Response(status_code=reply.status, background=after)
    media = problem.MEDIA_TYPE if "code" in reply.body else None
    return JSONResponse(
        dict(reply.body), status_code=reply.status, media_type=media, background=after
    )


def _headers(request: Request) -> dict[str, str]:
    """Each header that came once."""
    count = Counter(name.lower() for name, _ in request.headers.items())
    return {name: value for name, value in request.headers.items() if count[name] == 1}


def _safely(name: str, after: Any) -> None:
    try:
        after()
    except Exception as error:  # noqa: BLE001 - the answer is out: what follows it is best effort
        words = error.detail if isinstance(error, ManentError) else str(error)
        _log.warning("chat %s: the person could not be told: %s", name, words)
