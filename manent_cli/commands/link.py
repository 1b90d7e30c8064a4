"""`manent link`: which accounts of chats are yours."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from manent_cli.asking import ask
from manent_cli.errors import BadUsage
from manent_cli.options import Options, command, new_app, options
from manent_cli.session import Session
from manent_cli.table import draw, field

app = new_app()
_LINKS = (field("chat"), field("account"), field("login"))


@options
class Link(Options):
    """What `link` takes."""

    code: Annotated[
        str | None,
        typer.Argument(metavar="[CODE]", help="The code a chat gave you. Without: list yours."),
    ] = None
    remove: Annotated[
        str | None,
        typer.Option(metavar="CHAT/ACCOUNT", help="This account is yours no more."),
    ] = None
    key: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The idempotency key. Made up if not given.")
    ] = None


@command(app, "link", Link)
def link(session: Session, given: Link) -> None:
    """Let an account of a chat speak for you."""
    if given.code is not None and given.remove is not None:
        raise BadUsage("give a code, or --remove", next="manent link lists your accounts")
    if given.remove is not None:
        chat, slash, account = given.remove.partition("/")
        if not slash or not chat or not account:
            raise BadUsage(f"--remove {given.remove!r:.80} is no CHAT/ACCOUNT", next="manent link")
        body = {"chat": chat, "account": account}
        _print(session, ask(session, "/links/remove", body, key=given.key))
    elif given.code is None:
        session.output.many(session.client.get("/links"), _LINKS, name=_name)
    else:
        _redeem(session, given.code, given.key)


def _redeem(session: Session, code: str, key: str | None) -> None:
    """Ask first: somebody may have sent the code of an account of theirs."""
    found = ask(session, "/links", {"code": code, "preview": True})
    what = f"account {found['account']} of chat {found['chat']}"
    if not session.confirm(f"Is {what} yours? It will decide as {found['login']}."):
        session.talk.say("nothing was linked")
        return
    _print(session, ask(session, "/links", {"code": code}, key=key))


def _print(session: Session, made: Mapping[str, Any]) -> None:
    session.output.one(made, name=_name(made), text=lambda wide: draw(_LINKS, [made], wide=wide))


def _name(row: Mapping[str, Any]) -> str:
    return f"link/{row['chat']}/{row['account']}"
