"""Commands from dataclasses: each field is an argument or an option.

Typer reads the parameters of a function. A command with twenty options would be a function
with twenty parameters; here it is a frozen dataclass, and the command takes that one value.
"""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, TypeVar, dataclass_transform, get_type_hints

import typer

from manent_cli.errors import Interrupted
from manent_cli.session import Session

T = TypeVar("T")
O = TypeVar("O", bound="Options")  # noqa: E741 - the options of one command


@dataclass_transform(kw_only_default=True, frozen_default=True)
def options(cls: type[T]) -> type[T]:
    """Make a class the options of a command: a dataclass, frozen to the type checker alone.

    Each method a dataclass generates costs start time, and nothing here compares or prints one.
    """
    return dataclass(kw_only=True, repr=False, eq=False)(cls)


@options
class Options:
    """What every command takes."""

    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FORM", help="table, wide, json, jsonl, yaml or name."
        ),
    ] = None
    context: Annotated[str | None, typer.Option(metavar="NAME", help="The context to use.")] = None
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="The server, in place of MANENT_URL.")
    ] = None


Address = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="Its id, a beginning of it, or APPLICATION/ENVIRONMENT#NUMBER."
    ),
]
Body = Callable[[Session, O], int | None]


def new_app() -> typer.Typer:
    """An app for the commands of one module."""
    return typer.Typer(add_completion=False, rich_markup_mode=None)


def command(
    app: typer.Typer, name: str, taken: type[O], *, cls: Any = None
) -> Callable[[Body[O]], Body[O]]:
    """Add a command: its function takes the session and the options, and gives the exit code."""

    def add(body: Body[O]) -> Body[O]:
        def callback(typer_context: typer.Context, **values: Any) -> int:
            session: Session = typer_context.find_root().obj
            given = taken(**values)
            session.context, session.url = given.context, given.url
            session.set_form(given.output)
            try:
                return body(session, given) or 0
            except KeyboardInterrupt as error:  # else typer ends the process without a word
                raise Interrupted from error

        callback.__doc__ = body.__doc__
        parameters = [_CONTEXT, *_parameters(taken)]
        # What typer reads in place of the parameters above; mypy knows no such attribute.
        callback.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        callback.__annotations__ = {one.name: one.annotation for one in parameters}
        app.command(name, cls=cls)(callback)
        return body

    return add


_CONTEXT = inspect.Parameter(
    "typer_context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
)


def _parameters(taken: type[Options]) -> list[inspect.Parameter]:
    hints = get_type_hints(taken, include_extras=True)
    own = [one for one in fields(taken) if one.name not in COMMON]
    common = [one for one in fields(taken) if one.name in COMMON]
    return [
        inspect.Parameter(
            one.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if one.default is MISSING else one.default,
            annotation=hints[one.name],
        )
        for one in (*own, *common)
    ]


COMMON = frozenset(one.name for one in fields(Options))
