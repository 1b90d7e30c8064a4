"""What each exit code of `manent` means: a promise to every script that calls it."""

from collections.abc import Mapping
from typing import Any, Final

OK: Final = 0
ERROR: Final = 1
USAGE: Final = 2
FAILED: Final = 3
DENIED: Final = 4
REFUSED: Final = 5
NOT_FOUND: Final = 6
TIME_OVER: Final = 7
UNAPPROVED: Final = 8
CANCELLED: Final = 9
CHANGES: Final = 10
SUPERSEDED: Final = 11
EXPIRED: Final = 12
PARTIAL: Final = 13
INTERRUPTED: Final = 130

MEANING: Final[Mapping[int, str]] = {
    OK: "done; for a deploy: it ended SUCCESS with the version that was asked for",
    ERROR: "any other error: the server cannot be reached, it failed, or its answer makes no sense",
    USAGE: "wrong usage or configuration: an option, a name, a body the server cannot accept",
    FAILED: "the deploy ended ERROR, also when its rollback worked",
    DENIED: "not signed in, or not allowed",
    REFUSED: "refused or rejected by policy",
    NOT_FOUND: "the named thing does not exist",
    TIME_OVER: "the waiting time is over; the deploy goes on",
    UNAPPROVED: "`--no-wait-approval`: the deploy waits for approval, and goes on when it has it",
    CANCELLED: "the deploy was cancelled or abandoned",
    CHANGES: "`plan --exit-code`: the deploy would change something",
    SUPERSEDED: "the deploy was superseded by a later one",
    EXPIRED: "the deploy could not start in time and expired",
    PARTIAL: "the deploy ended SUCCESS with targets left out by a person",
    INTERRUPTED: "interrupted at the keyboard or by a signal; the deploy goes on",
}

ENDED: Final = frozenset({"SUCCESS", "ERROR", "CANCELLED"})

# Only what stands here is a success: an outcome this client does not know is none.
_OUTCOMES: Final[Mapping[tuple[str, str], int]] = {
    ("SUCCESS", "deployed"): OK,
    ("SUCCESS", "partial"): PARTIAL,
    ("CANCELLED", "rejected"): REFUSED,
    ("CANCELLED", "superseded"): SUPERSEDED,
    ("CANCELLED", "expired"): EXPIRED,
}
_STATES: Final[Mapping[str, int]] = {"ERROR": FAILED, "CANCELLED": CANCELLED}
_STATUSES: Final[Mapping[int, int]] = {
    400: USAGE,
    401: DENIED,
    403: DENIED,
    404: NOT_FOUND,
    409: REFUSED,
    422: USAGE,
}


def of_deploy(deploy: Mapping[str, Any], *, asked: str | None = None) -> int:
    """The code of an ended deploy.

    Args:
        deploy: The deploy as the server gives it.
        asked: The version that was asked for, where one was.
    """
    state = str(deploy.get("state"))
    code = _OUTCOMES.get((state, str(deploy.get("outcome"))), _STATES.get(state, ERROR))
    if code == OK and asked is not None and deploy.get("version") != asked:
        return ERROR
    return code


def awaits_approval(deploy: Mapping[str, Any]) -> bool:
    """Whether people are asked to approve it, or are about to be."""
    return deploy.get("phase") in {"resolving", "awaiting_approval"}


def of_status(status: int) -> int:
    """The code of a request the server answered with this HTTP status."""
    return _STATUSES.get(status, ERROR)


def has_ended(deploy: Mapping[str, Any]) -> bool:
    """Whether this deploy will never change again."""
    return deploy.get("state") in ENDED
