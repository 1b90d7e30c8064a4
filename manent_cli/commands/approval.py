"""`manent approvals`, `approve` and `reject`."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final

import typer

from manent_cli import exit_codes
from manent_cli.asking import ask, look
from manent_cli.client import segment
from manent_cli.commands.listing import Listed, Paged, print_page
from manent_cli.errors import BadUsage, Failure, Problem
from manent_cli.follow import print_deploy
from manent_cli.noun import address
from manent_cli.options import Address, Options, command, new_app, options
from manent_cli.session import Session
from manent_cli.table import Column, Row, draw, field

app = new_app()
_APPROVAL: Final = "approval/"


def approval_name(row: Row) -> str:
    """`approval/ID`."""
    return f"{_APPROVAL}{row['id']}"


def _votes(row: Row) -> str:
    return f"{len(row.get('approvers') or ())} of {row.get('quorum')}"


APPROVALS: Final[Sequence[Column]] = (
    field("id"),
    field("application"),
    field("environment"),
    field("version"),
    field("rule"),
    field("state"),
    Column("VOTES", _votes),
    Column("MISSING", lambda row: " and ".join(row.get("missing") or ())),
    Column("YOU", lambda row: "may decide" if row.get("may_decide") else row.get("why_not")),
    field("expires_at"),
    field("deploy", is_wide=True),
    field("from_version", is_wide=True),
    field("requested_by", is_wide=True),
    field("reason", is_wide=True),
    Column("APPROVERS", lambda row: ", ".join(row.get("approvers") or ()), is_wide=True),
    field("digest", is_wide=True),
)


@options
class List(Paged):
    """What `approvals` takes."""

    application: Annotated[
        str | None, typer.Option(metavar="APP", help="Only of this application.")
    ] = None
    environment: Annotated[
        str | None, typer.Option(metavar="ENV", help="Only to this environment.")
    ] = None
    deploy: Annotated[str | None, typer.Option(metavar="ID", help="Only of this deploy.")] = None
    state: Annotated[
        str,
        typer.Option(
            metavar="STATE",
            help="waiting, approved, rejected, expired, void, ended, or all of them: all.",
        ),
    ] = "waiting"


@options
class Decision(Options):
    """What `approve` and `reject` take."""

    id: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="The approval, or its deploy: then every rule you have a say in.",
        ),
    ]
    comment: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Why; a rejection needs one.")
    ] = None
    key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The idempotency key. Made up if not given.")
    ] = None


@command(app, "approvals", List)
def approvals(session: Session, given: List) -> None:
    """List what waits for approval, and whether you have a say in it."""
    query = {
        "application": given.application,
        "environment": given.environment,
        "deploy": address(given.deploy) if given.deploy is not None else None,
        "state": given.state if given.state != "all" else None,
    }
    print_page(session, Listed("/approvals", query, APPROVALS, approval_name), given)


@command(app, "approve", Decision)
def approve(session: Session, given: Decision) -> int:
    """Approve a deploy that waits for it. Prints the id of each approval."""
    return _decide(session, given, "approve")


@command(app, "reject", Decision)
def reject(session: Session, given: Decision) -> int:
    """Reject a deploy that waits for approval: it ends. Prints the id of the approval."""
    if given.comment is None or not given.comment.strip():
        raise BadUsage("a rejection needs a comment", next="say why with --comment TEXT")
    return _decide(session, given, "reject")


@options
class Regate(Options):
    """What `regate` takes."""

    id: Address
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why; others read it.")]
    key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The idempotency key. Made up if not given.")
    ] = None


@command(app, "regate", Regate)
def regate(session: Session, given: Regate) -> None:
    """Let a deploy that waits take the rules of today. Prints its id."""
    path = f"/deploys/{segment(address(given.id))}/regate"
    deploy = ask(session, path, {"reason": given.reason}, key=given.key)
    session.talk.say(f"deploy {deploy['id']} waits under the rules of today")
    print_deploy(session, deploy)


def _decide(session: Session, given: Decision, decision: str) -> int:
    body = {"decision": decision, "comment": given.comment}
    body = {name: value for name, value in body.items() if value is not None}
    for one in _meant(session, given, decision):
        row = ask(session, f"/approvals/{segment(one)}/decisions", body, key=given.key)
        _tell(session, row, decision)
        session.output.written(row, "approval", partial(_sheet, row))
        if decision == "reject":
            break
    return exit_codes.OK


def _sheet(row: Row, wide: bool) -> str:
    return draw(APPROVALS, [row], wide=wide)


def _tell(session: Session, row: Mapping[str, Any], decision: str) -> None:
    what = f"{row['application']} {row['version']} to {row['environment']}, rule {row['rule']}"
    session.talk.say(f"{decision} {what}: {row.get('message')}")
    if row.get("missing"):
        session.talk.say(f"still missing: {' and '.join(row['missing'])}")
    elif decision == "approve" and row.get("state") == "approved":
        session.talk.say(f"deploy {row['deploy']} is approved by this rule")


def _meant(session: Session, given: Decision, decision: str) -> list[str]:
    """The approvals that are meant: one, or those of a deploy the caller has a say in."""
    text = given.id.removeprefix(_APPROVAL)
    if "#" not in text and not text.startswith("deploy/"):
        try:
            return [look(session, f"/approvals/{segment(text)}")["id"]]
        except Problem as problem:
            if problem.exit_code != exit_codes.NOT_FOUND:
                raise
    query = {"deploy": address(given.id), "state": "waiting", "limit": 100}
    rows = look(session, "/approvals", query)["items"]
    mine = [row["id"] for row in rows if row.get("may_decide")]
    if not mine:
        # Said before, perhaps, by a run that was never answered.
        mine = _said_before(session, {"deploy": query["deploy"], "limit": 100}, decision)
    if mine:
        return list(reversed(mine))
    raise _no_say(given.id, rows)


def _said_before(session: Session, query: Mapping[str, Any], decision: str) -> list[str]:
    """The approvals of a deploy to which the caller has said the same: the server says so again."""
    rows = [row for row in look(session, "/approvals", query)["items"] if row.get("votes")]
    if not rows:
        return []
    who = look(session, "/auth")
    names = {who.get("login"), who.get("name")} - {None}
    return [
        row["id"]
        for row in rows
        if row["state"] != "void"
        and any(one["by"] in names and one["decision"] == decision for one in row["votes"])
    ]


def _no_say(text: str, rows: Sequence[Row]) -> Failure:
    if not rows:
        return Failure(
            f"nothing of {text} waits for approval",
            next=f"manent explain {text} says what it waits for",
            code="nothing_asked",
            exit_code=exit_codes.REFUSED,
        )
    why = "; ".join(f"rule {row['rule']}: {row.get('why_not')}" for row in rows)
    is_named = any("lacks the right" in str(row.get("why_not")) for row in rows)
    whom = "an administrator for the role approver there, or " if is_named else ""
    whom += "somebody the rule names"
    return Failure(
        f"you have no say in the approval of {text}",
        why=why,
        next=f"ask {whom}",
        code="not_eligible",
        exit_code=exit_codes.DENIED,
    )
