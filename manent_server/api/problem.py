"""The one shape of every refusal: RFC 9457 plus what manent adds, and the status of each class."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from starlette.responses import JSONResponse

from manent_server.domain import errors
from manent_server.observability.redaction import Redactor

MEDIA_TYPE = "application/problem+json"
HEADERS = {
    401: {"WWW-Authenticate": 'Bearer realm="manent"'},
    429: {"Retry-After": "1"},
    503: {"Retry-After": "5"},
}


@dataclass(frozen=True)
class Status:
    """How one class of error looks in HTTP."""

    code: int
    title: str


STATUS: Mapping[type[errors.ManentError], Status] = {
    errors.Malformed: Status(400, "The request cannot be read"),
    errors.NotSignedIn: Status(401, "Not signed in"),
    errors.NotAllowed: Status(403, "Not allowed"),
    errors.NotFound: Status(404, "Not found"),
    errors.Refused: Status(409, "Refused by policy"),
    errors.Conflict: Status(409, "In conflict with the present state"),
    errors.KeyReused: Status(422, "Idempotency key used before with another body"),
    errors.NameInvalid: Status(422, "Not a valid name"),
    errors.Invalid: Status(422, "Not acceptable"),
    errors.Unavailable: Status(503, "Not available now"),
    errors.ConfigurationError: Status(409, "The configuration does not allow it"),
    errors.StartRefused: Status(503, "Not available now"),
    errors.ManentError: Status(500, "Error"),
}
# Refusals that only HTTP knows: no class of the domain stands for them.
TITLES = {
    400: "The request cannot be read",
    405: "Method not allowed",
    408: "The body took too long",
    413: "The body is too large",
    415: "Not a known content type",
    429: "Too many requests",
    431: "The head of the request is too large",
    500: "Unexpected error",
}
CODES = {
    400: "malformed",
    405: "method_not_allowed",
    408: "body_slow",
    413: "body_too_large",
    415: "content_type_unknown",
    429: "too_many_requests",
    431: "head_too_large",
    500: "unexpected",
}


@dataclass(frozen=True)
class Problem:
    """One refusal, ready to be sent."""

    status: int
    title: str
    code: str
    detail: str
    next: str = ""
    errors: Sequence[Mapping[str, Any]] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def body(self, request_id: str) -> dict[str, Any]:
        """The JSON of it; facts never replace a field of the standard shape."""
        found: dict[str, Any] = {
            **self.facts,
            "type": f"urn:manent:problem:{self.code}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            "next": self.next,
            "request_id": request_id,
        }
        if self.errors:
            found["errors"] = [dict(error) for error in self.errors]
        return found


class HttpRefusal(Exception):
    """A refusal only HTTP has a word for (too large, wrong content type, wrong method)."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


def refusal(
    status: int, detail: str, *, advice: str, headers: Mapping[str, str] | None = None
) -> HttpRefusal:
    """An `HttpRefusal` with the title and the code of its status."""
    return HttpRefusal(
        Problem(status, TITLES[status], CODES[status], detail, next=advice, headers=headers or {})
    )


def status_of(error: type[errors.ManentError]) -> Status:
    """The status of a class, or of the nearest class above it."""
    return next(STATUS[kind] for kind in error.__mro__ if kind in STATUS)


def from_error(error: errors.ManentError) -> Problem:
    """The problem of one refusal of the domain."""
    status = status_of(type(error))
    return Problem(
        status.code,
        status.title,
        error.code,
        error.detail,
        next=error.next,
        errors=error.errors,
        facts=error.facts,
        headers=HEADERS.get(status.code, {}),
    )


def unexpected() -> Problem:
    """What a caller hears of a fault of ours: nothing but where to look it up."""
    return Problem(
        500,
        TITLES[500],
        CODES[500],
        "the server met a fault of its own; nothing more is known to the caller",
        next="look up request_id in the server's log, or try again",
    )


def response(problem: Problem, request_id: str) -> JSONResponse:
    """The response that carries it."""
    return JSONResponse(
        problem.body(request_id),
        status_code=problem.status,
        headers=dict(problem.headers),
        media_type=MEDIA_TYPE,
    )


def redacted(problem: Problem, redactor: Redactor) -> Problem:
    """The same without any known secret in what a person reads."""
    return replace(
        problem,
        detail=redactor.redact(problem.detail),
        next=redactor.redact(problem.next),
        errors=redactor.redact_value([dict(error) for error in problem.errors]),
        facts=redactor.redact_value(dict(problem.facts)),
    )
