"""`manent-server token`: make, list and revoke tokens, on the database of manent.yml."""
# ruff: noqa: PLC0415 - each command imports what it needs when it runs

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from manent_server.domain import access

if TYPE_CHECKING:
    from manent_server.cli.errands import Tokens

app = typer.Typer(help="Tokens for people and programs.", no_args_is_help=True)

Config = Annotated[
    Path | None,
    typer.Option("--config", help="manent.yml; else MANENT_CONFIG, else ./manent.yml."),
]
Patterns = Annotated[
    list[str] | None,
    typer.Option(metavar="PATTERNS", help="Names, with * and ?; default: all of them."),
]


def _tokens(config: Path | None) -> "Tokens":
    from manent_server.cli.errands import Tokens

    environ = os.environ  # noqa: TID251 - the door
    return Tokens(config or Path(environ.get("MANENT_CONFIG") or "manent.yml"), environ)


@app.command()
def create(  # noqa: PLR0913 - one parameter an option
    name: Annotated[str, typer.Argument(help="The principal; several tokens may share it.")],
    role: Annotated[str, typer.Option(help=f"One of {', '.join(access.ROLES)}.")],
    config: Config = None,
    *,
    group: Annotated[
        list[str] | None, typer.Option(metavar="G", help="A group it is in; may be repeated.")
    ] = None,
    kind: Annotated[
        str, typer.Option(help="person, or service: counts toward no quorum.")
    ] = access.SERVICE,
    applications: Patterns = None,
    environments: Patterns = None,
    expires: Annotated[str | None, typer.Option(help="Such as 90d; default: never.")] = None,
) -> None:
    """Make a token and print it, once."""
    from manent_server.cli.errands import lasting
    from manent_server.usecases.requests import TokenRequest

    request = TokenRequest(
        name,
        role,
        lasting(expires) if expires else None,
        cast("access.Kind", kind),
        group or (),
        applications or (),
        environments or (),
    )
    _tokens(config).create(request)


@app.command(name="list")
def show(config: Config = None) -> None:
    """List tokens, without their text, and who is signed in by an identity provider."""
    _tokens(config).show()


@app.command()
def revoke(
    token: Annotated[
        str, typer.Argument(help="Its id, or that of a session, as `token list` shows it.")
    ],
    config: Config = None,
) -> None:
    """End a token at once."""
    _tokens(config).revoke(token)
