"""Refuse: what somebody was not let do is on record too, whoever floods us."""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from manent_server.domain.access import MANENT, Caller
from manent_server.domain.errors import ManentError, NotAllowed, NotSignedIn, Refused, Unavailable
from manent_server.domain.ration import Ration
from manent_server.store import records
from manent_server.store.records import Deed
from manent_server.store.transaction import Store, Transaction

_log = logging.getLogger(__name__)
ACTIONS: Final[Mapping[type[ManentError], str]] = {
    NotSignedIn: "access.signin_failed",
    NotAllowed: "access.refused",
    Refused: "access.policy_refused",
}
"""Which refusals are on record, and as what."""
UNKNOWN: Final = "unknown"
EACH: Final = 10
ALL: Final = 120
_WINDOW: Final = timedelta(minutes=1)
_PATIENCE: Final = timedelta(seconds=1)


def action_of(error: Exception) -> str | None:
    """As what a refusal is recorded, if it is."""
    return next((ACTIONS[kind] for kind in type(error).__mro__ if kind in ACTIONS), None)


@dataclass(frozen=True)
class Refusal:
    """Somebody was not let do something; the caller of a failed sign-in is unknown."""

    action: str
    caller: Caller | None
    address: str | None
    detail: Mapping[str, Any]

    @property
    def by(self) -> Caller:
        """Who is named for it."""
        return self.caller or Caller(UNKNOWN, (), address=self.address)


class Refusals:
    """The refusals of one process: some are written at once, the rest are counted.

    Args:
        store: Where the record is.
        clock: Seconds, never set back.
    """

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._ration = Ration(EACH, ALL, _WINDOW)
        self._lock = threading.Lock()

    def lets(self, refusal: Refusal) -> bool:
        """Whether it is written by itself; costs nothing."""
        source = f"{refusal.by.name} {refusal.address}"
        with self._lock:
            return self._ration.lets(refusal.action, source, at=self._clock())

    def write(self, refusal: Refusal) -> None:
        """Put it on record; an outage of the database keeps nobody from being refused."""
        self._write([Deed(refusal.by, refusal.action, detail=refusal.detail)])

    def flush(self) -> None:
        """Put on record how many more there were."""
        with self._lock:
            rest = self._ration.rest()
        if rest:
            self._write([Deed(MANENT, kind, detail={"more": n}) for kind, n in rest.items()])

    def _write(self, deeds: list[Deed]) -> None:
        def work(tx: Transaction) -> None:
            records.write_audits(tx, deeds, at=tx.now())

        try:
            self._store.repeat(work, patience=_PATIENCE)
        except Unavailable:
            named = ", ".join(sorted({deed.action for deed in deeds}))
            _log.warning("%d refusals are not on record: %s", len(deeds), named)
