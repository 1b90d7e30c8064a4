"""Routes of who gets in: signing in and out, who one is here, and tokens."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path
from pydantic import Field

from manent_server.api.bodies import Body
from manent_server.api.fields import Lasting, Name, NamePattern, Signed, Text
from manent_server.api.route import PREFIX, PUBLIC, SIGNED_IN, Route, needs
from manent_server.api.session import Asked, Key, Visiting
from manent_server.api.shapes import Shape, When
from manent_server.domain import duration
from manent_server.domain.access import GRANT
from manent_server.domain.errors import Invalid
from manent_server.usecases.requests import SignInRequest, TokenRequest

router = APIRouter(prefix=PREFIX, route_class=Route, tags=["access"])
TokenId = Annotated[str, Path(description="Id of a token.", examples=["0123456789abcdef"])]
SessionId = Annotated[str, Path(description="Id of a session.", examples=["0123456789abcdef"])]
Patterns = Annotated[list[NamePattern], Field(max_length=50)]


class SignInBody(Body):
    """Sign in by an identity token."""

    assertion: Signed = Field(
        description="An OpenID Connect identity token, of a provider or of a CI job."
    )
    rule: Name | None = Field(
        default=None, description="Which rule under `access.trust`, where several would do."
    )


class TokenBody(Body):
    """Make a token."""

    name: Name = Field(description="The principal; several tokens may share it.")
    role: Literal["viewer", "deployer", "approver", "operator", "admin"]
    kind: Literal["person", "service"] = "service"
    groups: Annotated[list[Text], Field(max_length=50)] = Field(
        default=[], description="Groups it is in, as rules name them."
    )
    applications: Patterns = Field(default=[], description="Names with * and ?; [] = all.")
    environments: Patterns = Field(default=[], description="Names with * and ?; [] = all.")
    expires: Lasting | None = Field(default=None, description="Such as 90d. Default: never.")


class Granted(Shape):
    """A role and where it holds; with `deny` it is taken away there."""

    role: str
    applications: list[str]
    environments: list[str]
    deny: bool


class Identity(Shape):
    """Who somebody is here, and what it may."""

    name: str
    kind: str
    login: str | None = None
    acts_for: str | None = None
    groups: list[str]
    grants: list[Granted]
    source: str
    expires_at: When | None = None


class SignedIn(Identity):
    """A new session; `token` is shown this once."""

    token: str


class Provider(Shape):
    """Where people sign in."""

    name: str
    issuer: str
    client_id: str


class Providers(Shape):
    """Everywhere people sign in."""

    items: list[Provider]


class Token(Shape):
    """A token, without its text."""

    id: str
    name: str
    shown: str
    role: str
    kind: str
    groups: list[str]
    applications: list[str]
    environments: list[str]
    created_by: str
    created_at: When
    expires_at: When | None = None
    revoked_at: When | None = None
    last_used_at: When | None = None
    last_used_from: str | None = None


class NewToken(Token):
    """A new token; `token` is its text, shown this once and null when asked again."""

    token: str | None = None


class LiveSession(Shape):
    """Somebody who is signed in by an identity provider."""

    id: str
    name: str
    source: str
    groups: list[str]
    created_at: When
    expires_at: When


class LiveSessions(Shape):
    """Everybody who is signed in so."""

    items: list[LiveSession]


class Tokens(Shape):
    """Every token."""

    items: list[Token]


@router.get("/auth/providers", response_model=Providers, openapi_extra=needs(PUBLIC))
def providers(visiting: Visiting) -> Any:
    """Where people sign in."""
    return visiting.calls.providers(visiting.desk)


@router.post(
    "/auth/sessions",
    status_code=201,
    response_model=SignedIn,
    openapi_extra=needs(PUBLIC, while_fenced=True),
)
def sign_in(body: SignInBody, visiting: Visiting) -> Any:
    """Sign in: an identity token, once, for a session of this server."""
    request = SignInRequest(body.assertion, body.rule)
    return visiting.calls.sign_in(visiting.desk, request, visit=visiting.visit)


@router.get("/auth", response_model=Identity, openapi_extra=needs(SIGNED_IN))
def whoami(asked: Asked) -> Any:
    """Who one is here, and what one may."""
    return asked.calls.whoami(asked.desk, caller=asked.caller)


@router.delete("/auth", response_model=Identity, openapi_extra=needs(SIGNED_IN, while_fenced=True))
def sign_out(asked: Asked) -> Any:
    """Sign out: the session ends at once."""
    return asked.calls.sign_out(asked.desk, caller=asked.caller)


@router.get("/tokens", response_model=Tokens, openapi_extra=needs(GRANT))
def tokens(asked: Asked) -> Any:
    """Every token, without its text."""
    return asked.calls.tokens(asked.desk, caller=asked.caller)


@router.post("/tokens", status_code=201, response_model=NewToken, openapi_extra=needs(GRANT))
def create(body: TokenBody, asked: Asked, key: Key) -> Any:
    """Make a token; one of the same name goes on until it is revoked."""
    request = TokenRequest(
        body.name,
        body.role,
        _lasting(body.expires),
        body.kind,
        body.groups,
        body.applications,
        body.environments,
    )
    return asked.calls.create_token(asked.desk, request, caller=asked.caller, key=key)


@router.delete(
    "/tokens/{token_id}", response_model=Token, openapi_extra=needs(GRANT, while_fenced=True)
)
def revoke(token_id: TokenId, asked: Asked) -> Any:
    """Revoke a token: it is worth nothing from now on."""
    return asked.calls.revoke_token(asked.desk, token_id, caller=asked.caller)


@router.get("/sessions", response_model=LiveSessions, openapi_extra=needs(GRANT))
def sessions(asked: Asked) -> Any:
    """Everybody who is signed in by an identity provider."""
    return asked.calls.sessions(asked.desk, caller=asked.caller)


@router.delete(
    "/sessions/{session_id}",
    response_model=LiveSession,
    openapi_extra=needs(GRANT, while_fenced=True),
)
def end(session_id: SessionId, asked: Asked) -> Any:
    """End somebody's session at once."""
    return asked.calls.end_session(asked.desk, session_id, caller=asked.caller)


def _lasting(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return duration.parse(text)
    except ValueError as error:
        raise Invalid(
            f"expires {error}",
            next="give a duration such as 90d",
        ) from error
