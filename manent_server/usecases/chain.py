"""The chainer: committed records get their numbers, without a hole, and the hash of all before."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

from manent_server.domain import audit as rules
from manent_server.domain.access import MANENT
from manent_server.store import audit
from manent_server.store.audit import Deed
from manent_server.store.transaction import Transaction
from manent_server.usecases.desk import Desk

_BATCH: Final = 1000
_RECORDS: Final = 1000
_AGE: Final = timedelta(hours=1)


class Signer(Protocol):
    """Somebody whose signature is known by a name."""

    name: str

    def sign(self, text: str) -> str:
        """The signature of a text."""


class Chainer:
    """Chains, and signs where the chain is now and then.

    Args:
        desk: The collaborators; each writing transaction asks for the lease.
        signer: Who signs; None for nobody.
        clock: Seconds, never set back.
    """

    def __init__(
        self, desk: Desk, signer: Signer | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._desk = desk
        self._signer = signer
        self._clock = clock
        self._signs_at: float | None = None
        self._seen_to = -1

    def is_due(self, head: int) -> bool:
        """Whether a place is to be signed now, though nothing new was written.

        Args:
            head: The last number. One that is not known here was given by whoever chained before,
                and left unsigned perhaps.
        """
        if self._signer is None:
            return False
        has_come = self._signs_at is not None and self._clock() >= self._signs_at
        return has_come or head > self._seen_to

    def round(self) -> None:
        """Chain what was committed since the last round."""
        with self._desk.store.read() as tx:
            is_waiting = audit.has_waiting(tx)
            head, _ = audit.head(tx)
        if is_waiting:
            chain(self._desk)
        if self._signer is not None and (is_waiting or self.is_due(head)):
            self._seen_to, wait = self._checkpoint(self._signer)
            self._signs_at = None if wait is None else self._clock() + wait.total_seconds()

    def _checkpoint(self, signer: Signer) -> tuple[int, timedelta | None]:
        """Put on record, signed, which hash the last number has, if that is due.

        Returns:
            The last number, and when it will be; None: not before something is written.
        """

        def work(tx: Transaction) -> tuple[int, timedelta | None]:
            number, last = audit.head(tx)
            found = audit.last_checkpoint(tx)
            at = tx.now()
            wait = _wait(found, number, at)
            if wait is None or wait > timedelta(0):
                return number, wait
            signature = signer.sign(rules.seal(number, last, rules.instant(at)))
            detail: dict[str, Any] = {"number": number, "hash": last}
            detail |= {"key": signer.name, "signature": signature}
            audit.write_audit(tx, Deed(MANENT, rules.CHECKPOINT, detail=detail), at=at)
            return number, None

        return self._desk.store.once(work)


def _wait(last: audit.Checkpoint | None, number: int, at: datetime) -> timedelta | None:
    """How long until the chain up to a number is to be signed; None: there is nothing new."""
    # Its own record is one of the new ones.
    new = number - (last.number + 1 if last is not None else 0)
    if new <= 0:
        return None
    if last is None or new >= _RECORDS or at < last.at:  # the last one by a clock set back since
        return timedelta(0)
    return max(timedelta(0), _AGE - (at - last.at))


def chain(desk: Desk) -> None:
    """Give numbers to all that waits for one."""
    count = _BATCH
    while count == _BATCH:
        count, number = desk.store.once(_chained)
        # Known from now on: a database that is read in without them has gone back.
        desk.store.watermark.numbered(number)


def _chained(tx: Transaction) -> tuple[int, int]:
    """How many records got a number, and the last number there is."""
    count = audit.chain(tx, limit=_BATCH)
    return count, audit.head(tx)[0]
