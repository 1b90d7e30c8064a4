"""What `manent-server admin restore` does, over HTTP or on the database itself."""
# ruff: noqa: PLC0415 - the way over HTTP needs nothing of the server

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from manent_cli.asking import ask
from manent_cli.session import Session
from manent_server.cli.operator import Operator, show
from manent_server.domain.access import Caller
from manent_server.domain.errors import ConfigurationError

if TYPE_CHECKING:
    from manent_server.bootstrap.house import House
    from manent_server.usecases.desk import Desk

_PATH = "/admin/restore"
_LONG = 90.0
"""Seconds: targets are asked meanwhile."""


class Restoring:
    """One command about a restored database."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator

    def listing(self, deploys: Sequence[str], *, observes: bool, lost_after: str | None) -> None:
        """Print whether nothing begins and why, and what is known of what is to be decided.

        Args:
            deploys: Which; all if none is named.
            observes: Have their targets asked.
            lost_after: The page of lost ones that comes after this one.
        """

        def on_desk(desk: "Desk", caller: Caller) -> Any:
            from manent_server.usecases import review
            from manent_server.usecases.requests import RestoreLook

            look = RestoreLook(tuple(deploys), observes, lost_after)
            return review.review(desk, look, caller=caller)

        query = {"deploy": list(deploys), "observe": str(observes).lower()}
        query |= {"lost_after": lost_after} if lost_after is not None else {}

        def over_http(session: Session) -> Any:
            return session.client.get(_PATH, query, timeout=_LONG)

        show(self._asked(over_http, on_desk))

    def decide(self, decision: str, body: Mapping[str, Any], *, is_sure: bool = True) -> None:
        """Say what is to become of deploys.

        Args:
            decision: `resume`, `close` or `cancel`.
            body: As the API takes it.
            is_sure: It is done without asking; else a person at a terminal is asked first.
        """
        if bool(body["deploys"]) == body["all"]:
            raise ConfigurationError(
                "either deploys are to be named, or --all",
                next="manent-server admin restore list shows them",
            )
        if body["all"] and not is_sure:
            _demand_yes(decision)

        def on_desk(desk: "Desk", caller: Caller) -> Any:
            from manent_server.usecases import restore
            from manent_server.usecases.requests import RestoreRequest

            values = {"is_all": body["all"], "outcome": body.get("outcome")}
            why = self._operator.told(body["reason"])
            request = RestoreRequest(decision, body["deploys"], reason=why, **values)
            return restore.decide(desk, request, caller=caller)

        given = {name: value for name, value in body.items() if value is not None}
        show(self._asked(lambda session: ask(session, f"{_PATH}/{decision}", given), on_desk))

    def open_up(self, *, force: bool, reason: str | None) -> None:
        """Let everything begin again."""

        def on_desk(desk: "Desk", caller: Caller) -> Any:
            from manent_server.usecases import restore
            from manent_server.usecases.requests import OpenRequest

            why = self._operator.told(reason)
            return restore.open_up(desk, OpenRequest(force, why), caller=caller)

        given = {"force": force, **({"reason": reason} if reason else {})}
        show(self._asked(lambda session: ask(session, f"{_PATH}/open", given), on_desk))

    def _asked(
        self, over_http: Callable[[Session], Any], on_desk: Callable[["Desk", Caller], Any]
    ) -> Any:
        return self._operator.asked(over_http, on_desk, prepare=_observing)


def _observing(house: "House") -> "Desk":
    """The desk of one who may decide while nothing else may change anything."""
    from manent_server.bootstrap import crew

    return house.desk(dict, observer=crew.observer(house))


def _demand_yes(decision: str) -> None:
    """Ask the person at the terminal.

    Raises:
        ConfigurationError: There is none, or the answer is no.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise ConfigurationError(
            f"restore {decision} --all ends every undecided deploy and asks first",
            next="give --yes where nobody can be asked",
        )
    sys.stderr.write(f"{decision} every undecided deploy? [y/N] ")
    sys.stderr.flush()
    if os.read(sys.stdin.fileno(), 16).strip().lower() not in (b"y", b"yes"):
        raise ConfigurationError("nothing was done", next="give --yes to do it unasked")
