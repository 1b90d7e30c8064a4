"""Commands that do one thing and end; none of them needs the engine or the API."""

import socket
import sys
from collections.abc import Callable, Mapping
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, TypeVar

from manent_cli.errors import BadUsage
from manent_cli.profile import load_contexts, new_context
from manent_server.bootstrap import house
from manent_server.bootstrap.house import House
from manent_server.cli import comparing
from manent_server.domain import access, duration
from manent_server.domain.access import Caller
from manent_server.domain.errors import ConfigurationError, NotFound
from manent_server.engine.migration import library
from manent_server.settings import show
from manent_server.settings.access import unmatched
from manent_server.settings.starter import starter
from manent_server.store import migrate
from manent_server.store.repeat import never
from manent_server.usecases import sign_in, tokens
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import TokenRequest

_PATIENCE = timedelta(seconds=15)
_T = TypeVar("_T")
Variables = Mapping[str, str]


def init(folder: Path, environ: Variables) -> None:
    """Write a first manent.yml, migrate its database, make a token and a context."""
    path = folder / "manent.yml"
    folder.mkdir(parents=True, exist_ok=True)
    if path.exists():
        raise ConfigurationError(
            f"{path} exists already", next="take another folder, or use the file as it is"
        )
    try:
        before = load_contexts(environ)
    except BadUsage as error:
        # Before anything is written: a token made now could be shown nowhere.
        words = f"{error.what}: {error.why}" if error.why else error.what
        raise ConfigurationError(words, next=error.next) from error
    path.write_text(starter(folder), encoding="utf-8")
    try:
        opened = house.open_house(path, environ)
        migrate.migrate(opened.engines, library=library(), patience=_PATIENCE)
        mine = TokenRequest("admin", "admin", kind="person")
        text = tokens.create(opened.desk(dict), mine, caller=_me(environ))["token"]
        name, file = new_context("local", opened.settings.server.url, text)
    except BaseException:
        # Without its token it would be in the way of the next try.
        path.unlink(missing_ok=True)
        raise
    sys.stdout.write(f"{path}\n")
    sys.stderr.write(
        f"wrote {path} and the context `{name}` to {file}\n"
        "next: manent-server serve, then: manent deploy hello staging v1\n"
    )
    if before.current is not None:
        sys.stderr.write(
            f"`{name}` is the current context now; back: manent context use {before.current}\n"
        )


def check(path: Path, environ: Variables, *, shown: str | None, against: str | None) -> None:
    """Say that a manent.yml is good, also for what is live, or show one place's settings.

    Raises:
        ConfigurationError: With everything that is wrong.
    """
    house.demand_environment(environ)
    settings, host = house.read(path, environ)
    if shown is not None:
        sys.stdout.write(show(settings, shown) + "\n")
        return
    for name, why in sorted(host.broken.items()):
        sys.stderr.write(f"plugin {name} cannot be used: {why}\n")
    for words in unmatched(settings.access):
        sys.stderr.write(f"warning: {words}\n")
    if against is not None:
        comparing.demand_good(settings, host, against, environ)
    sys.stdout.write(f"{settings.path}: good\n")


def bring_up_to_date(
    path: Path,
    environ: Variables,
    *,
    patience: timedelta = _PATIENCE,
    stop: Callable[[], bool] = never,
) -> None:
    """Migrate the database and say what was applied.

    Args:
        path: manent.yml.
        environ: Variables it may name.
        patience: How long to wait for a database that does not answer, and for another process
            that migrates it.
        stop: Asked while waiting.
    """
    opened = house.open_house(path, environ)
    report = migrate.migrate(
        opened.engines, library=library(), patience=patience, stop=stop, finishes=True
    )
    done = [*report.applied, *(["engine"] if report.dbos else [])]
    sys.stdout.write("applied " + ", ".join(done) + "\n" if done else "nothing to do\n")


class Tokens:
    """Tokens of the server a manent.yml describes."""

    def __init__(self, path: Path, environ: Variables) -> None:
        self._house: House = house.open_house(path, environ)
        self._me = _me(environ)

    def create(self, request: TokenRequest) -> None:
        """Make one and print it, once."""
        made = self._with_tables(lambda desk: tokens.create(desk, request, caller=self._me))
        sys.stdout.write(f"{made['token']}\n")
        settings = self._house.settings
        for option, patterns, known in (
            ("--applications", made["applications"], settings.applications),
            ("--environments", made["environments"], settings.environments),
        ):
            for pattern in patterns:
                if not any(fnmatchcase(name, pattern) for name in known):
                    sys.stderr.write(f"warning: {option} {pattern} names none of manent.yml\n")

    def show(self) -> None:
        """List them without their text."""
        for row in self._with_tables(lambda desk: tokens.listing(desk, caller=self._me))["items"]:
            sys.stdout.write("  ".join(_words(row)) + "\n")
        for row in self._with_tables(lambda desk: sign_in.live(desk, caller=self._me))["items"]:
            words = (row["id"], row["name"], f"session by {row['source']}", row["expires_at"])
            sys.stdout.write("  ".join(words) + "\n")

    def revoke(self, token: str) -> None:
        """End one at once."""
        row = self._with_tables(lambda desk: self._revoked(desk, token))
        sys.stdout.write(f"{row['id']} revoked\n")

    def _revoked(self, desk: Desk, which: str) -> Mapping[str, Any]:
        try:
            return tokens.revoke(desk, which, caller=self._me)
        except NotFound:
            pass
        try:
            return sign_in.end(desk, which, caller=self._me)
        except NotFound as error:
            raise NotFound(
                f"there is no token or session {which[:40]!r}",
                next="manent-server token list shows their ids",
            ) from error

    def _with_tables(self, use: Callable[[Desk], _T]) -> _T:
        migrate.migrate(self._house.engines, library=library(), patience=_PATIENCE)
        return use(self._house.desk(dict))


def _me(environ: Variables) -> Caller:
    return access.local(environ.get("USER") or "root", socket.gethostname())


def _words(row: Mapping[str, Any]) -> tuple[str, ...]:
    """A token in one line: whose it is, what it may where, until when, when it was last used."""
    area = f"{','.join(row['applications'])} in {','.join(row['environments'])}"
    ended = "revoked" if row["revoked_at"] else row["expires_at"] or "never expires"
    used = f"last used {row['last_used_at']}" if row["last_used_at"] else "never used"
    return row["id"], row["name"], row["role"], area, f"{row['shown']}...", ended, used


def lasting(text: str, *, option: str = "--expires", such_as: str = "90d") -> timedelta:
    """The duration after an option.

    Raises:
        ConfigurationError: It is none.
    """
    try:
        return duration.parse(text)
    except ValueError as error:
        raise ConfigurationError(f"{option} {text}: {error}", next=f"such as {such_as}") from error
