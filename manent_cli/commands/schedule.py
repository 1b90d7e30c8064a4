"""`manent schedule`: deploy again and again, at the instants of a cron expression."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from manent_cli.asking import ask
from manent_cli.client import segment
from manent_cli.errors import BadUsage
from manent_cli.options import Options, command, new_app, options
from manent_cli.session import Session
from manent_cli.table import Column, Row, draw, field

app = new_app()
_group = new_app()
app.add_typer(_group, name="schedule", help="Deploy again and again, at set times.")


@options
class Named(Options):
    """A schedule."""

    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, or its id.")]


@options
class Keyed(Named):
    """A schedule that is changed."""

    key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The idempotency key. Made up if not given.")
    ] = None


@options
class Create(Options):
    """What `schedule create` takes."""

    name: Annotated[str, typer.Argument(metavar="NAME", help="What it is to be called.")]
    application: Annotated[str, typer.Argument(metavar="APP", help="The application.")]
    environment: Annotated[str, typer.Argument(metavar="ENV", help="The environment.")]
    cron: Annotated[
        str,
        typer.Option(
            metavar="CRON",
            help="Minute, hour, day of month, month and day of week, as in '30 2 * * MON-FRI'.",
        ),
    ]
    timezone: Annotated[
        str, typer.Option(metavar="ZONE", help="The IANA zone whose clocks it goes by.")
    ] = "UTC"
    version: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Deploy this version each time.")
    ] = None
    newest: Annotated[
        bool, typer.Option("--newest", help="Deploy the version that was first accepted last.")
    ] = False
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="ENV", help="Deploy what runs in this environment then."),
    ] = None
    overlap: Annotated[
        str | None,
        typer.Option(
            metavar="POLICY",
            help="skip: not while a deploy of it has not ended; queue: not while one waits.",
        ),
    ] = None
    catch_up: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", help="Make up for the newest missed time, if no older than that."
        ),
    ] = None
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why; others read it.")] = None
    key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The idempotency key. Made up if not given.")
    ] = None


@options
class List(Options):
    """What `schedule list` takes."""

    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Show what became of the past times of this one."),
    ] = None
    application: Annotated[
        str | None, typer.Option(metavar="APP", help="Only of this application.")
    ] = None
    environment: Annotated[
        str | None, typer.Option(metavar="ENV", help="Only to this environment.")
    ] = None
    limit: Annotated[
        int, typer.Option(metavar="NUMBER", min=1, max=500, help="Show at most so many times.")
    ] = 50
    before: Annotated[
        str | None, typer.Option(metavar="TIME", help="Go on where a list of times stopped.")
    ] = None


@options
class Pause(Keyed):
    """What `schedule pause` takes."""

    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why; others read it.")] = None


@options
class Preview(Options):
    """What `schedule preview` takes."""

    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A schedule; else give --cron.")
    ] = None
    cron: Annotated[
        str | None, typer.Option(metavar="CRON", help="Of a schedule nobody has made yet.")
    ] = None
    timezone: Annotated[
        str | None, typer.Option(metavar="ZONE", help="The zone of --cron. Default: UTC.")
    ] = None
    count: Annotated[
        int, typer.Option(metavar="NUMBER", min=1, max=100, help="So many of the next times.")
    ] = 5


def _next(row: Row) -> str | None:
    later = row.get("next") or []
    return later[0]["local"] if later else None


def _state(row: Row) -> str:
    if row.get("deleted_at"):
        return "deleted"
    if row.get("paused_at"):
        return f"paused by {row.get('paused_by')}"
    return "on" if row.get("next_at") else "over"


def _what(row: Row) -> str:
    if row.get("from"):
        return f"what runs in {row['from']}"
    return "the newest" if row.get("newest") else str(row.get("version"))


_COLUMNS: Final[Sequence[Column]] = (
    field("name"),
    field("application"),
    field("environment"),
    Column("DEPLOYS", _what),
    field("cron"),
    field("timezone"),
    Column("STATE", _state),
    Column("NEXT", _next),
    Column("LAST", lambda row: (row.get("last") or {}).get("result")),
    field("id", is_wide=True),
    field("overlap", is_wide=True),
    field("catch_up", is_wide=True),
    field("created_by", is_wide=True),
    field("reason", is_wide=True),
)
_RUNS: Final[Sequence[Column]] = (
    field("at"),
    field("result"),
    field("deploy"),
    field("reason"),
    field("detail"),
    field("settled_at", is_wide=True),
)
_TIMES: Final[Sequence[Column]] = (field("local", head="TIME"), field("at", head="UTC"))


@command(_group, "create", Create)
def create(session: Session, given: Create) -> None:
    """Make a schedule. Prints its id; its next times, with their offset, are said beside it."""
    body = {
        "name": given.name,
        "application": given.application,
        "environment": given.environment,
        "cron": given.cron,
        "timezone": given.timezone,
        "version": given.version,
        "newest": given.newest or None,
        "from": given.source,
        "overlap": given.overlap,
        "catch_up": given.catch_up,
        "reason": given.reason,
    }
    made = ask(session, "/schedules", _given(body), key=given.key)
    _print(session, made)
    for moment in made.get("next", ()):
        session.talk.say(f"next: {moment['local']}")


@command(_group, "list", List)
def list_schedules(session: Session, given: List) -> None:
    """List the schedules with their next time; of one: what became of its past times."""
    if given.name is None:
        query = {"application": given.application, "environment": given.environment}
        page = session.client.get("/schedules", query)
        session.output.many(page, _COLUMNS, name=lambda row: f"schedule/{row['name']}")
        return
    path = f"/schedules/{segment(given.name, what='schedule')}/runs"
    page = session.client.get(path, {"limit": given.limit, "before": given.before})
    session.output.many(page, _RUNS, name=lambda row: f"schedule/{row['schedule']}@{row['at']}")
    if page.get("next") and not session.is_structured:
        session.talk.say(f"there is more: --before {page['next']}, or a higher --limit")


@command(_group, "pause", Pause)
def pause(session: Session, given: Pause) -> None:
    """Let a schedule not fire for a while; deploys it asked for go on. Prints its id."""
    _change(session, given, "pause", _given({"reason": given.reason}))


@command(_group, "resume", Keyed)
def resume(session: Session, given: Keyed) -> None:
    """Let a paused schedule fire again, from its next time on. Prints its id."""
    _change(session, given, "resume", {})


@command(_group, "delete", Named)
def delete(session: Session, given: Named) -> None:
    """Let a schedule never fire again; deploys it asked for go on. Prints its id."""
    path = f"/schedules/{segment(given.name, what='schedule')}"
    _print(session, session.client.delete(path))


@command(_group, "preview", Preview)
def preview(session: Session, given: Preview) -> None:
    """Show when a schedule fires next, with the offset of its zone. Creates nothing."""
    if (given.name is None) == (given.cron is None):
        raise BadUsage("name a schedule or give --cron, one of the two")
    if given.name is not None:
        if given.timezone is not None:
            raise BadUsage("--timezone goes with --cron")
        path = f"/schedules/{segment(given.name, what='schedule')}/preview"
        page = session.client.get(path, {"count": given.count})
    else:
        body = {"cron": given.cron, "timezone": given.timezone, "count": given.count}
        page = ask(session, "/schedules/preview", _given(body))
    session.output.many(page, _TIMES, name=lambda row: str(row["at"]))


def _given(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None}


def _change(session: Session, given: Keyed, what: str, body: Mapping[str, Any]) -> None:
    path = f"/schedules/{segment(given.name, what='schedule')}/{what}"
    _print(session, ask(session, path, body, key=given.key))


def _print(session: Session, made: Mapping[str, Any]) -> None:
    session.output.written(made, "schedule", lambda wide: draw(_COLUMNS, [made], wide=wide))
