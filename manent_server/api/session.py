"""What a route knows of its request besides parameters: who asks, with which key, of which desk."""

import re
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Header, Request

from manent_server.api.body import digest
from manent_server.api.calls import Calls
from manent_server.api.route import must_be_open
from manent_server.domain.access import Caller
from manent_server.domain.errors import Invalid
from manent_server.usecases.requests import IdempotencyKey, Visit

_KEY = re.compile(r"^[!-~]([ -~]{0,253}[!-~])?$")


@dataclass(frozen=True)
class Session:
    """The desk, the use cases and the caller of one request."""

    desk: Any
    calls: Calls
    caller: Caller


@dataclass(frozen=True)
class Visitor:
    """The desk, the use cases and whence a request comes of which nobody knows who sent it."""

    desk: Any
    calls: Calls
    visit: Visit


async def _visitor(request: Request) -> Visitor:
    state = request.app.state
    desk = state.desk.opened() if must_be_open(request) else state.desk
    return Visitor(desk, state.calls, request.state.visit)


async def _session(request: Request) -> Session:
    state = request.app.state
    caller = request.state.caller
    desk = state.desk.opened() if must_be_open(request) else state.desk
    return Session(desk.seen_by(caller), state.calls, caller)


async def _key(
    request: Request,
    idempotency_key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            description="The same key and body again: the same deploy again, never a second.",
            pattern=_KEY.pattern,
        ),
    ] = None,
) -> IdempotencyKey | None:
    given = request.headers.getlist("idempotency-key")
    if not given:
        return None
    if len(given) > 1 or idempotency_key is None or not _KEY.fullmatch(idempotency_key):
        raise Invalid(
            "the Idempotency-Key is not one text of 1 to 255 printable ASCII characters",
            code="idempotency_key_invalid",
            next="send a key such as a UUID, once",
            errors=[{"path": "Idempotency-Key", "message": "is not acceptable"}],
        )
    return IdempotencyKey(idempotency_key, request.url.path, digest(await request.json()))


Asked = Annotated[Session, Depends(_session)]
Visiting = Annotated[Visitor, Depends(_visitor)]
Key = Annotated[IdempotencyKey | None, Depends(_key)]
