"""Verify: whether the record is what was chained, from its first number to its last."""

from dataclasses import dataclass
from typing import Final

from manent_server.domain.audit import Break, Known, Link, Signed, Walk
from manent_server.store import audit
from manent_server.store.transaction import Store

_BATCH: Final = 5000


@dataclass(frozen=True)
class Verified:
    """What was found.

    Attributes:
        records: How many numbers were good, from the first on.
        hash: Of the last of them.
        waiting: Records that have no number yet: nothing vouches for them so far.
        checkpoints: How many signed places the chain has.
        signed_to: The number up to which a trusted key has signed; None if no key is trusted.
        broken: The first place that is not; None if everything is.
    """

    records: int
    hash: str
    waiting: int
    checkpoints: int
    signed_to: int | None
    broken: Break | None


def verify(store: Store, *, known: Known | None = None, signed: Signed | None = None) -> Verified:
    """Read the whole chain; memory does not grow with it, and nothing waits for it.

    Args:
        store: Where it is.
        known: A place of the chain that was kept elsewhere.
        signed: Asked about the signatures of checkpoints; None: they are only counted.

    Raises:
        Unavailable: The database does not answer.
    """
    walk = Walk(known, signed)
    broken = _along(store, walk) or walk.end() or _beside(store)
    with store.read() as tx:
        waiting = audit.waiting(tx)
    return Verified(walk.number, walk.hash, waiting, walk.checkpoints, walk.signed_to, broken)


def _along(store: Store, walk: Walk) -> Break | None:
    while True:
        with store.read() as tx:
            batch: list[Link] = list(audit.links(tx, after=walk.number, limit=_BATCH))
        for place in batch:
            broken = walk.step(place)
            if broken is not None:
                return broken
        if len(batch) < _BATCH:
            return None


def _beside(store: Store) -> Break | None:
    """What the chain does not name."""
    with store.read() as tx:
        stray = audit.stray(tx)
        if stray is not None:
            detail = f"the record {stray} is in no chain and waits for none: it was slipped in"
            return Break("extra", None, detail)
        gone = audit.vanished(tx)
    if gone is not None:
        return Break("missing", None, f"the record of entry {gone}, not numbered yet, is gone")
    return None
