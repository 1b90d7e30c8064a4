"""`manent lock` and `unlock`: keep deploys from starting, and let them go on."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from manent_cli import exit_codes
from manent_cli.asking import ask
from manent_cli.client import segment
from manent_cli.errors import Failure
from manent_cli.options import Options, command, new_app, options
from manent_cli.session import Session
from manent_cli.table import draw, field

app = new_app()


@options
class Place(Options):
    """What a lock is on."""

    environment: Annotated[
        str | None, typer.Argument(metavar="[ENV]", help="The environment; else all of them.")
    ] = None
    application: Annotated[
        str | None, typer.Option(metavar="APP", help="The application; else all of them.")
    ] = None


@options
class Lock(Place):
    """What `lock` takes."""

    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; others read it.")]
    expires_at: Annotated[
        str | None, typer.Option(metavar="TIME", help="When it ends; RFC 3339 with offset.")
    ] = None
    key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The idempotency key. Made up if not given.")
    ] = None


_COLUMNS = (
    field("id"),
    field("environment"),
    field("application"),
    field("owner"),
    field("reason"),
    field("expires_at"),
)


@command(app, "lock", Lock)
def lock(session: Session, given: Lock) -> None:
    """Keep deploys from starting. Prints the id of the lock."""
    body = {
        "environment": given.environment,
        "application": given.application,
        "reason": given.reason,
        "expires_at": given.expires_at,
    }
    fields = {name: value for name, value in body.items() if value is not None}
    made = ask(session, "/locks", fields, key=given.key)
    if isinstance(made, dict) and made.get("lifted_at"):
        raise Failure(
            f"the lock {made.get('id')} of this key was lifted at {made['lifted_at']}",
            next="another --key sets a new lock",
            code="lock_lifted",
        )
    _print(session, made)


@command(app, "unlock", Place)
def unlock(session: Session, given: Place) -> None:
    """Lift the locks on exactly this environment and application. Prints their ids."""
    wanted = (given.environment, given.application)
    locks = [
        one
        for one in session.client.get("/locks")["items"]
        if (one.get("environment"), one.get("application")) == wanted
    ]
    if not locks:
        raise Failure(
            f"there is no lock on {_named(given)}",
            next="manent status ENV shows the locks that are there",
            code="not_found",
            exit_code=exit_codes.NOT_FOUND,
        )
    for one in locks:
        session.client.delete(f"/locks/{segment(one['id'], what='lock')}")
        _print(session, one)


def _print(session: Session, one: Mapping[str, Any]) -> None:
    session.output.written(one, "lock", lambda wide: draw(_COLUMNS, [one], wide=wide))


def _named(given: Place) -> str:
    environment = given.environment or "all environments"
    return f"{given.application} in {environment}" if given.application else environment
