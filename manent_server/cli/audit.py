"""`manent-server audit`: the record, on the database itself."""
# ruff: noqa: PLC0415 - each command imports what it needs when it runs

import os
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="The record of who did what.", no_args_is_help=True)


@app.callback()
def root() -> None:
    """The record of who did what."""


@app.command()
def verify(
    config: Annotated[
        Path | None,
        typer.Option("--config", help="manent.yml; else MANENT_CONFIG, else ./manent.yml."),
    ] = None,
    *,
    known: Annotated[
        str | None,
        typer.Option(
            "--known",
            metavar="NUMBER:HASH",
            help="A place of the chain that was kept elsewhere: it must be in it as it was.",
        ),
    ] = None,
) -> None:
    """Check the whole record against its chain, and print what was found as JSON.

    Exit code 1 names the first place that is broken.
    """
    from manent_server.cli.verifying import verify as check

    environ = os.environ  # noqa: TID251 - the door
    path = config or Path(environ.get("MANENT_CONFIG") or "manent.yml")
    if not check(path, environ, known=known):
        raise typer.Exit(1)
