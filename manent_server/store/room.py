"""How many connections at once some of the work may have, so that others find one too."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import sqlalchemy as sa

from manent_server.store.engine import POOL_TIMEOUT


class Room:
    """Places for transactions; whoever finds none in time goes on as with a pool that is used up.

    Args:
        places: How many there are; None sets no limit.
        patience: How long one is waited for.
    """

    def __init__(self, places: int | None = None, *, patience: timedelta = POOL_TIMEOUT) -> None:
        self._patience = patience.total_seconds()
        self._places = None if places is None else threading.BoundedSemaphore(places)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Hold a place.

        Raises:
            sa.exc.TimeoutError: There was none in time.
        """
        if self._places is None:
            yield
            return
        if not self._places.acquire(timeout=self._patience):
            raise sa.exc.TimeoutError("no place for work in the background became free")
        try:
            yield
        finally:
            self._places.release()
