"""`manent resolve`."""

from typing import Annotated

import typer

from manent_cli.asking import ask
from manent_cli.client import segment
from manent_cli.errors import BadUsage
from manent_cli.follow import print_deploy
from manent_cli.noun import address
from manent_cli.options import Address, Options, command, new_app, options
from manent_cli.session import Session

app = new_app()
_ANSWERS = ("succeeded", "failed", "retry", "skip", "rollback")


@options
class Resolve(Options):
    """What `resolve` takes."""

    id: Address
    succeeded: Annotated[
        bool, typer.Option("--succeeded", help="Its work is done: go on with the next step.")
    ] = False
    failed: Annotated[
        bool, typer.Option("--failed", help="It failed: end the deploy as failed.")
    ] = False
    retry: Annotated[bool, typer.Option("--retry", help="Run it again.")] = False
    skip: Annotated[
        bool, typer.Option("--skip", help="Leave its target out and go on with the others.")
    ] = False
    rollback: Annotated[
        bool, typer.Option("--rollback", help="Take back what the deploy has touched.")
    ] = False
    target: Annotated[
        str | None,
        typer.Option(metavar="TARGET", help="Answer for this target alone, not for all."),
    ] = None
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why.")] = None
    key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The idempotency key. Made up if not given.")
    ] = None


@command(app, "resolve", Resolve)
def resolve(session: Session, given: Resolve) -> None:
    """Answer a deploy that waits for a person, in phase unknown or paused. Prints its id.

    `manent explain ID` says what it asks and which answers it takes.
    """
    said = [name for name in _ANSWERS if getattr(given, name)]
    if len(said) != 1:
        flags = ", ".join(f"--{name}" for name in _ANSWERS)
        raise BadUsage("give exactly one answer", next=f"one of {flags}")
    body = {"answer": said[0], "target": given.target, "reason": given.reason}
    path = f"/deploys/{segment(address(given.id))}/resolve"
    body = {name: value for name, value in body.items() if value is not None}
    deploy = ask(session, path, body, key=given.key)
    session.talk.say(f"deploy {deploy['id']} is answered: manent wait {deploy['id']}")
    print_deploy(session, deploy)
