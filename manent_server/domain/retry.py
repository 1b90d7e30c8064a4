"""When a failed step is tried again."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from manent_server.domain.order import Retry


@dataclass(frozen=True)
class Failure:
    """A counted failure: the how-manieth of its step, and what the hook asked for."""

    number: int
    is_retryable: bool
    retry_after: timedelta | None = None


def next_try(
    retry: Retry, failure: Failure, *, began_at: datetime, at: datetime
) -> datetime | None:
    """When the step may be tried again, or None: it has failed.

    Args:
        retry: The policy of the order.
        failure: The failure just recorded.
        began_at: When the step's first attempt was handed out.
        at: Now.
    """
    if not failure.is_retryable or failure.number >= retry.attempts:
        return None
    wait = failure.retry_after if failure.retry_after is not None else pause(retry, failure.number)
    due = at + wait
    return due if due <= began_at + retry.total else None


def pause(retry: Retry, failures: int) -> timedelta:
    """The wait after so many failures: `initial * factor ** (failures - 1)`, capped."""
    seconds = retry.initial.total_seconds()
    cap = retry.cap.total_seconds()
    for _ in range(failures - 1):
        seconds *= retry.factor
        if seconds >= cap:
            break
    return timedelta(seconds=min(seconds, cap))
