"""`manent list`, `show` and `history`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from manent_cli.client import segment
from manent_cli.errors import Strange
from manent_cli.noun import DEPLOYS, address, deploy_name, deploy_sheet
from manent_cli.options import Address, Options, command, new_app, options
from manent_cli.session import Session
from manent_cli.table import Column

app = new_app()
_PAGE = 100


@options
class Paged(Options):
    """What every list takes."""

    limit: Annotated[int, typer.Option(metavar="NUMBER", min=1, help="Show at most so many.")] = 50
    before: Annotated[
        str | None,
        typer.Option(metavar="CURSOR", help="Go on where a list stopped: its `next`."),
    ] = None


@options
class List(Paged):
    """What `list` takes."""

    state: Annotated[
        list[str] | None,
        typer.Option(metavar="STATE", help="Only in this state, in any case. May be repeated."),
    ] = None
    outcome: Annotated[
        str | None, typer.Option(metavar="OUTCOME", help="Only with this outcome.")
    ] = None
    application: Annotated[
        str | None, typer.Option(metavar="APP", help="Only of this application.")
    ] = None
    environment: Annotated[
        str | None, typer.Option(metavar="ENV", help="Only to this environment.")
    ] = None
    version: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Only of this version.")
    ] = None


@options
class History(Paged):
    """What `history` takes."""

    application: Annotated[str, typer.Argument(metavar="APP", help="The application.")]
    environment: Annotated[str, typer.Argument(metavar="ENV", help="The environment.")]


@options
class Show(Options):
    """What `show` takes."""

    id: Address


@command(app, "list", List)
def list_deploys(session: Session, given: List) -> None:
    """List deploys, the newest first."""
    query = {
        "application": given.application,
        "environment": given.environment,
        "version": given.version,
        "state": given.state,
        "outcome": given.outcome,
    }
    _print_deploys(session, query, given)


@command(app, "history", History)
def history(session: Session, given: History) -> None:
    """List the deploys of an application to an environment, the newest first."""
    query = {"application": given.application, "environment": given.environment}
    _print_deploys(session, query, given)


@command(app, "show", Show)
def show(session: Session, given: Show) -> None:
    """Show a deploy and its steps."""
    client = session.client
    path = f"/deploys/{segment(address(given.id))}"
    deploy = client.get(path)

    def sheet(wide: bool) -> str:
        return deploy_sheet(deploy, client.get(f"{path}/steps")["items"], wide=wide)

    form = session.output
    form.one(deploy, name=deploy_name(deploy), text=sheet)


@dataclass(frozen=True)
class Listed:
    """What is listed: the route, which of it, and how each item is shown and named."""

    path: str
    query: Mapping[str, Any]
    columns: Sequence[Column]
    name: Callable[[Mapping[str, Any]], str]


def _print_deploys(session: Session, query: Mapping[str, Any], given: Paged) -> None:
    print_page(session, Listed("/deploys", query, DEPLOYS, deploy_name), given)


def print_page(session: Session, listed: Listed, given: Paged) -> None:
    """Print as many items as were asked for, and how to see more."""
    page = _page(session, listed, given)
    session.output.many(page, listed.columns, name=listed.name)
    if page["next"] and not session.is_structured:
        session.talk.say(f"there is more: --before {page['next']}, or a higher --limit")


def _page(session: Session, listed: Listed, given: Paged) -> dict[str, Any]:
    items: list[Any] = []
    cursor = given.before
    while True:
        asked = min(given.limit - len(items), _PAGE)
        page = session.client.get(listed.path, {**listed.query, "before": cursor, "limit": asked})
        if not isinstance(page, dict) or "items" not in page:
            raise Strange(session.client.url, "a list was asked for")
        items += page["items"]
        cursor = page.get("next")
        if not cursor or not page["items"] or len(items) >= given.limit:
            return {"items": items, "next": cursor}
