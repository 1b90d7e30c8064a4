"""`manent-server admin`: over HTTP like anybody, or with `--local` on the database itself."""
# ruff: noqa: PLC0415 - each command imports what it needs when it runs

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from manent_server.cli.operator import Operator
    from manent_server.cli.restoring import Restoring

app = typer.Typer(help="Workers and the database, for operators.", no_args_is_help=True)
executors_app = typer.Typer(invoke_without_command=True)
app.add_typer(executors_app, name="executors")
restore_app = typer.Typer(
    help="A database that went back in time: what is to become of its deploys.",
    no_args_is_help=True,
)
app.add_typer(restore_app, name="restore")

Config = Annotated[
    Path | None,
    typer.Option("--config", help="manent.yml; else MANENT_CONFIG, else ./manent.yml."),
]
Local = Annotated[
    bool,
    typer.Option("--local", help="Work on the database of manent.yml, without API and token."),
]


def _operator(config: Path | None, *, local: bool) -> "Operator":
    from manent_server.cli.operator import Operator

    environ = os.environ  # noqa: TID251 - the door
    path = config or Path(environ.get("MANENT_CONFIG") or "manent.yml")
    return Operator(path, environ, is_local=local)


@executors_app.callback()
def executors(
    context: typer.Context,
    config: Config = None,
    *,
    local: Local = False,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FORM", help="json or table.")
    ] = "json",
) -> None:
    """List workers: who lives, who is lost, and what waits for whom."""
    if context.invoked_subcommand is None:
        _operator(config, local=local).executors(output)


@executors_app.command()
def forget(
    executor: Annotated[str, typer.Argument(help="Id of a lost worker that holds nothing.")],
    config: Config = None,
    *,
    local: Local = False,
) -> None:
    """Take a lost worker out of the registry."""
    _operator(config, local=local).forget(executor)


@app.command()
def prune(  # noqa: PLR0913 - one parameter for each option
    config: Config = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Delete nothing.")] = False,
    max_age: Annotated[
        str | None, typer.Option(metavar="D", help="Such as 720h; else retention.max_age.")
    ] = None,
    keep_releases: Annotated[
        int | None, typer.Option(metavar="N", min=0, help="Else retention.keep_releases.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Name the old deploys that stay, and why.")
    ] = False,
    local: Local = False,
) -> None:
    """Delete deploys that ended long ago, with steps, attempts and logs."""
    body = {
        "dry_run": dry_run,
        "max_age": max_age,
        "keep_releases": keep_releases,
        "explain": explain,
    }
    _operator(config, local=local).prune(body)


@app.command()
def recover(  # noqa: PLR0913 - one parameter for each option
    executor: Annotated[str, typer.Option(help="Id of the lost worker.")],
    config: Config = None,
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Skip every check: only when it is surely down.")
    ] = False,
    reason: Annotated[str | None, typer.Option(help="Why, for the record.")] = None,
    local: Local = False,
) -> None:
    """Let other workers go on with the deploys of a lost one."""
    body = {"executor": executor, "dry_run": dry_run, "force": force, "reason": reason}
    _operator(config, local=local).recover(body)


@app.command()
def reload(
    config: Config = None,
    *,
    reason: Annotated[str | None, typer.Option(help="Why, for the record.")] = None,
    output: Annotated[str, typer.Option("--output", "-o", metavar="FORM", help="json.")] = "json",
    local: Local = False,
) -> None:
    """Let every serve process take up its files anew, as SIGHUP does for one.

    The files of the server that is asked (with --local: of this machine) are looked at first: if
    they have faults, these are told and nothing changes anywhere.
    """
    _operator(config, local=local).reload(reason, output)


Deploys = Annotated[list[str] | None, typer.Argument(help="Ids, as restore list shows them.")]
All = Annotated[bool, typer.Option("--all", help="All of which nothing has been decided.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask first.")]
Reason = Annotated[str | None, typer.Option(help="Why, for the record.")]


def _restoring(config: Path | None, *, local: bool) -> "Restoring":
    from manent_server.cli.restoring import Restoring

    return Restoring(_operator(config, local=local))


@restore_app.command(name="list")
def restore_list(
    deploys: Annotated[
        list[str] | None, typer.Argument(help="Ids or addresses; all of them if none is named.")
    ] = None,
    config: Config = None,
    *,
    observe: Annotated[
        bool, typer.Option(help="Have the targets asked what runs there, by the hook observe.")
    ] = True,
    lost_after: Annotated[
        str | None, typer.Option(help="Show more of what is lost: lost_next of the list before.")
    ] = None,
    local: Local = False,
) -> None:
    """Say whether nothing begins and why, and what is known of each live deploy."""
    restoring = _restoring(config, local=local)
    restoring.listing(deploys or (), observes=observe, lost_after=lost_after)


@restore_app.command(name="resume")
def restore_resume(  # noqa: PLR0913 - one parameter for each option
    deploys: Deploys = None,
    config: Config = None,
    *,
    everything: All = False,
    reason: Reason = None,
    yes: Yes = False,
    local: Local = False,
) -> None:
    """Let deploys go on when the database is opened."""
    del yes  # what goes on can be cancelled; accepted so that all three are called alike
    body = {"deploys": list(deploys or ()), "all": everything, "reason": reason}
    _restoring(config, local=local).decide("resume", body)


@restore_app.command(name="close")
def restore_close(  # noqa: PLR0913 - one parameter for each option
    deploys: Deploys = None,
    config: Config = None,
    *,
    outcome: Annotated[str, typer.Option(help="deployed, failed, rolled_back or rollback_failed.")],
    everything: All = False,
    reason: Reason = None,
    yes: Yes = False,
    local: Local = False,
) -> None:
    """End deploys that already ran, with the outcome they had."""
    body = {"deploys": list(deploys or ()), "all": everything, "reason": reason}
    body |= {"outcome": outcome}
    _restoring(config, local=local).decide("close", body, is_sure=yes)


@restore_app.command(name="cancel")
def restore_cancel(  # noqa: PLR0913 - one parameter for each option
    deploys: Deploys = None,
    config: Config = None,
    *,
    everything: All = False,
    reason: Reason = None,
    yes: Yes = False,
    local: Local = False,
) -> None:
    """End deploys that are not wanted any more."""
    body = {"deploys": list(deploys or ()), "all": everything, "reason": reason}
    _restoring(config, local=local).decide("cancel", body, is_sure=yes)


@restore_app.command(name="open")
def restore_open(
    config: Config = None,
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Although deploys are undecided: they go on.")
    ] = False,
    reason: Reason = None,
    local: Local = False,
) -> None:
    """Let everything begin again, beyond all that is known of what was lost."""
    _restoring(config, local=local).open_up(force=force, reason=reason)
