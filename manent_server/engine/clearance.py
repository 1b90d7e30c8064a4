"""The one condition that keeps hooks apart: nothing of an earlier attempt can act any more.

A hand-out and a close ask it alike. An attempt is over when its end is recorded, which whoever
knows its processes dead has done, or when its lease has passed by the database's clock.
"""

from collections.abc import Sequence
from datetime import datetime

from manent_server.store import work, workers
from manent_server.store.transaction import Transaction
from manent_server.store.work import Attempt


def clear(tx: Transaction, earlier: Sequence[Attempt], *, at: datetime) -> list[Attempt]:
    """End the open attempts whose lease has passed, if none of them may still be at work.

    Returns:
        Those that may, which somebody holds or whose lease goes on; then nothing was ended.
    """
    standing = [attempt for attempt in earlier if work.may_act(attempt, at=at)]
    if standing or not earlier:
        return standing
    # Read again under their locks: a heartbeat may be about to move a lease.
    taken = {attempt.id: attempt for attempt in work.lock_attempts(tx, [a.id for a in earlier])}
    standing = [
        attempt
        for attempt in earlier
        if attempt.id not in taken or work.may_act(taken[attempt.id], at=at)
    ]
    if standing:
        return standing
    for attempt in taken.values():
        if attempt.ended_at is None:
            _end(tx, attempt)
    return []


def until(standing: Sequence[Attempt]) -> datetime | None:
    """When the last of these leases ends; None if one has no end."""
    ends = [attempt.lease_until for attempt in standing]
    known = [end for end in ends if end is not None]
    return max(known, default=None) if len(known) == len(ends) else None


def _end(tx: Transaction, attempt: Attempt) -> None:
    died = attempt.died
    if died is None:
        died = workers.has_died(tx, attempt.executor, attempt.incarnation)
    message = f"{attempt.executor} was lost, and its lease has passed"
    work.end_lost(tx, attempt.id, died=died, message=message)
