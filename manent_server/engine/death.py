"""What to do when a guard ends without its last word: wait until nothing can act any more."""

import time
from datetime import timedelta

from manent_server.engine.handout import Errand
from manent_server.engine.leftover import is_dead
from manent_server.engine.run import LONG_WAIT, Parked, Run
from manent_server.store import work
from manent_server.store.transaction import Transaction

_POLL = timedelta(milliseconds=500)


def await_death(run: Run, errand: Errand) -> None:
    """Wait until the attempt is over, and kill what can be found of it meanwhile.

    Only a guard's last word says that the tree is dead. Without it the lease has to pass, which
    is no longer moved; a lease without an end is over when no process is left that has the lock
    file or carries the mark of the attempt.

    Raises:
        Parked: The lease goes on for longer than a dispatch may wait.
        Unwound: The worker ends, or the deploy is no longer this run's.
    """
    since = time.monotonic()
    while True:
        if is_dead(errand) and (
            errand.lease is None or not run.ask(lambda tx: _may_act(tx, errand))
        ):
            return
        if errand.lease is not None and time.monotonic() - since > LONG_WAIT.total_seconds():
            raise Parked(run.now() + LONG_WAIT, "lease")
        run.pause(_POLL)


def _may_act(tx: Transaction, errand: Errand) -> bool:
    attempt = work.read_attempt(tx, errand.id)
    return attempt is not None and work.may_act(attempt, at=tx.now())
