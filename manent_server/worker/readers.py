"""The loops that read chats: one for each room that is configured, under its own lease."""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from manent_server.settings.chat import MATRIX
from manent_server.usecases.chats import Chats
from manent_server.usecases.desk import Desk
from manent_server.usecases.overhear import Overhearing
from manent_server.worker.fleet import Fleet
from manent_server.worker.loops import Job

EVERY: Final = timedelta(milliseconds=500)
_LONGEST: Final = timedelta(seconds=5)


class Readers(Fleet):
    """Reads each Matrix room while it is configured.

    Args:
        desk: The collaborators.
        holder: Who holds the leases.
        chats: Where the rooms are.
        lasts: How long a lease lasts.
    """

    def __init__(self, desk: Desk, holder: str, chats: Chats, *, lasts: timedelta) -> None:
        self._chats = chats
        # Well before the lease ends, which the next batch has to prolong.
        self._wait = min(_LONGEST, lasts / 3)
        super().__init__(desk, holder, self._rooms, self._reader, lasts=lasts)

    def _rooms(self) -> set[str]:
        chats = self._desk.settings().chat
        return {name for name, chat in chats.items() if chat.plugin == MATRIX}

    def _reader(self, name: str) -> Job:
        def make(desk: Desk) -> Callable[[], object]:
            return Overhearing(desk, self._chats, name, wait=self._wait).round

        return Job(f"chat:{name}", EVERY, make)
