"""`manent deploy`, `redeploy` and `rollback`: ask for a deploy and see it through."""

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from manent_cli import exit_codes
from manent_cli.asking import ask
from manent_cli.duration import seconds
from manent_cli.errors import BadUsage, Strange
from manent_cli.follow import Wish, conclude, finish, print_deploy
from manent_cli.options import Options, command, new_app, options
from manent_cli.pace import Deadline
from manent_cli.session import Session

app = new_app()

Application = Annotated[str, typer.Argument(metavar="APP", help="The application.")]
Environment = Annotated[str, typer.Argument(metavar="ENV", help="The environment.")]


@options
class Waiting(Options):
    """What every command that asks for a deploy takes."""

    no_wait: Annotated[
        bool, typer.Option("--no-wait", help="Do not wait for the end of the deploy.")
    ] = False
    no_wait_approval: Annotated[
        bool,
        typer.Option(
            "--no-wait-approval",
            help="Do not wait for people's approval: exit 8 where it is asked.",
        ),
    ] = False
    timeout: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Wait at most so long; the deploy goes on."),
    ] = None
    key: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="The idempotency key: the same key is the same deploy. Made up if not given.",
        ),
    ] = None
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why.")] = None


@options
class Asked(Waiting):
    """What `deploy` and `redeploy` take: one option for each field of the request."""

    application: Application
    environment: Environment
    not_before: Annotated[
        str | None, typer.Option(metavar="TIME", help="Not to start before; RFC 3339 with offset.")
    ] = None
    not_after: Annotated[
        str | None, typer.Option(metavar="TIME", help="Not started by then, it expires.")
    ] = None
    priority: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="Its place among the waiting deploys.")
    ] = None
    sequence: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="Its place among the builds of CI.")
    ] = None
    collision: Annotated[
        str | None,
        typer.Option(
            metavar="RULE",
            help="When another deploy of APP is there: queue, latest, reject or cancel_running.",
        ),
    ] = None
    if_blocked: Annotated[
        str | None, typer.Option(metavar="RULE", help="When a gate is closed: wait or refuse.")
    ] = None
    override: Annotated[
        list[str] | None,
        typer.Option(metavar="GATE", help="Pass this gate, e.g. freeze. May be repeated."),
    ] = None
    target: Annotated[
        list[str] | None,
        typer.Option(metavar="TARGET", help="Only this target. May be repeated."),
    ] = None
    link: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=URL", help="A link: ci or changes. May be repeated."),
    ] = None
    changes: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="A JSON file with the changes: [{id, author, at}]."),
    ] = None


@options
class Deploy(Asked):
    """What `deploy` takes."""

    version: Annotated[str, typer.Argument(metavar="VERSION", help="The version to deploy.")]
    sha256: Annotated[
        str | None, typer.Option(metavar="DIGEST", help="The digest its artifact must have.")
    ] = None
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Say what it would do, as `plan` does; create nothing."),
    ] = False


@options
class Promote(Waiting):
    """What `promote` takes."""

    application: Application
    source: Annotated[
        str, typer.Option("--from", metavar="ENV", help="The environment it runs in.")
    ]
    to: Annotated[str, typer.Option(metavar="ENV", help="The environment it is to go to.")]
    version: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Default: the one that runs there.")
    ] = None
    override: Annotated[
        list[str] | None,
        typer.Option(metavar="GATE", help="Pass this gate, e.g. soak. May be repeated."),
    ] = None


@options
class Rollback(Waiting):
    """What `rollback` takes."""

    application: Application
    environment: Environment
    to: Annotated[
        str | None,
        typer.Option(metavar="VERSION", help="The version to go back to; else the last good one."),
    ] = None
    current_configuration: Annotated[
        bool,
        typer.Option(
            "--current-configuration", help="Take today's configuration, not that of the time."
        ),
    ] = False
    veto: Annotated[
        bool, typer.Option("--veto", help="Keep the version that is left out of there.")
    ] = False


class Guarded(TyperCommand):
    """A command that cannot be turned into its help page by one of its arguments.

    `manent deploy shop production "$VERSION"` must not exit 0 when the variable holds `--help`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take `--help` only as the first argument."""
        if "--help" in args[1:] and not ctx.resilient_parsing:
            raise BadUsage(
                "--help stands among the arguments: nothing was asked for",
                next=f"{ctx.command_path} --help shows the help",
            )
        return super().parse_args(ctx, args)


