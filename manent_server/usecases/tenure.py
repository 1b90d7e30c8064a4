"""Tenure: a lease as one process has it, or has not."""

import logging
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from manent_server.domain.errors import Unavailable
from manent_server.store import workers
from manent_server.store.transaction import Store, Transaction
from manent_server.store.workers import Lease, LeaseLost, Term

_log = logging.getLogger(__name__)


class Vigil:
    """Watches a lease of another's that ends later than any that could be given now.

    Its end was drawn by a clock of the database that has been set back since, and may be days
    away. Whoever lives prolongs it. What nobody has prolonged for twice as long as it lasts, by
    the clock of this process, is nobody's; each batch of a holder that only slept finds out.
    """

    def __init__(self, lasts: timedelta, clock: Callable[[], float] = time.monotonic) -> None:
        self._lasts = lasts
        self._clock = clock
        self._seen: Term | None = None
        self._since = 0.0

    def see(self, found: Term | None, *, at: datetime) -> None:
        """How the lease stands, as the database said it at `at`."""
        if found is None or found[1] - at <= 2 * self._lasts:
            self._seen = None
        elif found != self._seen:
            self._seen, self._since = found, self._clock()

    @property
    def overdue(self) -> Term | None:
        """The term that has ended, whatever the database's clock says."""
        is_over = self._clock() - self._since > 2 * self._lasts.total_seconds()
        return self._seen if is_over else None


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
        self._vigil = Vigil(lasts)

    def take(self) -> bool:
        """Whether the lease is ours; taken or prolonged when a third of it has passed."""
        if self._lease is not None and time.monotonic() < self._renew_at:
            return True  # each batch asks again
        began = time.monotonic()

        def take(tx: Transaction) -> Lease | None:
            return take_watched(tx, self._name, self._holder, self._lasts, self._vigil)

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


def take_watched(
    tx: Transaction, name: str, holder: str, lasts: timedelta, vigil: Vigil
) -> Lease | None:
    """Take or prolong a lease, also one whose end a clock has put out of reach."""
    at = tx.now()
    overdue = vigil.overdue
    lease = workers.take_lease(tx, name, holder, lasts=lasts, at=at, overdue=overdue)
    vigil.see(workers.term(tx, name) if lease is None else None, at=at)
    if lease is not None and overdue is not None:
        _log.warning("the lease %s was another's until %s; nobody has kept it", name, overdue[1])
    return lease
