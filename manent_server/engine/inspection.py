"""What the engine says of dispatches, and the disposal of those that are over."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from manent_server.engine.dispatch import WORKFLOW

if TYPE_CHECKING:  # a quarter of a second that commands do not need
    from dbos import DBOSClient

_OVER = frozenset({"SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"})
_BATCH = 200


@dataclass(frozen=True)
class Delivery:
    """The engine's view of one dispatch: `owner` is `executor:incarnation` once it was taken."""

    workflow: str
    is_over: bool
    is_taken: bool
    owner: str | None


def deliveries(client: "DBOSClient", workflows: Sequence[str]) -> dict[str, Delivery]:
    """By workflow id; a dispatch the engine does not know is left out."""
    if not workflows:
        return {}
    found = client.list_workflows(workflow_ids=list(workflows), load_input=False, load_output=False)
    return {
        status.workflow_id: Delivery(
            workflow=status.workflow_id,
            is_over=status.status in _OVER,
            is_taken=status.status == "PENDING",
            owner=status.executor_id,
        )
        for status in found
    }


def unfinished(client: "DBOSClient") -> list[str]:
    """Dispatches the engine still waits for."""
    found = client.list_workflows(
        status=["ENQUEUED", "PENDING"], name=WORKFLOW, load_input=False, load_output=False
    )
    return [status.workflow_id for status in found]


def dispose(client: "DBOSClient", workflows: Iterable[str]) -> int:
    """Cancel dispatches that are no longer current; how many."""
    gone = list(workflows)
    for begin in range(0, len(gone), _BATCH):
        client.cancel_workflows(gone[begin : begin + _BATCH])
    return len(gone)
