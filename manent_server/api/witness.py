"""Puts on record what was not let, before whoever asked hears of it."""

from typing import Any

import anyio.to_thread
from starlette.types import ASGIApp, Receive, Scope, Send

from manent_server.domain.errors import ManentError, NotSignedIn
from manent_server.observability.redaction import Redactor
from manent_server.usecases import refuse
from manent_server.usecases.refuse import Refusal, Refusals

_LONGEST = 300


class Witness:
    """ASGI middleware: hands refusals to `app.state.refusals`, where a process has them.

    Args:
        app: What is behind it.
        redactor: What no record may hold.
    """

    def __init__(self, app: ASGIApp, redactor: Redactor) -> None:
        self._app = app
        self._redactor = redactor

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request."""
        try:
            await self._app(scope, receive, send)
        except ManentError as error:
            action = refuse.action_of(error)
            refusals: Refusals | None = getattr(scope["app"].state, "refusals", None)
            if action is not None and refusals is not None:
                refusal = self._refusal(action, error, scope)
                if refusals.lets(refusal):
                    await anyio.to_thread.run_sync(refusals.write, refusal)
            raise

    def _refusal(self, action: str, error: ManentError, scope: Scope) -> Refusal:
        shown = self._redactor.redact
        detail: dict[str, Any] = {
            "method": scope["method"],
            # Without its query, where a token may stand by mistake.
            "path": shown(scope["path"])[:_LONGEST],
            "code": error.code,
            "detail": shown(error.detail)[:_LONGEST],
            "request_id": scope["state"].get("request_id"),
        }
        if isinstance(error, NotSignedIn):
            detail |= error.told
        client = scope.get("client")
        caller = scope["state"].get("caller")
        return Refusal(action, caller, client[0] if client else None, detail)
