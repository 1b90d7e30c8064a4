"""`manent-server`: serve, init, check, migrate, token."""

import logging
import os
import secrets
import sys
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from manent_server import bootstrap
from manent_server.api.app import create_app, create_probe_app
from manent_server.api.server import Front, Listener
from manent_server.bootstrap import House
from manent_server.domain import duration
from manent_server.domain.errors import (
    ConfigurationError,
    ManentError,
    StartRefused,
    Unavailable,
)
from manent_server.engine.migration import library
from manent_server.engine.version import WORKFLOW_VERSION, build
from manent_server.settings import show
from manent_server.settings.checks import host_and_port
from manent_server.settings.starter import starter
from manent_server.store import file_lock, migrate
from manent_server.usecases import policy, tokens
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import TokenRequest
from manent_server.worker.crew import Crew
from manent_server.worker.jobs import jobs
from manent_server.worker.loops import Loops
from manent_server.worker.process import RESTART_ME, Switches

_log = logging.getLogger(__name__)
_STOP = timedelta(seconds=5)
_PATIENCE = timedelta(seconds=15)

app = typer.Typer(
    name="manent-server",
    help="Runs the manent server and looks after it.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
token_app = typer.Typer(help="Tokens for people and programs.", no_args_is_help=True)
app.add_typer(token_app, name="token")

_T = TypeVar("_T")

Config = Annotated[
    Path | None,
    typer.Option("--config", help="manent.yml; else MANENT_CONFIG, else ./manent.yml."),
]


def main() -> None:
    """The entry point: every error ends with its sentence and its exit code."""
    try:
        app(standalone_mode=False)
    except ManentError as error:
        _complain(error)
        raise SystemExit(_exit_code(error)) from None
    except typer.Exit as stop:
        raise SystemExit(stop.exit_code) from None
    except typer.Abort:
        raise SystemExit(130) from None
    except Exception as error:
        if hasattr(error, "format_message") and hasattr(error, "exit_code"):
            sys.stderr.write(f"{error.format_message()}\n")
            raise SystemExit(error.exit_code) from None
        raise


def _complain(error: ManentError) -> None:
    sys.stderr.write(f"manent-server: {error.detail}\n")
    for found in error.errors:
        place = f"{found['file']}:{found['line']}" if found.get("line") else found.get("file", "")
        layer = f" ({found['layer']})" if found.get("layer") else ""
        sys.stderr.write(f"  {place} {found.get('path', '')}: {found['message']}{layer}\n")
    if error.next:
        sys.stderr.write(f"next: {error.next}\n")


def _exit_code(error: ManentError) -> int:
    if isinstance(error, ConfigurationError):
        return 2
    return RESTART_ME if isinstance(error, StartRefused | Unavailable) else 1


def _path(given: Path | None) -> Path:
    return given or Path(os.environ.get("MANENT_CONFIG") or "manent.yml")  # noqa: TID251 - the door


def _open(given: Path | None) -> House:
    return bootstrap.open_house(_path(given), os.environ)  # noqa: TID251 - the door


def _desk(house: House) -> Desk:
    return house.desk(dict)


def _show_version(value: bool) -> None:  # noqa: FBT001 - typer's callback
    if value:
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
) -> None:
    """Answer requests and run deploys until told to end."""
    bootstrap.demand_environment(os.environ)  # noqa: TID251 - the door
    house = _open(config)
    code = _run(_Service(house, has_api=not no_api, has_worker=not no_worker))
    sys.stdout.flush()
    sys.stderr.flush()
    # The engine's threads would keep the process alive; everything of ours has ended.
    os._exit(code)


def _run(service: "_Service") -> int:
    """The exit code, also where the service could not begin or ended by an error."""
    try:
        return service.run()
    except ManentError as error:
        _complain(error)
        return _exit_code(error)
    except BaseException:  # noqa: BLE001 - threads are at work: this process must end here
        _log.exception("manent-server ends by an unexpected error")
        return 1


class _Service:
    """One `serve` process, from its first listener to its exit code."""

    def __init__(self, house: House, *, has_api: bool, has_worker: bool) -> None:
        self._house = house
        self._has_api = has_api
        self._has_worker = has_worker
        self._switches = Switches()
        self._crew: Crew | None = None
        self._desk = house.desk(self._report)

    def run(self) -> int:
        """The exit code: 0 after a drain, 75 for "restart me"."""
        self._switches.listen()
        with ExitStack() as stack:
            if self._house.engines.file is not None:
                stack.enter_context(file_lock.serving(self._house.engines.file))
            listeners = self._listen()
            for listener in listeners:
                listener.start()
                stack.callback(listener.stop, _STOP)
            return self._live()

    def _report(self) -> dict[str, Any]:
        crew = self._crew
        return self._switches.report(crew.running if crew else lambda: 0)

    def _listen(self) -> list[Listener]:
        server = self._house.settings.server
        house = self._house
        bootstrap.watch_executors(house, self._desk)
        listeners = []
        if self._has_api:
            made = create_app(
                self._desk,
                metrics=house.metrics,
                redactor=house.redactor,
                workflow_version=WORKFLOW_VERSION,
            )
            front = Front(
                certificate=server.tls.certificate if server.tls else None,
                key=server.tls.key if server.tls else None,
                trusted_proxies=server.trusted_proxies,
            )
            listeners.append(Listener(made, *host_and_port(server.listen), front=front))
        if server.metrics_listen is not None:
            probes = create_probe_app(self._desk, metrics=house.metrics, redactor=house.redactor)
            address = host_and_port(server.metrics_listen)
            listeners.append(Listener(probes, *address, key="server.metrics_listen"))
        return listeners

    def _live(self) -> int:
        try:
            self._prepare()
        except Unavailable:
            if self._switches.is_ended:
                return 0
            raise
        if self._has_worker:
            crew = bootstrap.build_crew(self._house, self._switches.lose)
            try:
                crew.begin(self._switches.wait)
            except Unavailable:
                return 0
            self._crew = crew
        # Replicas may share name and process id: each start is a holder of its own.
        holder = f"{self._house.settings.executor_id}:{secrets.token_hex(4)}"
        loops = Loops(
            self._house.store,
            holder,
            jobs(self._desk, self._house.metrics),
            lasts=bootstrap.lease_length(self._house.settings),
        )
        loops.start()
        self._switches.is_ready = True
        _log.info("ready: %s", self._house.settings.server.url)
        code = self._switches.attend(self._house.reload)
        return self._leave(loops, code)

    def _prepare(self) -> None:
        """The database up to date, the policy in force."""
        house = self._house

        def is_ended() -> bool:
            return self._switches.is_ended

        migrate.migrate(house.engines, library=library(), stop=is_ended)
        settings = house.settings
        policy.write(house.store, settings, release=build(), by=settings.executor_id)

    def _leave(self, loops: Loops, code: int) -> int:
        if code != 0 and self._crew is not None:
            _log.error("another process has taken this executor row; hooks are killed, restart me")
            self._crew.abandon()
            return code
        loops.stop()
        if self._crew is not None:
            _log.info("draining, at most %s", duration.show(self._crew.drain_timeout))
            self._crew.drain()
        return code


