"""The card: what a chat shows of a deploy that waits for approval, and later of its end."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from manent_server.domain.approval import Vote
from manent_server.domain.chat import Card, Question
from manent_server.store import approvals, deploys, votes
from manent_server.store.approvals import Approval
from manent_server.store.deploys import Deploy
from manent_server.store.transaction import Transaction
from manent_server.usecases import live

_CHANGES: Final = 8
_REMINDED: Final = ", half of the time to decide is over"
_SAID: Final = {"approve": "approved", "reject": "rejected"}


def read(tx: Transaction, deploy: str, chat: str, *, url: str) -> Card | None:
    """What a chat shows of a deploy now; None if no rule of it asks there.

    Args:
        tx: The transaction.
        deploy: Its id.
        chat: The chat's name.
        url: The public address of this server.
    """
    row = deploys.read(tx, deploy)
    asked = approvals.of_deploy(tx, deploy) if row is not None else []
    if row is None or not any(chat in each.asks.chat for each in asked):
        return None
    current = [each for each in asked if each.digest == row.approval_digest] or asked[-1:]
    said = votes.of(tx, [each.id for each in current])
    return Card(
        key=row.id,
        digest=row.approval_digest or current[0].digest,
        title=_title(row),
        facts=_facts(tx, row),
        questions=[_question(row, each, said.get(each.id, ()), chat) for each in current],
        outcome=_outcome(row),
        link=f"{url}/api/v1/deploys/{row.id}",
    )


def digest(card: Card) -> str:
    """One number for what a card shows: the same shows nothing new."""
    values = json.dumps(asdict(card), sort_keys=True, default=str)
    return hashlib.sha256(values.encode()).hexdigest()


def _title(row: Deploy) -> str:
    return f"{row.kind} {row.application} {row.version} to {row.environment} (#{row.number})"


def _facts(tx: Transaction, row: Deploy) -> list[tuple[str, str]]:
    before = live.read(tx, row.application, row.environment) if row.is_live else None
    return [
        ("Application", row.application),
        ("Environment", row.environment),
        ("From version", before.version if before else "" if row.ended_at else "nothing yet"),
        ("To version", row.version),
        ("Asked for by", row.requested_by),
        ("Reason", row.reason or ""),
        ("Changes", _changes(row.changes or ())),
        ("Deploy", row.id),
    ]


def _changes(changes: Sequence[Mapping[str, Any]]) -> str:
    shown = [f"{str(each['id'])[:12]} by {each['author']}" for each in changes[:_CHANGES]]
    more = len(changes) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _question(row: Deploy, approval: Approval, votes: Sequence[Vote], chat: str) -> Question:
    rule = approval.asks
    is_waiting = approval.state == approvals.WAITING and row.is_live
    counted = sum(vote.decision == "approve" and not vote.is_void for vote in votes)
    state = f"{counted} of {rule.quorum}" if is_waiting else approval.state
    if is_waiting and approval.reminded_at is not None:
        state += _REMINDED
    return Question(
        id=approval.id,
        rule=rule.name,
        digest=approval.digest,
        quorum=rule.quorum,
        votes=[_vote(vote) for vote in votes],
        expires_at=approval.expires_at if is_waiting else None,
        is_open=is_waiting and chat in rule.chat,
        state=state,
    )


def _vote(vote: Vote) -> str:
    who = vote.voter.login or vote.voter.principal
    why = f" ({vote.comment})" if vote.comment else ""
    void = ", which counts no more" if vote.is_void else ""
    return f"{who} {_SAID.get(vote.decision, vote.decision)}{why}{void}"


def _outcome(row: Deploy) -> str | None:
    if row.ended_at is not None:
        words = (row.error or {}).get("message")
        return f"{row.state} {row.outcome or ''}".strip() + (f": {words}" if words else "")
    return "it has begun" if row.started_at is not None else None
