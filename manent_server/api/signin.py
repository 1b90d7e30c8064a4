"""The only way in: every request carries a bearer token unless its path is public."""

import re
from collections.abc import Callable
from typing import Any

import anyio.to_thread
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from manent_server.domain.errors import NotSignedIn

PUBLIC = frozenset({"/livez", "/readyz"})
_BEARER = re.compile(r"bearer +([!-~]{1,512})", re.IGNORECASE)


def is_public(path: str) -> bool:
    """Whether anybody may ask there."""
    return path in PUBLIC


class SignIn:
    """ASGI middleware: no token, no route, whatever the path.

    Args:
        app: What is behind it.
        authenticate: Token text to caller; raises `NotSignedIn`. Called in a thread.
    """

    def __init__(self, app: ASGIApp, authenticate: Callable[[str], Any]) -> None:
        self._app = app
        self._authenticate = authenticate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, with `caller` and `token` in its state."""
        if scope["type"] == "http" and not is_public(scope["path"]):
            token = _token(Headers(scope=scope))
            caller = await anyio.to_thread.run_sync(self._authenticate, token)
            scope.setdefault("state", {}).update(caller=caller, token=token)
        elif scope["type"] == "websocket":
            raise NotSignedIn("no websocket is served here")
        await self._app(scope, receive, send)


def _token(headers: Headers) -> str:
    given = headers.getlist("authorization")
    found = _BEARER.fullmatch(given[0].strip()) if len(given) == 1 else None
    if found is None:
        raise NotSignedIn(
            "the request carries no bearer token",
            next="send the header Authorization: Bearer TOKEN",
        )
    return found[1]
