"""`manent cancel` and `manent skip-wait`."""

from typing import Annotated

import typer

from manent_cli.asking import ask
from manent_cli.client import segment
from manent_cli.exit_codes import has_ended
from manent_cli.follow import print_deploy
from manent_cli.noun import address
from manent_cli.options import Address, Options, command, new_app, options
from manent_cli.session import Session

app = new_app()


@options
class Cancel(Options):
    """What `cancel` takes."""

    id: Address
    rollback: Annotated[bool, typer.Option("--rollback", help="Roll back what it has touched.")] = (
        False
    )
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why.")] = None
    key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The idempotency key. Made up if not given.")
    ] = None


@command(app, "cancel", Cancel)
def cancel(session: Session, given: Cancel) -> None:
    """Cancel a deploy. Prints its id."""
    body = {"rollback": given.rollback} | ({"reason": given.reason} if given.reason else {})
    path = f"/deploys/{segment(address(given.id))}/cancel"
    deploy = ask(session, path, body, key=given.key)
    for warning in deploy.get("warnings") or ():
        session.talk.say(f"warning: {warning}", colour="yellow")
    if has_ended(deploy):
        session.talk.say(f"deploy {deploy['id']} has ended: {deploy.get('outcome')}")
    else:
        session.talk.say(f"deploy {deploy['id']} is being cancelled: manent wait {deploy['id']}")
    print_deploy(session, deploy)


@options
class SkipWait(Options):
    """What `skip-wait` takes."""

    id: Address
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; it is recorded.")]
    key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The idempotency key. Made up if not given.")
    ] = None


@command(app, "skip-wait", SkipWait)
def skip_wait(session: Session, given: SkipWait) -> None:
    """End a deploy's wait for time: its first instant or a soak. Prints its id."""
    path = f"/deploys/{segment(address(given.id))}/skip-wait"
    deploy = ask(session, path, {"reason": given.reason}, key=given.key)
    session.talk.say(f"deploy {deploy['id']} does not wait: {deploy.get('phase')}")
    print_deploy(session, deploy)
