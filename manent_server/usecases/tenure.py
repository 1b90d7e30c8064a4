"""Tenure: a lease as one process has it, or has not."""

import logging
import time
from datetime import timedelta

from manent_server.domain.errors import Unavailable
from manent_server.store import workers
from manent_server.store.transaction import Store, Transaction
from manent_server.store.workers import Lease, LeaseLost

_log = logging.getLogger(__name__)


class Tenure:
    """One lease as this process has it, or has not.

    Args:
        store: Where the lease is.
        name: Of the lease.
        holder: Who asks for it.
        lasts: How long it lasts.
    """

    def __init__(self, store: Store, name: str, holder: str, *, lasts: timedelta) -> None:
        self._store = store
        self._name = name
        self._holder = holder
        self._lasts = lasts
        self._lease: Lease | None = None
        self._renew_at = 0.0

    def take(self) -> bool:
        """Whether the lease is ours; taken or prolonged when a third of it has passed."""
        if self._lease is not None and time.monotonic() < self._renew_at:
            return True  # each batch asks again
        began = time.monotonic()

        def take(tx: Transaction) -> Lease | None:
            return workers.take_lease(tx, self._name, self._holder, lasts=self._lasts, at=tx.now())

        self._lease = self._store.once(take)
        self._renew_at = began + self._lasts.total_seconds() / 3
        return self._lease is not None

    def demand(self, tx: Transaction) -> None:
        """What every batch begins with; a long round prolongs the lease on its way.

        Raises:
            LeaseLost: Another may act by now.
        """
        lease = self._lease
        if lease is None:
            raise LeaseLost(f"the lease {self._name} is not held", next="another process goes on")
        began = time.monotonic()
        prolongs = began >= self._renew_at
        workers.demand_lease(tx, lease, lasts=self._lasts, prolongs=prolongs)
        if prolongs:
            self._renew_at = began + self._lasts.total_seconds() / 3

    def lose(self) -> None:
        """Ask anew before the next round."""
        self._lease = None

    def give_up(self) -> None:
        """End it early, so that another process need not wait for its end."""
        lease, self._lease = self._lease, None
        if lease is None:
            return
        try:
            self._store.repeat(
                lambda tx: workers.give_up_lease(tx, lease), patience=timedelta(seconds=1)
            )
        except Unavailable:
            _log.info("the lease %s ends by itself", lease.name)
