"""Busy: refuse a deploy that wants no company, and say who is there."""

from collections.abc import Mapping
from typing import Any

from manent_server.domain.deploy import Kind
from manent_server.domain.errors import Refused
from manent_server.domain.rules import REJECT
from manent_server.store import deploys, queue
from manent_server.store.deploys import Deploy
from manent_server.store.transaction import Transaction
from manent_server.usecases import explain, view
from manent_server.usecases.accept import Draft
from manent_server.usecases.desk import Desk


def demand_free(tx: Transaction, desk: Desk, draft: Draft) -> None:
    """With the policy `reject` nothing is accepted while another one runs or is queued there.

    One that waits for a gate has no place yet and is in nobody's way.

    Raises:
        Refused: Naming the deploy, who asked for it, since when it is there, what frees it.
    """
    if draft.order.collision != REJECT or draft.kind == Kind.ROLLBACK:
        return
    place = (draft.application, draft.environment.name)
    found = queue.occupant(tx, place)
    row = deploys.read(tx, found) if found is not None else None
    if row is None:
        return
    since = view.instant(row.started_at or row.requested_at)
    doing = "runs" if row.started_at is not None else "is queued"
    detail = (
        f"{draft.application} in {draft.environment.name} is busy: deploy {row.id} of "
        f"{row.version}, asked for by {row.requested_by}, {doing} since {since}"
    )
    raise Refused(
        detail,
        code="collision",
        next=f"wait for it (manent wait {row.id}) or stop it (manent cancel {row.id})",
        facts=view.blocked(None, detail, ()) | {"blocked_by": _named(tx, desk, row)},
    )


def _named(tx: Transaction, desk: Desk, row: Deploy) -> Mapping[str, Any]:
    return {
        **explain.named(tx, desk, row.id, row.executor),
        "version": row.version,
        "requested_by": row.requested_by,
        "since": view.instant(row.started_at or row.requested_at),
        "command": f"manent cancel {row.id}",
    }
