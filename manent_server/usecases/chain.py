"""The chainer: committed records get their numbers, without a hole, and the hash of all before."""

from datetime import timedelta
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
    """

    def __init__(self, desk: Desk, signer: Signer | None = None) -> None:
        self._desk = desk
        self._signer = signer

    def round(self) -> None:
        """Chain what was committed since the last round."""
        with self._desk.store.read() as tx:
            if not audit.has_waiting(tx):
                return
        chain(self._desk)
        if self._signer is not None:
            self._checkpoint(self._signer)

    def _checkpoint(self, signer: Signer) -> None:
        """Put on record, signed, which hash the last number has, if that is due."""

        def work(tx: Transaction) -> None:
            number, last = audit.head(tx)
            found = audit.last_checkpoint(tx)
            at = tx.now()
            if found is not None and not _is_due(found, number, at - found.at):
                return
            signature = signer.sign(rules.seal(number, last, rules.instant(at)))
            detail: dict[str, Any] = {"number": number, "hash": last}
            detail |= {"key": signer.name, "signature": signature}
            audit.write_audit(tx, Deed(MANENT, rules.CHECKPOINT, detail=detail), at=at)

        self._desk.store.once(work)


def _is_due(last: audit.Checkpoint, number: int, age: timedelta) -> bool:
    # Its own record is one of the new ones.
    new = number - last.number - 1
    return new >= _RECORDS or (new > 0 and age >= _AGE)


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
