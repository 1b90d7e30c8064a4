"""`manent logs`: the log of a deploy, whole or as it grows."""

import json
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from manent_cli.asking import find
from manent_cli.client import segment
from manent_cli.errors import BadUsage, Failure, Problem
from manent_cli.noun import address
from manent_cli.options import Address, Options, command, new_app, options
from manent_cli.session import Session
from manent_cli.sse import Event
from manent_cli.text import clean_line

app = new_app()
_PAGE = 5000


@options
class Logs(Options):
    """What `logs` takes."""

    id: Address
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the deploy has ended.")
    ] = False
    after: Annotated[
        int, typer.Option(metavar="NUMBER", min=0, help="Only lines after this sequence number.")
    ] = 0
    tail: Annotated[
        int | None,
        typer.Option(metavar="NUMBER", min=0, help="Begin so many lines before the end."),
    ] = None
    timestamps: Annotated[
        bool, typer.Option("--timestamps", help="Put time and step before each line.")
    ] = False


@command(app, "logs", Logs)
def logs(session: Session, given: Logs) -> None:
    """Print the log of a deploy."""
    path = f"/deploys/{segment(find(session, address(given.id))['id'])}/logs"
    if given.follow and session.form in {"json", "yaml"}:
        raise BadUsage(f"a log that grows is no {session.form} document", next="use -o jsonl")
    after = given.after if given.tail is None else _before_end(session, path, given)
    read = _followed if given.follow else _stored
    items = read(session, path, after)
    if session.form in {"json", "yaml"}:
        session.output.document({"items": list(items)})
        return
    for item in items:
        session.output.write(_line(session, item, timestamps=given.timestamps))
        if session.output.is_closed:
            return


def _before_end(session: Session, path: str, given: Logs) -> int:
    """After which line the last ones asked for begin."""
    query = {"after": given.after, "tail": given.tail, "limit": 1}
    page = session.client.get(path, query)
    items = page["items"]
    return int(items[0]["sequence"]) - 1 if items else int(page["next"] or given.after)


def _line(session: Session, item: Any, *, timestamps: bool) -> str:
    if session.is_structured:
        return json.dumps(item) + "\n"
    text = str(item.get("text", ""))
    shown = clean_line(text) if session.output.is_terminal else text
    return (f"{item.get('at')} {item.get('step') or '-'} " if timestamps else "") + shown + "\n"


def _stored(session: Session, path: str, after: int) -> Iterator[Any]:
    """The lines there are, a page at a time: a log may be long."""
    while True:
        page = session.client.get(path, {"after": after, "limit": _PAGE})
        yield from page["items"]
        if not page["items"] or page.get("ended"):
            return
        after = max(after, *(int(item["sequence"]) for item in page["items"]))


def _followed(session: Session, path: str, after: int) -> Iterator[Any]:
    """The lines as they come; a stream that was cut is taken up after the last line seen."""
    pace = session.pace
    delay, why = pace.first, "it ended too soon"
    while True:
        try:
            for event in session.client.stream(path, last_event_id=str(after) if after else None):
                delay = pace.first
                if event.name == "end":
                    return
                item = _item(event)
                if item is not None and item["sequence"] > after:
                    after = item["sequence"]
                    yield item
        except Failure as failure:
            if not failure.is_passing:
                raise
            why = f"{failure.what}: {failure.why}"
        if delay == pace.first:
            session.talk.say(f"the log was cut off ({why}); trying again", colour="yellow")
        pace.sleep(delay)
        delay = pace.after(delay)


def _item(event: Event) -> Any:
    if event.name == "problem":
        fields = json.loads(event.data)
        raise Problem(fields["status"], fields)
    return json.loads(event.data) if event.name == "line" else None