@command(app, "deploy", Deploy, cls=Guarded)
def deploy(session: Session, given: Deploy) -> int:
    """Deploy a version to an environment and wait for its end.

    Prints the id of the deploy; with --output json the deploy as it ended. Steps and log go
    to standard error.
    """
    body = _body(given, kind="deploy")
    if given.dry_run:
        from manent_cli.commands import plan  # noqa: PLC0415 - costs start time, seldom wanted

        return plan.show(session, body, has_code=False)
    return ask_and_wait(session, given, path="/deploys", body=body, version=given.version)


@command(app, "redeploy", Asked, cls=Guarded)
def redeploy(session: Session, given: Asked) -> int:
    """Deploy again the version that is in an environment."""
    return ask_and_wait(session, given, path="/deploys", body=_body(given, kind="redeploy"))


@command(app, "promote", Promote, cls=Guarded)
def promote(session: Session, given: Promote) -> int:
    """Bring to one environment what runs in another: the same version, the same digest."""
    body = _without_nothing(
        {
            "application": given.application,
            "from": given.source,
            "to": given.to,
            "version": given.version,
            "reason": given.reason,
            "override": given.override,
        }
    )
    return ask_and_wait(session, given, path="/promotions", body=body, version=given.version)


@command(app, "rollback", Rollback, cls=Guarded)
def rollback(session: Session, given: Rollback) -> int:
    """Go back to an earlier version."""
    body = _without_nothing(
        {
            "application": given.application,
            "environment": given.environment,
            "to": given.to,
            "reason": given.reason or "rolled back from the command line",
            "current_configuration": given.current_configuration or None,
            "veto": given.veto or None,
        }
    )
    return ask_and_wait(session, given, path="/rollbacks", body=body, version=given.to)


_NO_FIELDS = frozenset(one.name for one in fields(Waiting)) - {"reason"}
_SPECIAL = {"target", "link", "changes", "dry_run"}


def _body(given: Asked, *, kind: str) -> dict[str, Any]:
    body = {
        one.name: getattr(given, one.name)
        for one in fields(given)
        if one.name not in _NO_FIELDS | _SPECIAL
    }
    body |= {
        "kind": kind,
        "targets": given.target,
        "links": _links(given.link),
        "changes": _changes(given.changes),
    }
    return _without_nothing(body)


def _without_nothing(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None}


def _links(given: list[str] | None) -> dict[str, str] | None:
    links = dict(text.partition("=")[::2] for text in given or ())
    if not all(links) or not all(links.values()):
        raise BadUsage("--link wants NAME=URL", next="for example --link ci=https://ci.example/7")
    return links or None


def _changes(path: str | None) -> Any:
    if path is None:
        return None
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise BadUsage(f"--changes {path} cannot be read", why=error.strerror or "") from error
    except ValueError as error:
        raise BadUsage(f"--changes {path} is no JSON", why=str(error)) from error


def ask_and_wait(
    session: Session,
    given: Waiting,
    *,
    path: str,
    body: Mapping[str, Any],
    version: str | None = None,
) -> int:
    """Ask for a deploy, say what was accepted, and unless told otherwise wait for its end.

    Args:
        session: The run.
        given: How to wait.
        path: The route, below `/api/v1`.
        body: The request.
        version: The version that was asked for, where one was.
    """
    timeout = seconds(given.timeout, option="--timeout") if given.timeout else None
    deadline = Deadline(session.pace, timeout)
    accepted = ask(session, path, body, key=given.key, deadline=deadline)
    if not isinstance(accepted, dict) or not accepted.get("id") or "state" not in accepted:
        raise Strange(session.client.url, "it accepted something, but no deploy")
    _tell_accepted(session, accepted)
    if given.no_wait:
        print_deploy(session, accepted)
        return exit_codes.OK
    if session.has_bare_names:
        # At once, so that a script has it even if the wait is cut short.
        print_deploy(session, accepted)
    wish = Wish(version=version, awaits_approval=not given.no_wait_approval)
    ended = finish(session, accepted["id"], wish, deadline=deadline)
    if not session.has_bare_names:
        print_deploy(session, ended)
    return conclude(ended, wish)


def _tell_accepted(session: Session, accepted: Mapping[str, Any]) -> None:
    number = f" (#{accepted['number']})" if accepted.get("number") else ""
    session.talk.say(
        f"deploy {accepted['id']}{number}: {accepted.get('application')} "
        f"{accepted.get('version')} to {accepted.get('environment')}"
    )
    for warning in accepted.get("warnings") or ():
        session.talk.say(f"warning: {warning}", colour="yellow")
