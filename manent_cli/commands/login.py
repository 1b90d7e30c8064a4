"""`manent login` and `manent auth`: get a session of the server, see who one is, leave."""

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlencode

import typer

from manent_cli.client import Client
from manent_cli.errors import BadUsage
from manent_cli.options import Options, command, new_app, options
from manent_cli.profile import Connection, load_contexts, new_context, resolve, save_context
from manent_cli.provider import NotSignedIn, Provider, request
from manent_cli.session import Session
from manent_cli.table import pairs

app = new_app()
_group = new_app()
app.add_typer(_group, name="auth", help="Who one is for the server, and signing out.")


@options
class Login(Options):
    """What `login` takes."""

    oidc: Annotated[
        bool, typer.Option("--oidc", help="By the identity of the CI job this runs in.")
    ] = False
    provider: Annotated[
        str | None, typer.Option(metavar="NAME", help="Where to sign in, if there are several.")
    ] = None
    rule: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --oidc: which trust rule.")
    ] = None
    audience: Annotated[
        str | None,
        typer.Option(help="With --oidc on GitHub: the audience to ask for; default: the server."),
    ] = None
    id_token: Annotated[
        str, typer.Option(metavar="VARIABLE", help="With --oidc elsewhere: holds the token.")
    ] = "ID_TOKEN"  # noqa: S105 - the name of a variable


@command(app, "login", Login)
def login(session: Session, given: Login) -> None:
    """Sign in and keep the session in a context."""
    found = resolve(session.environ, context=given.context, url=given.url)
    client = Client(found.url, environ=session.environ)
    assertion = (
        _of_a_job(session, given, client) if given.oidc else _of_a_person(session, given, client)
    )
    body = {"assertion": assertion} | ({"rule": given.rule} if given.rule else {})
    signed_in = client.post("/auth/sessions", body, key=session_key())
    name = _keep(session, found, str(signed_in.pop("token")))
    session.talk.say(f"signed in as {signed_in['name']}; kept in context {name}")
    _print(session, signed_in)


@command(_group, "status", Options)
def status(session: Session, given: Options) -> None:
    """Show who one is for the server, and what one may."""
    _print(session, session.client.get("/auth"))


@command(_group, "logout", Options)
def logout(session: Session, given: Options) -> None:
    """End the session at once."""
    found = resolve(session.environ, context=given.context, url=given.url)
    ended = session.client.delete("/auth")
    if found.context is not None:
        save_context(found.context, found.url, None, environ=session.environ)
    session.talk.say(f"{ended['name']} is signed out")


def session_key() -> str:
    """A key of this one request."""
    from uuid import uuid4  # noqa: PLC0415 - for this command alone

    return str(uuid4())


def _of_a_person(session: Session, given: Login, client: Client) -> str:
    known = {one["name"]: one for one in client.get("/auth/providers")["items"]}
    if not known:
        raise NotSignedIn(
            "nobody signs in at this server but with a token",
            next="set MANENT_TOKEN; an administrator makes one",
        )
    if given.provider is None and len(known) > 1:
        names = ", ".join(sorted(known))
        raise BadUsage("there are several providers", next=f"--provider, one of: {names}")
    name = given.provider or next(iter(known))
    if name not in known:
        raise BadUsage(f"there is no provider {name!r}", next=f"one of: {', '.join(sorted(known))}")
    one = known[name]

    def tell(address: str, code: str) -> None:
        session.talk.say(f"open {address} and compare the code: {code}")

    provider = Provider(
        one["issuer"], one["client_id"], environ=session.environ, sleep=session.pace.sleep
    )
    return provider.sign_in(tell)


def _of_a_job(session: Session, given: Login, client: Client) -> str:
    environ = session.environ
    url = environ.get("ACTIONS_ID_TOKEN_REQUEST_URL")
    if url:
        audience = urlencode({"audience": given.audience or client.url})
        mark = "&" if "?" in url else "?"
        secret = environ.get("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "")
        headers = {"Authorization": f"Bearer {secret}"}
        found = request(f"{url}{mark}{audience}", environ, headers=headers)
        return str(found.get("value") or "")
    if environ.get(given.id_token):
        return environ[given.id_token]
    raise BadUsage(
        "this job has no identity token",
        why=f"neither ACTIONS_ID_TOKEN_REQUEST_URL nor {given.id_token} is set",
        next="GitHub: permissions: {id-token: write}; GitLab: id_tokens: {ID_TOKEN: {aud: ...}}",
    )


def _keep(session: Session, found: Connection, token: str) -> str:
    """Into the context it came from, else into that of the same server, else into a new one."""
    known = load_contexts(session.environ).contexts
    same = (one.name for one in known.values() if one.url.rstrip("/") == found.url.rstrip("/"))
    name = found.context or next(same, None)
    if name is not None:
        save_context(name, found.url, token, environ=session.environ)
        return name
    host = found.url.partition("://")[2].partition("/")[0].partition(":")[0]
    return new_context(host, found.url, token, environ=session.environ)[0]


def _print(session: Session, who: Mapping[str, Any]) -> None:
    session.output.one(who, name=f"principal/{who['name']}", text=lambda _: _sheet(who))


def _sheet(who: Mapping[str, Any]) -> str:
    grants = [_granted(grant) for grant in who["grants"]]
    return pairs(
        [
            ("name", who["name"]),
            ("kind", who["kind"]),
            ("login", who.get("login")),
            ("acts for", who.get("acts_for")),
            ("groups", ", ".join(who["groups"]) or None),
            ("may", "; ".join(grants) or "nothing"),
            ("by", who["source"]),
            ("until", who.get("expires_at")),
        ]
    )


def _granted(grant: Mapping[str, Any]) -> str:
    words = "not " if grant["deny"] else ""
    where = f"{','.join(grant['applications'])} in {','.join(grant['environments'])}"
    return f"{words}{grant['role']} of {where}"
