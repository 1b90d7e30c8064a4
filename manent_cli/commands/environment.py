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
    last = row.get("last")
    if not isinstance(last, Mapping):
        return None
    return f"{last.get('application')} {last.get('version')} {last.get('outcome')}"


ENVIRONMENTS: Final[Sequence[Column]] = (
    field("name", head="ENVIRONMENT"),
    field("tier"),
    field("concurrency"),
    _count("slots"),
    _count("queue"),
    _count("gates"),
    Column("LAST END", _ended),
)
SLOTS: Final[Sequence[Column]] = (
    field("application"),
    field("version"),
    field("deploy"),
    field("phase"),
    field("steps"),
    field("worker"),
    field("since"),
)
QUEUE: Final[Sequence[Column]] = (
    field("position", head="#"),
    field("application"),
    field("version"),
    field("id", head="DEPLOY"),
    field("phase"),
    field("priority"),
)
GATES: Final[Sequence[Column]] = (
    field("gate"),
    field("closed_since"),
    field("opens_at"),
    field("opened_by"),
    field("detail"),
    field("command"),
)
PLANNED: Final[Sequence[Column]] = (
    field("starts_at"),
    field("expires_at"),
    field("application"),
    field("environment"),
    field("owner"),
    field("reason"),
    field("id"),
)
_TABLES = (("slots", SLOTS), ("queue", QUEUE), ("gates", GATES), ("planned", PLANNED))


@command(app, "status", Status)
def status(session: Session, given: Status) -> None:
    """Show what runs, what waits and what is locked."""
    if given.environment is None:
        page = session.client.get("/environments")
        # The list has the settings of each; what happens there stands in its own answer.
        items = [_place(session, row["name"]) for row in page["items"]]
        page = {**page, "items": items}
        session.output.many(page, ENVIRONMENTS, name=lambda row: f"env/{row['name']}")
        return
    place = _place(session, given.environment.removeprefix("env/"))
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


def _place(session: Session, name: str) -> dict[str, Any]:
    place: dict[str, Any] = session.client.get(f"/environments/{segment(name, what='environment')}")
    return place


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
    for title, columns in _TABLES:
        rows = [row for row in place.get(title) or () if isinstance(row, Mapping)]
        if rows:
            text += f"\n{title}\n{draw(columns, rows, wide=wide)}"
    return text


def _workers(workers: Any) -> str:
    alive = [str(one["id"]) for one in workers or () if one.get("alive")]
    return ", ".join(alive) or "none alive"
