"""Attempts of this worker whose end it could not record: they are ended once that is possible.

A restart ends what an earlier start left, a lease ends with its time. Neither comes where this
worker lives on and leases have no end: its place would stay taken by an attempt nobody looks at.
"""

import threading
from pathlib import Path

from manent_server.engine.handout import Errand
from manent_server.plugins import lockfile, processes
from manent_server.plugins.processes import Mark
from manent_server.store import deploys, work
from manent_server.store.transaction import Store

_NO_SESSION = -1


def is_dead(errand: Errand) -> bool:
    """Whether nothing of the attempt lives here; what can be found of it is killed."""
    left = processes.marked(Mark(_NO_SESSION, errand.id, errand.lock_file))
    processes.kill(left)
    return not left and lockfile.is_free(Path(errand.lock_file))


class Leftovers:
    """What is left to be ended; safe from several threads."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._errands: dict[str, Errand] = {}

    def add(self, errand: Errand) -> None:
        """Its call is over, whatever became of its end."""
        with self._guard:
            self._errands[errand.id] = errand

    def settle(self, store: Store) -> None:
        """End those whose processes are dead, the others another time.

        An end that was recorded all the same stays as it is.
        """
        with self._guard:
            waiting = list(self._errands.values())
        for errand in waiting:
            if not is_dead(errand):
                continue
            with store.write() as tx:
                deploys.lock(tx, errand.deploy.id)
                message = "its worker could not record how it ended"
                work.end_lost(tx, errand.id, died=False, message=message)
            with self._guard:
                del self._errands[errand.id]
            Path(errand.lock_file).unlink(missing_ok=True)
