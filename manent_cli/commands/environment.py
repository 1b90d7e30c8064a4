"""`manent status` and `inventory`: what is where, and who waits."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from manent_cli.client import segment
from manent_cli.noun import INVENTORY
from manent_cli.options import Options, command, new_app, options
from manent_cli.session import Session
from manent_cli.table import Column, Row, draw, field, pairs

app = new_app()


@options
class Status(Options):
    """What `status` takes."""

    environment: Annotated[
        str | None, typer.Argument(metavar="[ENV]", help="One environment; else all.")
    ] = None


@options
class Inventory(Options):
    """What `inventory` takes."""

    application: Annotated[
        str | None, typer.Argument(metavar="[APP]", help="Only this application.")
    ] = None
    environment: Annotated[
        str | None, typer.Argument(metavar="[ENV]", help="Only this environment.")
    ] = None


def _count(name: str) -> Column:
    return Column(name.upper(), lambda row: len(row.get(name) or ()))


def _ended(row: Row) -> str | None:
    last = row.get("last") or row.get("last_end")
    if not isinstance(last, Mapping):
        return None
    return f"{last.get('application')} {last.get('version')} {last.get('outcome')}"


ENVIRONMENTS: Final[Sequence[Column]] = (
    field("name", head="ENVIRONMENT"),
    field("tier"),
    field("concurrency"),
    _count("slots"),
    _count("queue"),
    _count("locks"),
    Column("LAST END", _ended),
)
SLOTS: Final[Sequence[Column]] = (
    field("application"),
    field("version"),
    Column("DEPLOY", lambda row: row.get("deploy") or row.get("id")),
    field("step"),
    Column("WORKER", lambda row: row.get("worker") or row.get("executor")),
    field("since"),
)
QUEUE: Final[Sequence[Column]] = (
    field("position", head="#"),
    field("application"),
    field("version"),
    Column("DEPLOY", lambda row: row.get("deploy") or row.get("id")),
    field("priority"),
)
LOCKS: Final[Sequence[Column]] = (
    field("application"),
    field("owner"),
    field("reason"),
    field("created_at"),
    field("expires_at"),
    field("id"),
)


@command(app, "status", Status)
def status(session: Session, given: Status) -> None:
    """Show what runs, what waits and what is locked."""
    if given.environment is None:
        page = session.client.get("/environments")
        session.output.many(page, ENVIRONMENTS, name=lambda row: f"env/{row['name']}")
        return
    name = given.environment.removeprefix("env/")
    place = session.client.get(f"/environments/{segment(name, what='environment')}")
    session.output.one(
        place, name=f"env/{place['name']}", text=lambda wide: _sheet(place, wide=wide)
    )


@command(app, "inventory", Inventory)
def inventory(session: Session, given: Inventory) -> None:
    """Show which version is on which target."""
    query = {"application": given.application, "environment": given.environment}
    page = session.client.get("/inventory", query)
    session.output.many(
        page,
        INVENTORY,
        name=lambda row: f"{row['application']}/{row['environment']}/{row['target']}",
    )


def _sheet(place: Mapping[str, Any], *, wide: bool) -> str:
    text = pairs(
        [
            ("environment", place.get("name")),
            ("tier", place.get("tier")),
            ("concurrency", place.get("concurrency")),
            ("workers", _workers(place.get("workers"))),
            ("last end", _ended(place)),
        ]
    )
    for title, columns in (("slots", SLOTS), ("queue", QUEUE), ("locks", LOCKS)):
        rows = [row for row in place.get(title) or () if isinstance(row, Mapping)]
        if rows:
            text += f"\n{title}\n{draw(columns, rows, wide=wide)}"
    return text


def _workers(workers: Any) -> str | None:
    if isinstance(workers, Mapping):
        return ", ".join(f"{name} {value}" for name, value in workers.items())
    if isinstance(workers, list):
        names = [one.get("id") if isinstance(one, Mapping) else one for one in workers]
        return ", ".join(str(name) for name in names) or "none alive"
    return None if workers is None else str(workers)
