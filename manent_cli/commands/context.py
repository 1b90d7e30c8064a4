"""`manent context`: which server a command talks to when nothing else says so."""

from typing import Annotated, Any

import typer

from manent_cli.client import masked
from manent_cli.errors import BadUsage
from manent_cli.options import Options, command, new_app, options
from manent_cli.profile import Context, Contexts, load_contexts, use_context
from manent_cli.session import Session
from manent_cli.table import draw, field

app = new_app()
_group = new_app()
app.add_typer(_group, name="context", help="List, choose and show contexts.")
_COLUMNS = (field("name"), field("url"), field("current"), field("token"))


@options
class Use(Options):
    """What `context use` takes."""

    name: Annotated[str, typer.Argument(metavar="NAME", help="A name of `manent context list`.")]


@command(_group, "list", Options)
def list_contexts(session: Session, given: Options) -> None:
    """List the contexts."""
    known = load_contexts(session.environ)
    rows = [_shown(one, known) for one in known.contexts.values()]
    session.output.many({"items": rows}, _COLUMNS, name=lambda row: f"context/{row['name']}")


@command(_group, "use", Use)
def use(session: Session, given: Use) -> None:
    """Make a context the current one."""
    use_context(given.name, environ=session.environ)
    session.talk.say(f"{given.name} is the current context")


@command(_group, "show", Options)
def show(session: Session, given: Options) -> None:
    """Show the context in use."""
    known = load_contexts(session.environ)
    name = given.context or session.environ.get("MANENT_CONTEXT") or known.current
    if not name:
        raise BadUsage("no context is in use", next="manent context use NAME chooses one")
    row = _shown(known.named(name), known)
    if session.environ.get("MANENT_URL") and not given.context:
        session.talk.say("MANENT_URL is set: commands go there, not to this context")
    session.output.one(
        row, name=f"context/{name}", text=lambda wide: draw(_COLUMNS, [row], wide=wide)
    )


def _shown(one: Context, known: Contexts) -> dict[str, Any]:
    return {
        "name": one.name,
        "url": masked(one.url),
        "current": one.name == known.current,
        "token": "kept" if one.token else None,
    }