@app.command()
def init(
    folder: Annotated[Path, typer.Argument(help="Where to write manent.yml.")] = Path(),
) -> None:
    """Write a first manent.yml, a token and a context for `manent`."""
    from manent_cli.profile import save_context  # noqa: PLC0415 - only here is the client needed

    path = folder / "manent.yml"
    folder.mkdir(parents=True, exist_ok=True)
    if path.exists():
        raise ConfigurationError(
            f"{path} exists already", next="take another folder, or use the file as it is"
        )
    path.write_text(starter(folder), encoding="utf-8")
    house = _open(path)
    migrate.migrate(house.engines, library=library(), patience=_PATIENCE)
    text = tokens.create(_desk(house), TokenRequest("admin", "admin"), actor="init")
    context = save_context("local", house.settings.server.url, text)
    sys.stdout.write(f"{path}\n")
    sys.stderr.write(
        f"wrote {path} and the context `local` to {context}\n"
        "next: manent-server serve, then: manent deploy hello staging v1\n"
    )


@app.command()
def check(
    config: Config = None,
    *,
    shown: Annotated[
        str | None, typer.Option("--show", help="APP/ENV: merged settings, each with its line.")
    ] = None,
) -> None:
    """Say what is wrong with manent.yml, or that nothing is."""
    bootstrap.demand_environment(os.environ)  # noqa: TID251 - the door
    settings, host = bootstrap.read(_path(config), os.environ)  # noqa: TID251 - the door
    if shown is not None:
        sys.stdout.write(show(settings, shown) + "\n")
        return
    for name, why in sorted(host.broken.items()):
        sys.stderr.write(f"plugin {name} cannot be used: {why}\n")
    sys.stdout.write(f"{settings.path}: good\n")


@app.command(name="migrate")
def migrate_command(config: Config = None) -> None:
    """Bring the database up to date."""
    house = _open(config)
    report = migrate.migrate(house.engines, library=library(), patience=_PATIENCE)
    done = [*report.applied, *(["engine"] if report.dbos else [])]
    sys.stdout.write("applied " + ", ".join(done) + "\n" if done else "nothing to do\n")


@token_app.command(name="create")
def token_create(
    name: Annotated[str, typer.Argument(help="The principal; several tokens may share it.")],
    role: Annotated[str, typer.Option(help="admin or viewer.")],
    config: Config = None,
    *,
    expires: Annotated[str | None, typer.Option(help="Such as 90d; default: never.")] = None,
) -> None:
    """Make a token and print it, once."""
    house = _open(config)
    lasts = _duration(expires) if expires else None
    request = TokenRequest(name, role, lasts)
    sys.stdout.write(_with_tables(house, lambda desk: tokens.create(desk, request, actor=_me())))
    sys.stdout.write("\n")


@token_app.command(name="list")
def token_list(config: Config = None) -> None:
    """List tokens, without their text."""
    found = _with_tables(_open(config), tokens.listing)
    for row in found["items"]:
        ended = "revoked" if row["revoked_at"] else row["expires_at"] or "never expires"
        words = (row["id"], row["name"], row["role"], f"{row['shown']}...", ended)
        sys.stdout.write("  ".join(words) + "\n")


@token_app.command(name="revoke")
def token_revoke(
    token: Annotated[str, typer.Argument(help="Its id, as `token list` shows it.")],
    config: Config = None,
) -> None:
    """End a token at once."""
    house = _open(config)
    row = _with_tables(house, lambda desk: tokens.revoke(desk, token, actor=_me()))
    sys.stdout.write(f"{row['id']} revoked\n")


def _with_tables(house: House, use: Callable[[Desk], _T]) -> _T:
    migrate.migrate(house.engines, library=library(), patience=_PATIENCE)
    return use(_desk(house))


def _duration(text: str) -> timedelta:
    try:
        return duration.parse(text)
    except ValueError as error:
        raise ConfigurationError(f"--expires {text}: {error}", next="such as 90d") from error


def _me() -> str:
    return f"local:{os.environ.get('USER', 'root')}"  # noqa: TID251 - the door
