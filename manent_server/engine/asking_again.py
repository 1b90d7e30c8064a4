"""Asking: people are asked about what a deploy would bring, again if that is another thing now."""

from datetime import datetime

from manent_server.domain import approval, awaiting
from manent_server.domain.awaiting import Stage, Standing
from manent_server.domain.deploy import Phase
from manent_server.engine import resolution, sending_back
from manent_server.engine.resolution import Resolved
from manent_server.store import approvals, deploys, records
from manent_server.store.approvals import Approval
from manent_server.store.deploys import Deploy
from manent_server.store.records import Deed
from manent_server.store.transaction import Transaction

_GATE = "gate"


def ask(tx: Transaction, row: Deploy, found: Resolved) -> None:
    """Ask each of the deploy's rules about what was found; earlier votes count no more."""
    at = tx.now()
    content = awaiting.body(resolution.content(row, found))
    digest = resolution.digest(resolution.content(row, found))
    before = (row.resolved or {}).get("content")
    changed = list(awaiting.differences(before, content)) if before is not None else []
    if changed:
        _void(tx, row, changed, at)
    rules = approval.load(row.order_body.get("approvals"))
    asked = approvals.ask(tx, row, rules, digest=digest, at=at)
    deploys.update(
        tx,
        row.id,
        approval=Stage.ASKED,
        approval_digest=digest,
        approval_at=next_look(asked),
        resolved={"content": content, "changed": changed},
    )
    _tell(tx, row, asked, at)


def next_look(rows: list[Approval]) -> datetime | None:
    """When time does something about what waits: a reminder, or the end of the waiting."""
    instants = []
    for row in rows:
        if row.state == approvals.WAITING:
            reminder = awaiting.reminder(row.asked_at, row.expires_at)
            instants += [row.expires_at, None if row.reminded_at is not None else reminder]
    return min((one for one in instants if one is not None), default=None)


def ask_if_changed(tx: Transaction, row: Deploy, found: Resolved) -> bool:
    """Send back what is about to bring another thing than was approved; whether that was so."""
    if row.approval != Stage.GIVEN or row.handed_out_at is not None:
        return False
    if resolution.digest(resolution.content(row, found)) == row.approval_digest:
        return False
    sending_back.send_back(tx, row, Phase.AWAITING_APPROVAL)
    ask(tx, row, found)
    # A look at once sets its alarm.
    records.wake(tx, row.id, tx.now(), _GATE)
    return True


def reopen(tx: Transaction, row: Deploy, standing: Standing) -> None:
    """Ask those rules again whose votes come to less than they did; the others stay met."""
    at = tx.now()
    open_asks = [one for one in standing.asks if not one.verdict.is_met]
    for one in open_asks:
        expires_at = at + one.rule.expires if one.rule.expires is not None else None
        values = {"state": approvals.WAITING, "closed_at": None, "expires_at": expires_at}
        approvals.change(tx, [one.id], **values, reminded_at=None)
    rows = approvals.standing_of(approvals.of_deploy(tx, row.id), row.approval_digest)
    deploys.update(tx, row.id, approval=Stage.ASKED, approval_at=next_look(rows))
    records.wake(tx, row.id, at, _GATE)
    missing = [words for one in open_asks for words in one.verdict.missing]
    detail = {"approvals": [one.id for one in open_asks], "missing": missing}
    place = (row.id, row.application, row.environment)
    records.write_audit(tx, Deed("manent", "approval.lapsed", *place, detail), at=at)


def _void(tx: Transaction, row: Deploy, changed: list[str], at: datetime) -> None:
    rows = approvals.standing_of(approvals.of_deploy(tx, row.id), row.approval_digest)
    approvals.change(tx, [one.id for one in rows], state=approvals.VOID, closed_at=at)
    detail = {"keys": changed, "approvals": [one.id for one in rows], "version": row.version}
    place = (row.id, row.application, row.environment)
    records.write_audit(tx, Deed("manent", "approval.voided", *place, detail), at=at)


def _tell(tx: Transaction, row: Deploy, asked: list[Approval], at: datetime) -> None:
    deeds = [
        Deed(
            "manent",
            "approval.requested",
            row.id,
            row.application,
            row.environment,
            {
                "approval": one.id,
                "rule": one.rule,
                "digest": one.digest,
                "version": row.version,
                "expires_at": one.expires_at and one.expires_at.isoformat(),
                "chat": list(one.asks.chat),
            },
        )
        for one in asked
    ]
    records.write_audits(tx, deeds, at=at)
