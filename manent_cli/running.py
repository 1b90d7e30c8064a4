"""One run of the command line: every end becomes an exit code and a word to the user."""

from collections.abc import Mapping, Sequence
from typing import TextIO

from typer.exceptions import Abort, TyperException

from manent_cli.application import build
from manent_cli.environment import warnings
from manent_cli.errors import BadUsage, Failure, Interrupted
from manent_cli.exit_codes import USAGE
from manent_cli.pace import Pace
from manent_cli.session import Session


def run(  # noqa: PLR0913 - what a process is given, and the pace
    arguments: Sequence[str],
    *,
    environ: Mapping[str, str],
    stdout: TextIO,
    stderr: TextIO,
    pace: Pace | None = None,
    stdin: TextIO | None = None,
) -> int:
    """Run one command.

    Args:
        arguments: What follows `manent`.
        environ: The environment.
        stdout: For data.
        stderr: For talk.
        pace: How fast waiting commands ask; the default is for people.
        stdin: Standard input, for questions on a terminal; None asks nothing.

    Returns:
        The exit code.
    """
    session = Session(
        environ=environ, stdout=stdout, stderr=stderr, pace=pace or Pace(), stdin=stdin
    )
    session.form = _form_in(arguments) or environ.get("MANENT_OUTPUT")
    return _guarded(session, arguments)


def _guarded(session: Session, arguments: Sequence[str]) -> int:
    try:
        return _invoke(session, arguments)
    except Failure as error:
        failure = error
    except KeyboardInterrupt:
        failure = Interrupted()
    except Exception as error:  # noqa: BLE001 - the last door: no stack trace for a user
        failure = Failure(
            f"manent failed: {type(error).__name__}: {error}",
            next="this is a fault in manent; report it with the command you ran",
            code="internal",
        )
    session.talk.failure(failure, is_structured=session.is_structured)
    return failure.exit_code


def _invoke(session: Session, arguments: Sequence[str]) -> int:
    for warning in warnings(session.environ):
        session.talk.say(f"warning: {warning}", colour="yellow")
    _refuse_bytes(arguments)
    given = list(arguments) or ["--help"]
    try:
        code = build().main(given, prog_name="manent", standalone_mode=False, obj=session)
    except TyperException as error:
        raise BadUsage(error.format_message(), next=_usage(error)) from error
    except Abort as error:
        raise KeyboardInterrupt from error
    return int(code or 0) if arguments else USAGE


def _refuse_bytes(arguments: Sequence[str]) -> None:
    for argument in arguments:
        # Bytes that are no UTF-8 come as lone surrogates, which no request can carry.
        if not argument.isascii() and argument.encode(errors="replace").decode() != argument:
            raise BadUsage(f"the argument {argument!a} is no text", next="write it as UTF-8")


def _usage(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    return f"see {context.command_path} --help" if context is not None else "see manent --help"


def _form_in(arguments: Sequence[str]) -> str | None:
    """The form asked for, read before the arguments are understood: errors in them need it."""
    for index, argument in enumerate(arguments):
        if argument in {"-o", "--output"}:
            return arguments[index + 1] if index + 1 < len(arguments) else None
        if argument.startswith("--output="):
            return argument.partition("=")[2]
        if argument.startswith("-o"):
            return argument[2:].removeprefix("=")
    return None
