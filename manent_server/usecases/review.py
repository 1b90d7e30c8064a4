"""Review: what is known of the live deploys of a restored database, before anything is decided."""

from collections.abc import Container, Sequence
from typing import Any, Final

from manent_server.domain import access
from manent_server.domain.access import Caller
from manent_server.domain.errors import NotFound
from manent_server.store import deploys, installation
from manent_server.store.deploys import Deploy
from manent_server.store.installation import Installation, Resumed
from manent_server.store.transaction import Transaction
from manent_server.usecases import lost, observe, view
from manent_server.usecases.desk import Desk
from manent_server.usecases.lost import Story, Told
from manent_server.usecases.requests import RestoreLook

_PAGE: Final = 500
"""Lost deploys in one answer."""


def review(desk: Desk, request: RestoreLook | None = None, *, caller: Caller) -> dict[str, Any]:
    """Whether nothing begins and why; every live deploy with what is known of it.

    Raises:
        NotFound: A deploy that is named is none, or no page ends with the one that is named.
    """
    caller.demand(access.AUDIT)
    request = request or RestoreLook()
    with desk.store.read() as tx:
        row = installation.read(tx)
        if row is None or not row.is_fenced:
            return {"fenced": False, "undecided": 0, "items": [], "lost": []}
        told = lost.read(tx, desk.settings().audit.file, row.lost)
        resumed = installation.resumed(tx)
        live = deploys.live(tx)
        known = deploys.versions(tx, list(told.deploys))
        wanted = _wanted(tx, desk, request.deploys)
    items = [_item(one, resumed.get(one.id), told.deploys.get(one.id)) for one in live]
    undecided = sum(item["decision"] is None for item in items)
    shown = [one for one in live if wanted is None or one.id in wanted]
    said, seen = _observed(desk, shown, request, caller)
    return {
        **_fence(row),
        "record": told.problem or "read",
        "observing": said,
        "undecided": undecided,
        "items": [
            item | {"observed": seen.get(item["id"])}
            for item in items
            if wanted is None or item["id"] in wanted
        ],
        **_unknown(told, known, request.lost_after),
    }


def _unknown(told: Told, known: Container[str], after: str | None) -> dict[str, Any]:
    """A page of the deploys the database does not know, in the order of the record."""
    lost = [name for name in told.deploys if name not in known]
    if after is not None and after not in lost:
        raise NotFound(f"{after} is no deploy that was lost", next="give the last id of a page")
    page = lost[lost.index(after) + 1 :] if after is not None else lost
    shown = page[:_PAGE]
    return {
        "lost": [_gone(name, told.deploys[name]) for name in shown],
        "lost_next": shown[-1] if len(page) > len(shown) else None,
    }


def _wanted(tx: Transaction, desk: Desk, names: Sequence[str]) -> set[str] | None:
    return {desk.deploy(tx, name).id for name in names} if names else None


def _observed(
    desk: Desk, rows: Sequence[Deploy], request: RestoreLook, caller: Caller
) -> tuple[str, observe.Observed]:
    return observe.observe(desk, rows, caller=caller) if request.observes else (observe.UNASKED, {})


def _fence(row: Installation) -> dict[str, Any]:
    first, last = row.lost
    return {
        "fenced": True,
        "why": row.words,
        "since": view.instant(row.fenced_at),
        "by": row.fenced_by,
        "restored": {"epoch": row.restored_epoch, "audit_number": row.restored_number},
        "known": {"epoch": row.known_epoch, "audit_number": row.known_number},
        "missing": {"first": first, "last": last} if last >= first else None,
    }


def _item(row: Deploy, resumed: Resumed | None, story: Story | None) -> dict[str, Any]:
    decision = "resume" if resumed is not None else None
    if row.cancel_requested_at is not None:
        decision = "cancel"
    return {
        "id": row.id,
        "application": row.application,
        "environment": row.environment,
        "number": row.number,
        "version": row.version,
        "kind": row.kind,
        "state": row.state,
        "phase": row.phase,
        "requested_by": row.requested_by,
        "requested_at": view.instant(row.requested_at),
        "decision": decision,
        "outcome": story.outcome if story else None,
        "records": story.records if story else [],
    }


def _gone(name: str, story: Story) -> dict[str, Any]:
    return {
        "id": name,
        "application": story.application,
        "environment": story.environment,
        "version": story.version,
        "outcome": story.outcome,
        "records": story.records,
    }
