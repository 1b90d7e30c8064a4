"""One kind of route: checks the right, reads the body, refuses what nobody reads."""

import email.message
import re
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.convertors import Convertor, register_url_convertor
from starlette.types import Message

from manent_server.api import validation
from manent_server.api.body import read_object
from manent_server.api.problem import HttpRefusal, refusal
from manent_server.domain.errors import Invalid, Malformed, NotFound
from manent_server.observability.redaction import Redactor

RIGHT = "x-right"
FENCED = "x-while-fenced"
PUBLIC = "public"
"""Instead of a right: anybody may, without a token. `signin.PUBLIC` names the paths."""
SIGNED_IN = "signed in"
"""Instead of a right: whoever is known may, whatever it was granted."""
PREFIX = "/api/v1"
BODY_SECONDS = 30.0
# How much of a body that is too large is thrown away, so that the sender gets to read the answer.
DRAIN_BYTES = 64 * 2**20
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_PROSE = frozenset({"reason", "comment", "links", "changes"})
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Address(Convertor[str]):
    """A deploy in a path: an id or its beginning, or `application/environment#number`."""

    regex = r"[^/]+(?:/[^/#]+#[^/]*)?"

    def convert(self, value: str) -> str:
        """The text as it is; the use case judges it."""
        return value

    def to_string(self, value: str) -> str:
        """The text as it is."""
        return value


register_url_convertor("address", Address())


def needs(right: str, *, while_fenced: bool = False) -> dict[str, Any]:
    """What a route declares (as `openapi_extra`).

    Args:
        right: The right its caller must have.
        while_fenced: It changes something and works on a restored database too, of which a
            person has not decided yet.
    """
    return {RIGHT: right, **({FENCED: True} if while_fenced else {})}


def must_be_open(request: Request) -> bool:
    """Whether what is asked for may change something only where the database is open."""
    declared = getattr(request.scope.get("route"), "openapi_extra", None) or {}
    return request.method not in _READING and FENCED not in declared


class ReadRequest(Request):
    """A request whose body was read and parsed before the route looks at it."""

    parsed: Any = None

    async def json(self) -> Any:
        """The parsed body."""
        return self.parsed


class Route(APIRoute):
    """A route that demands a right before it reads anything of the body."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """The handler FastAPI made, behind our checks."""
        right = (self.openapi_extra or {}).get(RIGHT)
        if right is None:
            raise TypeError(f"{self.path} says not which right it needs")
        inner = super().get_route_handler()
        body = self.body_field

        async def handle(request: Request) -> Response:
            if right not in (PUBLIC, SIGNED_IN):
                request.state.caller.demand_somewhere(right)
            self._check_address(request)
            self._check_query(request)
            if body is not None:
                may_lack_body = not body.field_info.is_required()
                request = await _read(request, may_lack_body=may_lack_body)
            try:
                return await inner(request)
            except RequestValidationError as error:
                raise self._invalid(error) from None

        return handle

    def _check_address(self, request: Request) -> None:
        if any(_CONTROL.search(str(value)) for value in request.path_params.values()):
            raise NotFound("nothing has such a name", next="control characters are in no name")

    def _check_query(self, request: Request) -> None:
        known = _fields(self.dependant.query_params)
        given = Counter(key for key, _ in request.query_params.multi_items())
        wrong = [validation.unknown_parameter(key, known) for key in given if key not in known] + [
            {"path": key, "message": "is given more than once"}
            for key, count in given.items()
            if count > 1 and key in known and not known[key]
        ]
        if wrong:
            named = ", ".join(error["path"] for error in wrong[: validation.MAX_FINDINGS])
            raise Invalid(
                f"the query is not acceptable: {named}",
                next="correct what errors lists and send it again",
                errors=wrong[: validation.MAX_FINDINGS],
            )

    def _invalid(self, error: RequestValidationError) -> Invalid:
        found = error.errors()
        where = str(found[0]["loc"][0]) if found else "body"
        known = _fields([self.body_field]) if where == "body" else {}
        return validation.invalid(found, known=known, where=where)


def _fields(parameters: Any) -> dict[str, bool]:
    """Names the models of these parameters know, and whether each may repeat."""
    found: dict[str, bool] = {}
    for parameter in parameters:
        model = parameter.field_info.annotation
        if isinstance(model, type) and issubclass(model, BaseModel):
            found |= {
                field.alias or name: getattr(field.annotation, "__origin__", None) is list
                for name, field in model.model_fields.items()
            }
    return found


async def _read(request: Request, *, may_lack_body: bool) -> ReadRequest:
    raw = await receive(request, request.app.state.body_limit)
    if raw.strip():
        _check_content_type(request)
        parsed = _without_secrets(read_object(raw), request.app.state.redactor)
    elif may_lack_body:
        raw, parsed = b"", {}
    else:
        raise Malformed("the body is empty", next="send one JSON object")

    async def replay() -> Message:
        return {"type": "http.request", "body": raw, "more_body": False}

    read = ReadRequest(request.scope, replay)
    read.parsed = parsed
    return read


def _without_secrets(parsed: dict[str, Any], redactor: Redactor) -> dict[str, Any]:
    """What people write is stored and told to many: no secret that is known here goes with it."""
    told = {name: redactor.redact_value(parsed[name]) for name in _PROSE & parsed.keys()}
    return {**parsed, **told}


async def receive(request: Request, limit: int) -> bytes:
    """The body, if it has at most so many bytes and comes in time.

    Raises:
        HttpRefusal: It has more, or does not come.
    """
    declared = request.headers.get("content-length", "0")
    too_large = declared.isdigit() and int(declared) > limit
    if too_large and "expect" in request.headers:  # the sender waits for our word
        raise _too_large(limit)
    found = bytearray()
    total = 0
    with anyio.move_on_after(BODY_SECONDS) as waiting:
        async for chunk in request.stream():
            total += len(chunk)
            if total <= limit:
                found += chunk
            elif total > DRAIN_BYTES:
                break
    if total > limit or too_large:
        raise _too_large(limit)
    if waiting.cancelled_caught:
        raise refusal(408, "the body did not arrive in time", advice="send it again")
    return bytes(found)


def _too_large(limit: int) -> HttpRefusal:
    return refusal(
        413,
        f"the body is larger than {limit} bytes",
        advice="send less, or raise server.body_limit",
    )


def _check_content_type(request: Request) -> None:
    message = email.message.Message()
    message["content-type"] = request.headers.get("content-type", "")
    charset = str(message.get_param("charset", "utf-8")).lower()
    encoding = request.headers.get("content-encoding", "identity").lower()
    is_json = message.get_content_type() == "application/json" and "content-type" in request.headers
    if not is_json or charset not in ("utf-8", "utf8") or encoding != "identity":
        raise refusal(
            415,
            "the body is not declared as JSON in UTF-8",
            advice="send Content-Type: application/json, not compressed",
        )
