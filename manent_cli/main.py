"""The door of `manent`: runs one command and turns every end into an exit code."""

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

from manent_cli import __version__

if TYPE_CHECKING:
    from manent_cli.pace import Pace
    from manent_cli.session import Session


def main(argv: Sequence[str] | None = None) -> int:
    """Run `manent` with the process's own arguments, environment and streams."""
    arguments = sys.argv[1:] if argv is None else list(argv)
    if arguments == ["--version"]:
        # Answered before anything is imported: it runs in prompts and in CI all day.
        print(f"manent {__version__}")
        return 0
    import gc  # noqa: PLC0415
    from os import environ  # noqa: PLC0415, TID251 - the one place that reads it

    # Nothing that the imports make is garbage; looking for it is a twentieth of the start.
    gc.set_threshold(50_000)

    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A name the terminal's encoding cannot show must not end a deploy's wait.
            stream.reconfigure(errors="backslashreplace")
    return run(arguments, environ=environ, stdout=sys.stdout, stderr=sys.stderr)


def run(
    arguments: Sequence[str],
    *,
    environ: Mapping[str, str],
    stdout: TextIO,
    stderr: TextIO,
    pace: "Pace | None" = None,
) -> int:
    """Run one command.

    Args:
        arguments: What follows `manent`.
        environ: The environment.
        stdout: For data.
        stderr: For talk.
        pace: How fast waiting commands ask; the default is for people.

    Returns:
        The exit code.
    """
    from manent_cli.pace import Pace  # noqa: PLC0415 - not before `--version` was answered
    from manent_cli.session import Session  # noqa: PLC0415

    session = Session(environ=environ, stdout=stdout, stderr=stderr, pace=pace or Pace())
    session.form = _form_in(arguments) or environ.get("MANENT_OUTPUT")
    return _guarded(session, arguments)


def _guarded(session: "Session", arguments: Sequence[str]) -> int:
    from manent_cli.errors import Failure, Interrupted  # noqa: PLC0415

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


def _invoke(session: "Session", arguments: Sequence[str]) -> int:
    from typer.exceptions import Abort, TyperException  # noqa: PLC0415

    from manent_cli.application import build  # noqa: PLC0415
    from manent_cli.environment import warnings  # noqa: PLC0415
    from manent_cli.errors import BadUsage  # noqa: PLC0415
    from manent_cli.exit_codes import USAGE  # noqa: PLC0415

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
    from manent_cli.errors import BadUsage  # noqa: PLC0415

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
