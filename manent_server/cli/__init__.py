"""`manent-server`: serve, init, check, migrate, doctor, token, audit, admin.

Each command imports what it needs when it runs: the server's libraries take a second to load,
and most commands need few of them.
"""
# ruff: noqa: PLC0415 - see above

import gc
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from manent_server.cli import admin, audit, first, token, trouble
from manent_server.domain.errors import (
    ConfigurationError,
    Invalid,
    ManentError,
    NotFound,
    StartRefused,
    Unavailable,
)

if TYPE_CHECKING:
    from manent_server.cli.serving import Service

_log = logging.getLogger(__name__)
_BROKEN_PIPE: Final = 128 + 13
_INTERRUPTED: Final = 130

app = typer.Typer(
    name="manent-server",
    help="Runs the manent server and looks after it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(token.app, name="token")
app.add_typer(audit.app, name="audit")
app.add_typer(admin.app, name="admin")

Config = Annotated[
    Path | None,
    typer.Option("--config", help="manent.yml; else MANENT_CONFIG, else ./manent.yml."),
]


def main() -> None:
    """The entry point: every error ends with its sentence and its exit code."""
    first.obey()
    # Loading leaves no garbage behind, and looking for it takes a tenth of the time.
    gc.disable()
    try:
        code = app(standalone_mode=False, prog_name="manent-server")
    except SystemExit as end:
        # The library ends so with 1, which is a word of some commands.
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        # Whoever read what was printed has read enough.
        raise SystemExit(_BROKEN_PIPE) from None
    except Exception as error:
        code = _ended_by(error)
        if code is None:
            raise
    if isinstance(code, int) and code:
        # So a command ends with a code of its own.
        raise SystemExit(code)


def _ended_by(error: Exception) -> int | None:
    """Say what went wrong, and the exit code for it; None where only a traceback helps."""
    if isinstance(error, typer.Exit | typer.Abort):
        return error.exit_code if isinstance(error, typer.Exit) else _INTERRUPTED
    if hasattr(error, "format_message") and hasattr(error, "exit_code"):
        sys.stderr.write(_usage(error))
        return int(error.exit_code)
    known = error if isinstance(error, ManentError) else trouble.told(error)
    if known is None:
        return None
    _complain(known)
    return _exit_code(known)


def _usage(error: Any) -> str:
    """What is wrong with a command line, and where to look."""
    command = getattr(getattr(error, "ctx", None), "command_path", "manent-server")
    return f"manent-server: {error.format_message()}\nnext: see {command} --help\n"


def _complain(error: ManentError) -> None:
    sys.stderr.write(complaint(error, os.environ))  # noqa: TID251 - the door


def complaint(error: ManentError, environ: Mapping[str, str]) -> str:
    """Its sentence and its next step, each in a line, without a secret of the environment.

    What a plugin says of its own failure may name one.
    """
    from manent_server.observability.redaction import Redactor, in_variables

    redact = Redactor(in_variables(environ)).redact
    # Before a text becomes one line: what it was written in counts. Each line on its own: a secret
    # of several lines would take away what is between them.
    return "".join(f"{_indented(redact(text))}\n" for text in _texts(error))


def _texts(error: ManentError) -> list[str]:
    texts = [f"manent-server: {error.detail}"]
    if len(error.errors) == 1 and error.errors[0]["message"] in error.detail:
        texts[0] += _layer(error.errors[0])  # the sentence has it already
    else:
        texts += map(_finding, error.errors)
    if error.next:
        texts.append(f"next: {error.next}")
    return texts


def _finding(found: Mapping[str, Any]) -> str:
    place = f"{found['file']}:{found['line']}" if found.get("line") else found.get("file", "")
    return f"  {place} {found.get('path', '')}: {found['message']}{_layer(found)}"


def _layer(found: Mapping[str, Any]) -> str:
    return f" ({found['layer']})" if found.get("layer") else ""


def _indented(text: str) -> str:
    """A text as one line, as far in as it was."""
    return "  " * text.startswith("  ") + " ".join(text.split())


def _exit_code(error: ManentError) -> int:
    if isinstance(error, ConfigurationError | Invalid | NotFound):
        return 2
    from manent_server.worker.process import RESTART_ME

    return RESTART_ME if isinstance(error, StartRefused | Unavailable) else 1


def _path(given: Path | None) -> Path:
    return given or Path(os.environ.get("MANENT_CONFIG") or "manent.yml")  # noqa: TID251 - the door


def _show_version(value: bool) -> None:  # noqa: FBT001 - typer's callback
    if value:
        from manent_server.engine.version import WORKFLOW_VERSION, build

        sys.stdout.write(f"manent-server {build()} (workflow version {WORKFLOW_VERSION})\n")
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Runs the manent server and looks after it."""


@app.command()
def serve(
    config: Config = None,
    *,
    no_worker: Annotated[bool, typer.Option("--no-worker", help="Run no deploys here.")] = False,
    no_api: Annotated[bool, typer.Option("--no-api", help="Answer no requests here.")] = False,
    only_version: Annotated[
        str | None,
        typer.Option(
            "--only-version",
            metavar="VERSION",
            help="Run only deploys of this workflow version here, such as an older build left.",
        ),
    ] = None,
) -> None:
    """Answer requests and run deploys until told to end."""
    from manent_server.bootstrap import house
    from manent_server.cli.serving import Service
    from manent_server.engine.version import WORKFLOW_VERSION, demand

    if only_version is not None and no_worker:
        raise ConfigurationError(
            "--no-worker runs no deploys, --only-version some", next="give one of the two"
        )
    version = WORKFLOW_VERSION if only_version is None else demand(only_version)

    gc.freeze()
    gc.enable()
    house.demand_environment(os.environ)  # noqa: TID251 - the door
    opened = house.open_house(_path(config), os.environ)  # noqa: TID251 - the door
    runs = None if no_worker else version
    code = _run(Service(opened, has_api=not no_api, runs=runs))
    sys.stdout.flush()
    sys.stderr.flush()
    # The engine's threads would keep the process alive; everything of ours has ended.
    os._exit(code)


def _run(service: "Service") -> int:
    """The exit code, also where the service could not begin or ended by an error."""
    try:
        return service.run()
    except ManentError as error:
        _complain(error)
        return _exit_code(error)
    except Exception as error:  # noqa: BLE001 - threads are at work: this process must end here
        known = None if isinstance(error, OSError) else trouble.told(error)
        if known is None:
            _log.exception("manent-server ends by an unexpected error")
            return 1
        _complain(known)
        return _exit_code(known)
    except BaseException:  # noqa: BLE001 - threads are at work: this process must end here
        _log.exception("manent-server ends by an unexpected error")
        return 1


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Where to write manent.yml.")] = Path(),
) -> None:
    """Write a first manent.yml, a token and a context for `manent`."""
    from manent_server.cli import errands

    errands.init(folder, os.environ)  # noqa: TID251 - the door


@app.command()
def check(
    config: Config = None,
    *,
    shown: Annotated[
        str | None, typer.Option("--show", help="APP/ENV: merged settings, each with its line.")
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Of a server or a database: also name its live deploys that need what this "
            "manent.yml lacks.",
        ),
    ] = None,
) -> None:
    """Say what is wrong with manent.yml, or that nothing is."""
    from manent_server.cli import errands

    environ = os.environ  # noqa: TID251 - the door
    errands.check(_path(config), environ, shown=shown, against=against)


@app.command(name="migrate")
def migrate_command(
    config: Config = None,
    *,
    wait: Annotated[
        str,
        typer.Option(
            "--wait",
            metavar="DURATION",
            help="How long to wait for a database that does not answer, and for another process "
            "that migrates it.",
        ),
    ] = "15s",
) -> None:
    """Bring the database up to date.

    SIGTERM ends the wait; what is being migrated is brought to its end first.
    """
    from manent_server.cli import errands

    patience = errands.lasting(wait, option="--wait", such_as="10m")
    environ = os.environ  # noqa: TID251 - the door
    errands.bring_up_to_date(_path(config), environ, patience=patience, stop=first.Told())


@app.command()
def doctor(
    config: Config = None,
    *,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FORM", help="table or json.")
    ] = "table",
) -> None:
    """Check this installation and change nothing: what is wrong, and what to do about it.

    Exit code 1 if a check failed, 0 if none did, also with warnings.
    """
    from manent_server.cli.doctoring import examine

    if not examine(_path(config), os.environ, form=output):  # noqa: TID251 - the door
        raise typer.Exit(1)
