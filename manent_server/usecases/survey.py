"""Survey: once a second, see whether something happened that nobody has acted on.

Who causes an event also admits after it; a process that dies in between leaves that undone. What
admission depends on is compared with what it was at the last one, which costs the same however
many deploys wait. Every minute all of them are looked at, whatever was seen.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from manent_server.store import marks, queue, workers
from manent_server.store.queue import Post
from manent_server.store.transaction import Transaction
from manent_server.usecases.desk import Desk

WHOLE = timedelta(minutes=1)


@dataclass(frozen=True)
class _Sight:
    """What the gates of an environment depend on, and what its places depend on."""

    gates: Hashable
    places: Hashable


@dataclass
class Survey:
    """Rounds of one process; a new one begins with a look at everything."""

    desk: Desk
    _seen: dict[str, _Sight] = field(default_factory=dict)
    _whole_at: datetime | None = None

    def round(self) -> None:
        """Admit where something has changed."""
        with self.desk.store.read() as tx:
            at = tx.now()
            sights = _sights(tx, at, self.desk.settings().recovery.stale_after)
        # Also where the database's clock was set back since.
        is_due = self._whole_at is None or not timedelta(0) <= at - self._whole_at < WHOLE
        for environment, sight in sights.items():
            before = None if is_due else self._seen.get(environment)
            if before == sight:
                continue
            is_same = before is not None and before.gates == sight.gates
            # Without a change of what gates depend on, only places are given.
            if self.desk.admission(environment, only=() if is_same else None):
                self._seen[environment] = sight
        if is_due:
            self._whole_at = at


def _sights(tx: Transaction, at: datetime, stale_after: timedelta) -> dict[str, _Sight]:
    posts = queue.posts(tx)
    if not posts:
        return {}
    binding = frozenset(mark.id for mark in marks.standing(tx, at=at) if mark.binds(at=at))
    taken: dict[str, list[str]] = {}
    for slot in queue.slots(tx):
        taken.setdefault(slot.environment, []).append(slot.deploy)
    crew = tuple(
        (one.id, one.incarnation, *one.pools)
        for one in workers.alive(tx, stale_after=stale_after, at=at)
    )
    return {post.environment: _sight(post, binding, taken, crew) for post in posts}


def _sight(post: Post, binding: Hashable, taken: dict[str, list[str]], crew: Hashable) -> _Sight:
    slots = tuple(taken.get(post.environment, ()))
    return _Sight(
        (post.delayed and binding, post.revision),
        (post.concurrency, post.next_ticket, slots, crew),
    )
