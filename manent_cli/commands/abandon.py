"""`manent abandon`."""

from typing import Annotated

import typer

from manent_cli.asking import ask
from manent_cli.client import segment
from manent_cli.follow import print_deploy
from manent_cli.noun import address
from manent_cli.options import Address, Options, command, new_app, options
from manent_cli.session import Session

app = new_app()


@options
class Abandon(Options):
    """What `abandon` takes."""

    id: Address
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for whoever looks later.")]
    force: Annotated[
        bool,
        typer.Option("--force", help="Let the next deploy not wait for what may still be at work."),
    ] = False
    key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The idempotency key. Made up if not given.")
    ] = None


@command(app, "abandon", Abandon)
def abandon(session: Session, given: Abandon) -> None:
    """Give up a cancelled deploy that does not end, on your word. Prints its id.

    Possible one minute after the cancel. What runs on its targets is unknown then: its
    application is locked there until you unlock it.
    """
    body = {"reason": given.reason} | ({"force": True} if given.force else {})
    path = f"/deploys/{segment(address(given.id))}/abandon"
    deploy = ask(session, path, body, key=given.key)
    session.talk.say(f"deploy {deploy['id']} is given up: {deploy.get('outcome')}")
    for warning in deploy.get("warnings") or ():
        session.talk.say(f"warning: {warning}", colour="yellow")
    print_deploy(session, deploy)
