"""What `manent-server admin` does: asks the API, or the database where no API is up."""
# ruff: noqa: PLC0415 - the way over HTTP needs nothing of the server

import json
import os
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manent_cli import exit_codes
from manent_cli.asking import ask
from manent_cli.client import Client, segment
from manent_cli.errors import Failure
from manent_cli.profile import resolve
from manent_cli.session import Session
from manent_cli.table import draw, field
from manent_server.domain import access
from manent_server.domain.access import Caller
from manent_server.domain.errors import ConfigurationError, Conflict, NotFound

if TYPE_CHECKING:
    from manent_server.bootstrap.house import House
    from manent_server.usecases.desk import Desk

_SHOWN = ("id", "alive", "version", "build", "heartbeat_at", "running", "pending", "recovered_by")
_LONG = 24 * 3600.0
_COLUMNS = tuple(map(field, _SHOWN))


class Operator:
    """One command of an operator."""

    def __init__(self, path: Path, environ: Mapping[str, str], *, is_local: bool) -> None:
        self._path = path
        self._environ = environ
        self._is_local = is_local
        self._opened: House | None = None

    def executors(self, form: str) -> None:
        """Print the registry."""
        if form not in ("json", "table"):
            raise ConfigurationError(f"--output {form} is no form", next="json or table")

        def on_desk(desk: "Desk", caller: Caller) -> Any:
            from manent_server.usecases import executors

            return executors.executors(desk, caller=caller)

        found = self.asked(lambda session: session.client.get("/admin/executors"), on_desk)
        rows = [_without_nothing(row) for row in found["executors"]]
        if form == "table":
            sys.stdout.write(draw(_COLUMNS, map(_flat, rows)))
        else:
            show({"version": found["version"], "executors": rows})

    def forget(self, executor: str) -> None:
        """Take a worker out of the registry."""
        route = f"/admin/executors/{segment(executor, what='executor')}"

        def on_desk(desk: "Desk", caller: Caller) -> Any:
            from manent_server.usecases import executors

            return executors.forget(desk, executor, caller=caller)

        show(self.asked(lambda session: session.client.delete(route), on_desk))

    def recover(self, body: Mapping[str, Any]) -> None:
        """Take over from a lost worker, and say what that rests on."""

        def on_desk(desk: "Desk", caller: Caller) -> Any:
            from manent_server.usecases import recover
            from manent_server.usecases.requests import RecoverRequest

            request = RecoverRequest(**{**body, "reason": self.told(body["reason"])})
            return recover.recover(desk, request, caller=caller)

        found = self.asked(lambda session: ask(session, "/admin/recover", body), on_desk)
        show(found)
        if found.get("rests_on"):
            verb = "would rest" if found["dry_run"] else "rests"
            sys.stderr.write(f"this {verb} on {found['rests_on']}\n")

    def prune(self, body: Mapping[str, Any]) -> None:
        """Delete old history, or say what would be deleted."""

        def on_desk(desk: "Desk", caller: Caller) -> Any:
            from manent_server.domain import duration
            from manent_server.retention import prune
            from manent_server.usecases.requests import PruneRequest

            age = body.get("max_age")
            values = {**body, "max_age": duration.parse(age) if age else None}
            return prune.prune(desk, PruneRequest(**values), caller=caller)

        given = {name: value for name, value in body.items() if value is not None}

        def over_http(session: Session) -> Any:
            # As long as it takes: asked again it would only hear that one is at work.
            key = os.urandom(16).hex()
            return session.client.post("/admin/prune", given, key=key, timeout=_LONG)

        show(self.asked(over_http, on_desk))

    def reload(self, reason: str | None, form: str) -> None:
        """Ask every process for a reload, and say what comes of it."""
        if form != "json":
            raise ConfigurationError(f"--output {form} is no form", next="json")

        def on_desk(desk: "Desk", caller: Caller) -> Any:
            from manent_server.usecases import reload

            return reload.reload(desk, self.told(reason), caller=caller)

        given = {"reason": reason} if reason else {}
        show(
            self.asked(
                lambda session: ask(session, "/admin/reload", given),
                on_desk,
                # Nothing begins by it: also while the database is fenced.
                prepare=lambda house: replace(house.desk(dict), prospect=house.own_prospect),
            )
        )

    def asked(
        self,
        over_http: Callable[[Session], Any],
        on_desk: Callable[["Desk", Caller], Any],
        *,
        prepare: Callable[["House"], "Desk"] | None = None,
    ) -> Any:
        """The answer; a refusal ends the process with its own exit code.

        Args:
            over_http: Asks the API.
            on_desk: Asks the use case, as whoever sits here.
            prepare: Makes the desk; else one that may change nothing while the database is
                fenced.
        """
        try:
            if not self._is_local:
                return over_http(self._session())
            from manent_server.bootstrap import crew, house

            self._opened = opened = house.open_house(self._path, self._environ)
            # No server may have looked yet whether it went back in time.
            crew.glance(opened)
            desk = prepare(opened) if prepare else opened.desk(dict).opened()
            return on_desk(desk, self._me())
        except Failure as failure:
            _complain(failure.what, failure.why, failure.next)
            raise SystemExit(failure.exit_code) from None
        except (Conflict, NotFound) as error:
            _complain(error.detail, "", error.next)
            raise SystemExit(_code(error)) from None

    def told(self, words: str | None) -> str | None:
        """What somebody wrote, as the API would store it: without a secret that is known here."""
        return self._opened.redactor.redact(words) if words and self._opened else words

    def _session(self) -> Session:
        """The API that MANENT_URL names, else that of manent.yml, as whom `manent` would ask."""
        url = self._environ.get("MANENT_URL") or self._configured_url()
        chosen = resolve(self._environ, url=url)
        if not chosen.token:
            raise Failure(
                f"there is no token for {chosen.url}",
                next="set MANENT_TOKEN, or work on the database itself with --local",
                code="not_signed_in",
                exit_code=exit_codes.DENIED,
            )
        session = Session(self._environ, sys.stdout, sys.stderr)
        session.client = Client(
            chosen.url, chosen.token, environ=self._environ, context=chosen.token_of
        )
        return session

    def _configured_url(self) -> str | None:
        if not self._path.exists():
            return None
        from manent_server.bootstrap import house

        return house.read(self._path, self._environ)[0].server.url

    def _me(self) -> Caller:
        user = self._environ.get("USER") or "root"
        return access.local(user, socket.gethostname())


def _without_nothing(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row whose `pending` is one cell; its id says where the registry does not know it."""
    pending = ", ".join(f"{count} of {name}" for name, count in row.get("pending", {}).items())
    name = row["id"] if row["registered"] else f"{row['id']} (not registered)"
    return {**row, "id": name, "pending": pending}


def _code(error: Conflict | NotFound) -> int:
    return exit_codes.REFUSED if isinstance(error, Conflict) else exit_codes.NOT_FOUND


def show(found: Any) -> None:
    """Print an answer as JSON."""
    sys.stdout.write(json.dumps(found, indent=2, ensure_ascii=False) + "\n")


def _complain(what: str, why: str, advice: str) -> None:
    sys.stderr.write(f"manent-server: {what}{f' ({why})' if why else ''}\n")
    if advice:
        sys.stderr.write(f"next: {advice}\n")
