"""A worker that cannot begin hooks: after a few tries another one of the pool may go on.

Its disk is full perhaps, or it may have no more processes. A try that begins nothing costs nothing,
so the deploy would stay there up to its deadline while others have all they need.
"""

from typing import Final

from manent_server.engine.handout import is_current
from manent_server.engine.run import Run
from manent_server.engine.shop import Unwound
from manent_server.plugins.runner import HookEnd
from manent_server.store import deploys, logs, work
from manent_server.store.logs import Origin
from manent_server.store.transaction import Transaction

TRIES: Final = 5
"""From this attempt of a step on, one that was not begun is the last one here."""

ALLOWED: Final = "allowed"
"""The code of one that was not begun for another reason: it was expected to be refused."""


def leave(run: Run, end: HookEnd, attempt: int) -> None:
    """Put the deploy back if a hook of it could not be begun, and not for the first time.

    Args:
        run: On this worker.
        end: How the newest attempt of a step ended; that is recorded.
        attempt: Its number.

    Raises:
        Unwound: It was put back: whichever worker is free goes on.
    """
    error = end.error or {}
    if end.result != "not_started" or attempt < TRIES or error.get("code") == ALLOWED:
        return
    message = error.get("message", "")
    run.logbook.flush()
    is_gone = run.shop.store.repeat(
        lambda tx: _put_back(tx, run, message), stop=run.shop.lifeline.is_cut
    )
    if is_gone:
        raise Unwound(run.deploy.id)


def _put_back(tx: Transaction, run: Run, message: str) -> bool:
    """False while another hook of the deploy is at work here: it would be killed."""
    row = deploys.lock(tx, run.deploy.id)
    if row is None or not is_current(row, run.deploy):
        return True
    place = (row.environment, row.application)
    if any(attempt.deploy == row.id for attempt in work.open_attempts(tx, place=place)):
        return False
    words = f"{run.shop.identity.executor} cannot begin its hook, another worker may: {message}"
    logs.append_to_each(tx, [row], Origin(None, None, "manent", "warning", None), words)
    run.shop.dispatcher.hand_back(tx, row)
    return True
