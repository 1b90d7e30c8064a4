"""`manent watch` and `wait`: see a deploy through to its end."""

from typing import Annotated

import typer

from manent_cli.asking import find
from manent_cli.duration import seconds
from manent_cli.follow import Wish, conclude, finish, print_deploy
from manent_cli.noun import address
from manent_cli.options import Address, Options, command, new_app, options
from manent_cli.pace import Deadline
from manent_cli.session import Session

app = new_app()


@options
class Wait(Options):
    """What `watch` and `wait` take."""

    id: Address
    timeout: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Wait at most so long; the deploy goes on."),
    ] = None


@command(app, "watch", Wait)
def watch(session: Session, given: Wait) -> int:
    """Follow the steps and the log of a deploy until it ends; its end is the exit code."""
    return _see_through(session, given, Wish())


@command(app, "wait", Wait)
def wait(session: Session, given: Wait) -> int:
    """Wait for the end of a deploy; its end is the exit code."""
    return _see_through(session, given, Wish(is_told=False))


def _see_through(session: Session, given: Wait, wish: Wish) -> int:
    timeout = seconds(given.timeout, option="--timeout") if given.timeout else None
    deadline = Deadline(session.pace, timeout)
    found = find(session, address(given.id), deadline=deadline)
    ended = finish(session, found["id"], wish, deadline=deadline)
    print_deploy(session, ended)
    return conclude(ended, wish)
