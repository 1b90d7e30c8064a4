"""`manent version`."""

from collections.abc import Mapping
from typing import Any

from manent_cli import __version__
from manent_cli.errors import Failure
from manent_cli.options import Options, command, new_app
from manent_cli.session import Session
from manent_cli.table import pairs

app = new_app()


@command(app, "version", Options)
def version(session: Session, given: Options) -> None:
    """Show the version of this client and of the server."""
    try:
        server: Mapping[str, Any] | None = session.client.get("/version")
    except Failure:
        _print(session, None)
        raise
    _print(session, server)
    minimum = str((server or {}).get("minimum_client") or "0")
    if _parts(minimum) > _parts(__version__):
        session.talk.say(
            f"warning: the server wants manent {minimum} or newer, this is {__version__}",
            colour="yellow",
        )


def _print(session: Session, server: Mapping[str, Any] | None) -> None:
    both = {"client": __version__, "server": server}
    session.output.one(both, name=f"version/{__version__}", text=lambda _: _sheet(server or {}))


def _sheet(server: Mapping[str, Any]) -> str:
    return pairs(
        [
            ("client", __version__),
            ("server", server.get("version")),
            ("workflow version", server.get("workflow_version")),
            ("minimum client", server.get("minimum_client")),
        ]
    )


def _parts(version: str) -> tuple[int, ...]:
    numbers = (part for part in version.split("."))
    return tuple(int(part) if part.isdecimal() else 0 for part in numbers)
