"""Whether a worker is alive, by the database's clock."""

from datetime import datetime, timedelta


def is_lost(
    *,
    heartbeat_at: datetime,
    stopped_at: datetime | None,
    at: datetime,
    stale_after: timedelta,
) -> bool:
    """A stop is recorded, or no heartbeat arrived for `stale_after`."""
    return stopped_at is not None or at - heartbeat_at > stale_after
