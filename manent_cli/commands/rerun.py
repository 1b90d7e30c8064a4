"""`manent rerun` and `retry`: do an ended deploy again from one of its steps."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from manent_cli.asking import find
from manent_cli.client import segment
from manent_cli.commands.deploy import Waiting, ask_and_wait
from manent_cli.errors import Failure
from manent_cli.exit_codes import OK, has_ended
from manent_cli.noun import address
from manent_cli.options import Address, command, new_app, options
from manent_cli.session import Session
from manent_cli.table import pairs

app = new_app()


@options
class Again(Waiting):
    """What `rerun` and `retry` take."""

    id: Address
    override: Annotated[
        list[str] | None, typer.Option(metavar="GATE", help="Pass this gate. May be repeated.")
    ] = None
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only show what is carried over and what runs again."),
    ] = False


@options
class Rerun(Again):
    """What `rerun` takes."""

    begin: Annotated[
        str, typer.Option("--from", metavar="STEP", help="The first step that is done again.")
    ]


@command(app, "rerun", Rerun)
def rerun(session: Session, given: Rerun) -> int:
    """Do an ended deploy again from a step: a new deploy that takes over what came before.

    Shows first what is carried over and what runs again; on a terminal it asks before it begins.
    """
    path = f"/deploys/{segment(find(session, address(given.id))['id'])}"
    return _again(session, given, path, begin=given.begin)


@command(app, "retry", Again)
def retry(session: Session, given: Again) -> int:
    """Do a deploy again from the first step that did not succeed."""
    deploy = find(session, address(given.id))
    path = f"/deploys/{segment(deploy['id'])}"
    if has_ended(deploy) or given.dry_run:
        return _again(session, given, path, begin=None)
    return ask_and_wait(session, given, path=f"{path}/retry", body=_body(given, begin=None))


def _again(session: Session, given: Again, path: str, *, begin: str | None) -> int:
    plan = session.client.get(f"{path}/rerun", {"from": begin} if begin else None)
    if given.dry_run:
        session.output.one(plan, name=f"deploy/{plan['of']}", text=lambda _: _sheet(plan))
        return OK
    session.talk.say(f"deploy {plan['of']} again: {_place(plan)}, pass {plan['pass']}")
    session.talk.say(f"  carried over: {_names(plan['carried'])}")
    session.talk.say(f"  runs again: {_names(plan['again'])}")
    if not session.confirm("go on?"):
        raise Failure("nothing was done: you said no", code="declined")
    route = f"{path}/rerun" if begin is not None else f"{path}/retry"
    body = _body(given, begin=begin)
    return ask_and_wait(session, given, path=route, body=body, version=plan["version"])


def _body(given: Again, *, begin: str | None) -> dict[str, Any]:
    body = {"from": begin, "reason": given.reason, "override": given.override}
    return {name: value for name, value in body.items() if value is not None}


def _place(plan: Mapping[str, Any]) -> str:
    return f"{plan['application']} {plan['version']} to {plan['environment']}"


def _names(steps: list[str]) -> str:
    return ", ".join(steps) or "nothing"


def _sheet(plan: Mapping[str, Any]) -> str:
    return pairs(
        [
            ("rerun of", plan["of"]),
            ("place", _place(plan)),
            ("pass", plan["pass"]),
            ("from", plan["from"]),
            ("carried over", _names(plan["carried"])),
            ("runs again", _names(plan["again"])),
        ]
    )
