"""`manent sinks`, `notices` and `resend`: who is told what happens, and who was not."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from manent_cli.asking import ask
from manent_cli.client import segment
from manent_cli.commands.listing import Listed, Paged, print_page
from manent_cli.errors import BadUsage
from manent_cli.options import Options, command, new_app, options
from manent_cli.session import Session
from manent_cli.table import Column, draw, field

app = new_app()
_SINKS = (
    field("name"),
    field("plugin"),
    field("is_on", head="ON"),
    field("waiting"),
    field("dead"),
    field("oldest_at"),
    field("off_reason"),
    field("events", is_wide=True),
    field("applications", is_wide=True),
    field("environments", is_wide=True),
)
_NOTICES = (
    field("id"),
    field("sink"),
    field("state"),
    Column("EVENT", lambda row: row["event"].get("type")),
    Column("DEPLOY", lambda row: row["event"].get("deploy")),
    field("tries"),
    field("next_try_at"),
    field("error"),
    field("created_at", is_wide=True),
    field("expires_at", is_wide=True),
    Column("POSITION", lambda row: row["event"].get("position"), is_wide=True),
)


@options
class Notices(Paged):
    """What `notices` takes."""

    state: Annotated[
        str | None,
        typer.Option(metavar="STATE", help="Only those waiting, delivered or dead."),
    ] = None
    sink: Annotated[str | None, typer.Option(metavar="NAME", help="Only of this sink.")] = None


@options
class Resend(Options):
    """What `resend` takes."""

    id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="A dead notice, as `notices` lists it.")
    ] = None
    sink: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Turn this sink on, and send all it was not told."),
    ] = None
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why, for the record.")] = None
    key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The idempotency key. Made up if not given.")
    ] = None


@command(app, "sinks", Options)
def sinks(session: Session, given: Options) -> None:
    """List who is told of events, and how much they were not told."""
    session.output.many(
        session.client.get("/sinks"), _SINKS, name=lambda row: f"sink/{row['name']}"
    )


@command(app, "notices", Notices)
def notices(session: Session, given: Notices) -> None:
    """List what sinks are told, the newest events first."""
    print_page(
        session,
        Listed("/notices", {"state": given.state, "sink": given.sink}, _NOTICES, _name),
        given,
    )


@command(app, "resend", Resend)
def resend(session: Session, given: Resend) -> None:
    """Send a dead notice again, or all of a sink."""
    if (given.id is None) == (given.sink is None):
        raise BadUsage("name one notice, or a sink", next="manent notices --state dead lists them")
    body = {"reason": given.reason} if given.reason is not None else {}
    if given.sink is not None:
        path = f"/sinks/{segment(given.sink, what='sink')}/resend"
        made = ask(session, path, body, key=given.key)
        name = f"sink/{given.sink}"
        session.output.one(made, name=name, text=lambda wide: draw(_SINKS, [made], wide=wide))
        return
    notice = segment((given.id or "").removeprefix("notice/"), what="notice")
    made = ask(session, f"/notices/{notice}/resend", body, key=given.key)
    session.output.written(made, "notice", lambda wide: draw(_NOTICES, [made], wide=wide))


def _name(row: Mapping[str, Any]) -> str:
    return f"notice/{row['id']}"
