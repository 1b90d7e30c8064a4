"""The loops that tell sinks: one for each that is configured, under its own lease."""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from manent_server.usecases import sinks
from manent_server.usecases.deliver import Carrier, Courier
from manent_server.usecases.desk import Desk
from manent_server.worker.fleet import Fleet
from manent_server.worker.loops import Job

EVERY: Final = timedelta(milliseconds=500)


class Couriers(Fleet):
    """Begins with a sink when it comes into the configuration, ends when it goes.

    Args:
        desk: The collaborators.
        holder: Who holds the leases.
        carrier: How a sink is told.
        lasts: How long a lease lasts.
    """

    def __init__(
        self,
        desk: Desk,
        holder: str,
        carrier: Callable[[str], Carrier | None],
        *,
        lasts: timedelta,
    ) -> None:
        self._carrier = carrier
        super().__init__(desk, holder, self._sinks, self._courier, lasts=lasts)

    def _sinks(self) -> set[str]:
        return {sink.name for sink in sinks.known(self._desk)}

    def _courier(self, name: str) -> Job:
        def make(desk: Desk) -> Callable[[], object]:
            courier = Courier(desk, self._desk.store, name, lambda: self._carrier(name))
            courier.is_stopping = self._stopped.is_set
            return courier.round

        return Job(f"outbox:{name}", EVERY, make)
