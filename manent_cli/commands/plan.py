"""`manent plan`: what a deploy would do and meet; nothing is created."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from manent_cli import exit_codes
from manent_cli.asking import ask
from manent_cli.noun import GATES
from manent_cli.options import Options, command, new_app, options
from manent_cli.session import Session
from manent_cli.table import draw, field, pairs

app = new_app()

CHANGES: Final = (field("key"), field("change"))
TARGETS: Final = (
    field("target"),
    field("from"),
    field("to"),
    field("state"),
)


@options
class Plan(Options):
    """What `plan` takes."""

    application: Annotated[str, typer.Argument(metavar="APP", help="The application.")]
    environment: Annotated[str, typer.Argument(metavar="ENV", help="The environment.")]
    version: Annotated[str, typer.Argument(metavar="VERSION", help="The version to deploy.")]
    at: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="The gates at that time; RFC 3339 with offset."),
    ] = None
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit 10 when something would change.")
    ] = False
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="TARGET", help="Only this target. May be repeated."),
    ] = None
    override: Annotated[
        list[str] | None, typer.Option(metavar="GATE", help="As if this gate was passed.")
    ] = None
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why.")] = None


@command(app, "plan", Plan)
def plan(session: Session, given: Plan) -> int:
    """Say what a deploy would change and which gates it would meet. Creates nothing."""
    body = {
        "application": given.application,
        "environment": given.environment,
        "version": given.version,
        "at": given.at,
        "targets": given.target,
        "override": given.override,
        "reason": given.reason,
    }
    return show(session, body, has_code=given.exit_code)


def show(session: Session, body: Mapping[str, Any], *, has_code: bool) -> int:
    """Ask for a plan and print it; with `has_code` changes are exit 10."""
    asked = {name: value for name, value in body.items() if value is not None}
    found = ask(session, "/plans", asked)
    session.output.one(
        found,
        name=f"{found.get('application')}/{found.get('environment')}",
        text=lambda wide: _sheet(found, wide=wide),
    )
    return exit_codes.CHANGES if has_code and found.get("changes") else exit_codes.OK


def _sheet(found: Mapping[str, Any], *, wide: bool) -> str:
    """The plan for people."""
    version = found.get("version") or {}
    place = found.get("queue") or {}
    refusal = found.get("refusal") or {}
    blocker = place.get("blocked_by") or {}
    text = pairs(
        [
            ("application", found.get("application")),
            ("environment", found.get("environment")),
            ("version", f"{version.get('from') or 'none'} -> {version.get('to')}"),
            ("sha256", found.get("sha256")),
            ("waves", [" ".join(wave) for wave in found.get("waves") or ()]),
            ("changes", "yes" if found.get("changes") else "none"),
            ("refused", refusal.get("detail")),
            ("next", refusal.get("next")),
            ("position", place.get("position")),
            ("behind", blocker.get("id")),
            ("at", found.get("at")),
        ]
    )
    for columns, key in ((TARGETS, "targets"), (CHANGES, "configuration"), (GATES, "gates")):
        rows = found.get(key)
        text += "\n" + draw(columns, rows, wide=wide) if rows else ""
    return text
