"""Remind: what time does to approvals: people are told again, then the waiting ends."""

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from manent_server.domain import awaiting
from manent_server.domain.awaiting import Stage
from manent_server.domain.deploy import Outcome
from manent_server.engine import asking_again, closing
from manent_server.engine.closing import Ending
from manent_server.store import approvals, deploys, records
from manent_server.store.approvals import Approval
from manent_server.store.deploys import Deploy
from manent_server.store.records import Deed
from manent_server.store.repeat import is_transient
from manent_server.store.transaction import Transaction

_log = logging.getLogger(__name__)
_AGAIN = timedelta(minutes=1)


def see_to(tx: Transaction, ids: Sequence[str]) -> None:
    """Do what is due; one deploy that cannot be seen to blocks no other.

    Args:
        tx: The transaction that holds the environment's row.
        ids: Deploys that wait for people.
    """
    for deploy in ids:
        try:
            with tx.savepoint():
                _see_to(tx, deploy)
        except Exception as error:
            if is_transient(error):
                raise
            _log.exception("the approval of deploy %s cannot be seen to", deploy)
            # A minute later: the gate itself stays closed.
            deploys.update(tx, deploy, approval_at=tx.now() + _AGAIN)


def _see_to(tx: Transaction, deploy: str) -> None:
    row = deploys.lock(tx, deploy)
    # A vote may have been faster: it and the end of the waiting take the same lock.
    if row is None or not row.is_live or row.approval != Stage.ASKED:
        return
    at = tx.now()
    rows = approvals.standing_of(approvals.of_deploy(tx, row.id), row.approval_digest)
    waiting = [one for one in rows if one.state == approvals.WAITING]
    overdue = [one for one in waiting if one.expires_at is not None and one.expires_at <= at]
    if overdue:
        _expire(tx, row, overdue, at)
        return
    due = [one for one in waiting if _is_due(one, at)]
    approvals.change(tx, [one.id for one in due], reminded_at=at)
    _tell(tx, row, "approval.reminded", due, at)
    known = approvals.standing_of(approvals.of_deploy(tx, row.id), row.approval_digest)
    deploys.update(tx, row.id, approval_at=asking_again.next_look(known))


def _is_due(one: Approval, at: datetime) -> bool:
    reminder = awaiting.reminder(one.asked_at, one.expires_at)
    return one.reminded_at is None and reminder is not None and reminder <= at


def _expire(tx: Transaction, row: Deploy, overdue: list[Approval], at: datetime) -> None:
    _tell(tx, row, "approval.expired", overdue, at)
    names = ", ".join(one.rule for one in overdue)
    message = f"nobody decided in time (rule {names})"
    error = {"code": "approval_expired", "message": message}
    closing.close(tx, Ending(row.id, None, Outcome.EXPIRED, error=error))


def _tell(
    tx: Transaction, row: Deploy, action: str, rows: Sequence[Approval], at: datetime
) -> None:
    place = (row.id, row.application, row.environment)
    deeds = [
        Deed(
            "manent",
            action,
            *place,
            {
                "approval": one.id,
                "rule": one.rule,
                "expires_at": one.expires_at and one.expires_at.isoformat(),
            },
        )
        for one in rows
    ]
    records.write_audits(tx, deeds, at=at)
