"""The only way in: every request carries a bearer token unless its path is public."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio.to_thread
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from manent_server.domain.errors import NotSignedIn
from manent_server.domain.secret import Secret
from manent_server.usecases.requests import Visit

PUBLIC = frozenset({"/livez", "/readyz", "/api/v1/auth/providers", "/api/v1/auth/sessions"})
SIGNED = "/webhooks/"
"""What comes below it carries no token: it is believed by its signature, or not at all."""
_BEARER = re.compile(r"bearer +([!-~]{1,512})", re.IGNORECASE)


def is_public(path: str) -> bool:
    """Whether anybody may ask there."""
    return path in PUBLIC or path.startswith(SIGNED)


class SignIn:
    """ASGI middleware: no token, no route, whatever the path.

    Args:
        app: What is behind it.
        authenticate: Token text and `visit` to caller; raises `NotSignedIn`. Called in a thread.
    """

    def __init__(self, app: ASGIApp, authenticate: Callable[..., Any]) -> None:
        self._app = app
        self._authenticate = authenticate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the request, with `caller` and `token` in its state."""
        if scope["type"] == "websocket":
            raise NotSignedIn("no websocket is served here")
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            visit = _visit(scope, headers)
            scope.setdefault("state", {})["visit"] = visit
            if not is_public(scope["path"]):
                token = _token(headers)
                authenticate = partial(self._authenticate, token.reveal(), visit=visit)
                caller = await anyio.to_thread.run_sync(authenticate)
                scope["state"].update(caller=caller, token=token)
        await self._app(scope, receive, send)


def _visit(scope: Scope, headers: Headers) -> Visit:
    """Which way it came, as it says itself, and from where."""
    is_cli = headers.get("user-agent", "").startswith("manent-cli/")
    client = scope.get("client")
    return Visit("cli" if is_cli else "api", client[0] if client else None)


def _token(headers: Headers) -> Secret:
    given = headers.getlist("authorization")
    found = _BEARER.fullmatch(given[0].strip()) if len(given) == 1 else None
    if found is None:
        raise NotSignedIn(
            "the request carries no bearer token",
            next="send the header Authorization: Bearer TOKEN",
        )
    return Secret(found[1])
