"""`manent audit`: who did what."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from manent_cli.commands.listing import Listed, Paged, print_page
from manent_cli.noun import address
from manent_cli.options import command, new_app, options
from manent_cli.session import Session
from manent_cli.table import Column, field

app = new_app()
_RECORDS = (
    field("number"),
    field("at"),
    field("actor"),
    field("action"),
    field("application"),
    field("environment"),
    field("deploy"),
    field("channel", is_wide=True),
    field("address", is_wide=True),
    Column("DETAIL", lambda row: _said(row.get("detail")), is_wide=True),
    Column("BEFORE", lambda row: _said(row.get("before")), is_wide=True),
    Column("AFTER", lambda row: _said(row.get("after")), is_wide=True),
)


@options
class Audit(Paged):
    """What `audit` takes."""

    deploy: Annotated[str | None, typer.Option(metavar="ID", help="Only about this deploy.")] = None
    actor: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only what this principal did.")
    ] = None
    action: Annotated[
        str | None,
        typer.Option(metavar="ACTION", help="Only this action; 'deploy.*': all that begin so."),
    ] = None
    application: Annotated[
        str | None, typer.Option(metavar="APP", help="Only of this application.")
    ] = None
    environment: Annotated[
        str | None, typer.Option(metavar="ENV", help="Only in this environment.")
    ] = None
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Not before this instant, as in 2027-01-31T18:00:00Z."),
    ] = None
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Only before this instant.")] = (
        None
    )


@command(app, "audit", Audit)
def audit(session: Session, given: Audit) -> None:
    """List who did what, the newest first; -o jsonl prints whole records."""
    query = {
        "deploy": address(given.deploy) if given.deploy is not None else None,
        "actor": given.actor,
        "action": given.action,
        "application": given.application,
        "environment": given.environment,
        "since": given.since,
        "until": given.until,
    }
    print_page(session, Listed("/audit", query, _RECORDS, _name), given)


def _said(value: Mapping[str, Any] | None) -> str | None:
    if not value:
        return None
    return ", ".join(f"{key}={one}" for key, one in value.items() if one is not None)


def _name(row: Mapping[str, Any]) -> str:
    return f"record/{row['id']}"
