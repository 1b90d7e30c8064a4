"""The first request of a command, repeated for a while when the server cannot be reached."""

import os
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from manent_cli import exit_codes
from manent_cli.client import segment
from manent_cli.errors import Failure, Interrupted, Problem
from manent_cli.pace import Deadline, insist
from manent_cli.session import Session

_T = TypeVar("_T")
_KEY = re.compile(r"[!-~]([ -~]{0,253}[!-~])?")


def ask(
    session: Session,
    path: str,
    body: Mapping[str, Any],
    *,
    key: str | None = None,
    deadline: Deadline | None = None,
) -> Any:
    """The answer to a POST: one run of a command is one key, so one request.

    Args:
        session: The run.
        path: The route, below `/api/v1`.
        body: The request.
        key: The idempotency key; made up when not given.
        deadline: When to stop trying, if that is sooner than usual.

    Raises:
        Failure: The last one; where the request may have arrived, `next` says how to find out.
            Or the key is none; an empty one too, which stands for a variable nobody has set.
    """
    used = os.urandom(16).hex() if key is None else _checked(key)
    pace = session.pace
    limit = pace.post if deadline is None else deadline.left(pace.post)

    try:
        return insist(
            lambda timeout: session.client.post(path, body, key=used, timeout=timeout),
            pace=pace,
            deadline=Deadline(pace, limit),
            trouble=_told(session),
        )
    except Failure as failure:
        if not isinstance(failure, Problem):
            failure.next = f"{failure.next}; {_again(used)}" if failure.next else _again(used)
        raise
    except KeyboardInterrupt as error:
        raise Interrupted("interrupted before the server answered", next=_again(used)) from error


def _checked(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise Failure(
            f"--key {key!r:.80} is no idempotency key",
            next="give 1 to 255 printable ASCII characters, no blank first or last",
            code="key_invalid",
            exit_code=exit_codes.USAGE,
        )
    return key


def find(session: Session, address: str, *, deadline: Deadline | None = None) -> dict[str, Any]:
    """The deploy of this address; what follows it uses the whole id.

    Args:
        session: The run.
        address: Its id, a beginning of it, or its number in its environment.
        deadline: When to stop trying, if that is sooner than usual.
    """
    path = f"/deploys/{segment(address)}"
    return _read(
        session, lambda timeout: session.client.get_deploy(path, timeout=timeout), deadline
    )


def look(session: Session, path: str, query: Mapping[str, Any] | None = None) -> Any:
    """The answer to a GET.

    Args:
        session: The run.
        path: The route, below `/api/v1`.
        query: What it is asked with.
    """
    return _read(session, lambda timeout: session.client.get(path, query, timeout=timeout))


def _read(session: Session, call: Callable[[float], _T], deadline: Deadline | None = None) -> _T:
    pace = session.pace
    limit = pace.post if deadline is None else deadline.left(pace.post)
    return insist(call, pace=pace, deadline=Deadline(pace, limit), trouble=_told(session))


def _told(session: Session) -> Callable[[Failure], None]:
    told: set[str] = set()

    def tell(failure: Failure) -> None:
        text = f"{failure.what}: {failure.why or failure.code}; trying again"
        if text not in told:
            told.add(text)
            session.talk.say(text, colour="yellow")

    return tell


def _again(key: str) -> str:
    return f"the request may have arrived: the same command with --key {key} never asks twice"
