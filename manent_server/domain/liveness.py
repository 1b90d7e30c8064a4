"""Whether a worker is alive, and how long its rights last without news of it."""

from datetime import datetime, timedelta
from typing import Final

LEAST_MARGIN: Final = timedelta(seconds=1.5)
"""What scheduling, SIGKILL and the end of a process may take, and clocks that run unevenly."""
_SHARE: Final = 10
LOOP_HEARTBEATS: Final = 3


def is_lost(
    *,
    heartbeat_at: datetime,
    stopped_at: datetime | None,
    at: datetime,
    stale_after: timedelta,
) -> bool:
    """A stop is recorded, or no heartbeat arrived for `stale_after`."""
    return stopped_at is not None or at - heartbeat_at > stale_after


def lease_length(auto_recover_after: timedelta) -> timedelta:
    """How long a hook may act without a heartbeat, counted from before the last one was sent.

    Its processes are dead before others take over after `auto_recover_after`: the margin is a
    tenth of that, and never less than `LEAST_MARGIN`. Zero or less where that leaves no time.
    """
    return auto_recover_after - max(LEAST_MARGIN, auto_recover_after / _SHARE)


def attempt_lease(auto_recover_after: timedelta) -> timedelta | None:
    """The lease of an attempt; None, no end, while automatic recovery is off (zero)."""
    return lease_length(auto_recover_after) if auto_recover_after else None


def loop_lease(heartbeat_interval: timedelta, auto_recover_after: timedelta) -> timedelta:
    """How long the lease of a loop lasts: three heartbeats.

    With automatic recovery at most half of `auto_recover_after`, so that a holder that is lost
    keeps nobody from taking over.
    """
    lasts = LOOP_HEARTBEATS * heartbeat_interval
    return min(lasts, auto_recover_after / 2) if auto_recover_after else lasts
