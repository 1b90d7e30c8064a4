"""Events: what happened, told to whoever listens, after it is stored.

Each deed of the record is an event, unless it is nobody's business outside of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from manent_server.domain.marks import Sort

# The record alone knows who gets in, of the configuration, of what was refused and of itself,
# and of each of the thousands of batches that a prune deletes.
_UNTOLD: Final = (
    "token.",
    "session.",
    "policy.",
    "access.",
    "audit.",
    "chat.",
    "retention.",
    "restore.",
)

# What happens to notices is on record and in the stream, but the subject of no further notice:
# two receivers that are gone would tell each other so for ever.
NOTICES: Final = "notice."
NOTICE_FAILED: Final = "notice.failed"
STARTED: Final = "deploy.started"
ENDED: Final = "deploy.ended"
REQUESTED: Final = "deploy.requested"

_MARKS: Final = {
    f"{sort}.{verb}": f"A {sort} was {verb}. Detail: {sort}, reason, version."
    for sort in Sort
    for verb in ("set", "lifted")
}

OF_MARKS: Final = frozenset(_MARKS)

KINDS: Final[Mapping[str, str]] = {
    REQUESTED: "A deploy was accepted. Detail: kind, version, reason; `rerun_of`, `from`.",
    "deploy.delayed": "A gate keeps it from beginning, at once or again. Detail: gates.",
    STARTED: "A worker began with it. Detail: number, version, kind, executor.",
    "deploy.asked": "It waits for a person's answer. Detail: the question.",
    "deploy.answered": "A person answered. Detail: the answer.",
    "deploy.cancel": "Its cancel was asked for. Detail: reason, rollback.",
    "deploy.abandoned": "A person gave it up.",
    "deploy.vouched": "A person vouched for its end.",
    "deploy.taken_over": "It was taken over from a lost worker. Detail: executor, by, from_step.",
    ENDED: "It ended. Detail: outcome, version, error, number, kind, sha256, root, replaces.",
    "deploy.wait_skipped": "A person ended its wait for time. Detail: skipped, reason.",
    "approval.requested": "People are asked. Detail: rule, digest, version, expires_at, chat.",
    "approval.decided": "One approved or rejected. Detail: rule, decision, by, comment, given.",
    "approval.reminded": "Half of the time to decide has passed. Detail: rule, expires_at.",
    "approval.expired": "Nobody decided in time. Detail: rule, expires_at.",
    "approval.voided": "What was asked has changed: votes count no more. Detail: keys.",
    "approval.lapsed": "What was given counts no more at the start. Detail: missing.",
    "approval.bypassed": "A deploy was asked for that nobody has to agree to. Detail: reason.",
    "deploy.regated": "A deploy takes the rules of today. Detail: keys, reason.",
    "gate.passed": "A deploy began through a closed gate. Detail: gate, detail, reason.",
    **_MARKS,
    "schedule.created": "A schedule was made. Detail: schedule.",
    "schedule.paused": "A schedule was paused. Detail: schedule, reason.",
    "schedule.resumed": "A schedule goes on. Detail: schedule.",
    "schedule.deleted": "A schedule was deleted. Detail: schedule.",
    "schedule.fired": "A schedule asked for a deploy. Detail: schedule, instant.",
    "schedule.skipped": "An instant was left out, by its rule. Detail: schedule, instant.",
    "schedule.missed": "Instants passed while no server ran. Detail: schedule, count, from, to.",
    "schedule.refused": "What a schedule asked for was refused. Detail: schedule, instant.",
    "schedule.failed": "A schedule could not ask for its deploy. Detail: schedule, instant.",
    "executor.recovered": "A lost worker was taken over from. Detail: the report.",
    NOTICE_FAILED: "A sink was not told of an event in time. Detail: sink, notice, event, error.",
    "notice.resent": "Notices that had failed are sent again. Detail: sink, notice or count.",
    "sink.off": "A receiver wanted no more. Detail: sink, reason, dropped.",
    "sink.on": "A sink is told of events again. Detail: sink.",
    "history.pruned": "Old deploys were deleted. Detail: deploys, schedule_runs, kept.",
    "executor.forgotten": "A worker left the registry. Detail: executor.",
}


@dataclass(frozen=True)
class Event:
    """One event; `position` counts all events of an installation without a hole."""

    id: str
    position: int
    at: datetime
    type: str
    actor: str
    deploy: str | None
    application: str | None
    environment: str | None
    detail: Mapping[str, Any]


def is_told(action: str) -> bool:
    """Whether a deed of this name is an event."""
    return not action.startswith(_UNTOLD)
