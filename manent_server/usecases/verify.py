"""Verify: whether the record is what was chained, from its first number to its last."""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from manent_server.domain.audit import (
    CHECKPOINT,
    NO_BEGINNING,
    Break,
    Known,
    Link,
    Signed,
    Walk,
    parse,
)
from manent_server.store import audit
from manent_server.store.transaction import Store

_BATCH: Final = 5000
_FEW: Final = 5
_UNSIGNED: Final = timedelta(hours=2)
"""Twice as long as a server that signs leaves records unsigned: by their own instants."""
_SOON: Final = timedelta(minutes=5)
"""After a long stop, or once a restored database is open, a server has to begin first."""
Batch = Sequence[Sequence[Any]]
"""Values of links."""


@dataclass(frozen=True)
class Verified:
    """What was found.

    Attributes:
        records: The last number that was good; without gaps that is how many there are.
        hash: Of the last of them.
        waiting: Records that have no number yet: nothing vouches for them so far.
        checkpoints: How many signed places the chain has.
        gaps: Numbers, first and last, that a restored database has lost; a record states each.
        signed_to: The number up to which a trusted key has signed; None if no key is trusted.
        broken: The first place that is not; None if everything is.
    """

    records: int
    hash: str
    waiting: int
    checkpoints: int
    gaps: Sequence[tuple[int, int]]
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
    walk = Walk(known, signed, lambda number: _exactly(store, number))
    broken = _along(store, walk) or walk.end() or _beside(store)
    if broken is None and signed is not None and walk.number:
        broken = _unsigned(store, walk)
    with store.read() as tx:
        waiting = audit.waiting(tx)
    return Verified(
        records=walk.number,
        hash=walk.hash,
        waiting=waiting,
        checkpoints=walk.checkpoints,
        gaps=walk.gaps,
        signed_to=walk.signed_to,
        broken=broken,
    )


def _along(store: Store, walk: Walk) -> Break | None:
    for batch in _batches(store):
        broken = walk.along(batch)
        if broken is not None:
            return broken
    return None


def _batches(store: Store) -> Iterator[Batch]:
    """The chain; a server of its own reads the next batch while this one is checked."""
    batch = _read(store, 0)
    with store.read() as tx:
        is_here = tx.dialect == "sqlite"
    if is_here:
        # Two threads of this process would only take turns.
        while batch:
            yield batch
            batch = _read(store, batch[-1][0])
        return
    with ThreadPoolExecutor(1) as reader:
        while batch:
            ahead = reader.submit(_read, store, batch[-1][0])
            yield batch
            batch = ahead.result()


def _read(store: Store, after: int) -> Batch:
    with store.read() as tx:
        return audit.links(tx, after=after, limit=_BATCH)


def _exactly(store: Store, number: int) -> str:
    """How a text has to begin, by the columns themselves."""
    with store.read() as tx:
        found = audit.links(tx, after=number - 1, limit=1, exact=True)
    return Link(*found[0]).head if found else NO_BEGINNING


def _unsigned(store: Store, walk: Walk) -> Break | None:
    """A chain that nobody signs any more: whoever makes one anew leaves the signatures out."""
    first = (walk.signed_to or 0) + 1
    if walk.signed_to is not None:
        with store.read() as tx:
            last = min(walk.number, audit.number_at(tx, tx.now() - _SOON))
            after = _records(audit.links(tx, after=walk.signed_to, limit=_FEW))
            ends = after[:1] + _records(audit.links(tx, after=last - 1, limit=1))
        if last <= walk.signed_to or not after or _apart(ends) <= _UNSIGNED:
            return None
    detail = f"from number {first} on nothing is signed by a key that is trusted"
    return Break("unsigned", first, detail)


def _records(batch: Batch) -> list[Mapping[str, Any]]:
    """What they say, without the signatures among them."""
    found = [parse(str(Link(*values).text)) for values in batch]
    return [record for record in found if record["action"] != CHECKPOINT]


def _apart(records: Sequence[Mapping[str, Any]]) -> timedelta:
    """Between the first and the last, by what they say themselves."""
    try:
        instants = [datetime.fromisoformat(str(record["at"])) for record in records]
        return instants[-1] - instants[0]
    except (ValueError, TypeError):  # only force puts another kind of instant there
        return timedelta.max


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
