"""Decide: what a person says to an approval; said once, it never changes."""

import secrets
from dataclasses import dataclass, replace
from typing import Any

from manent_server.domain import access, awaiting
from manent_server.domain import approval as rules
from manent_server.domain.access import Caller
from manent_server.domain.approval import Said, Vote, Voter
from manent_server.domain.awaiting import Stage
from manent_server.domain.chat import plain
from manent_server.domain.deploy import Outcome
from manent_server.domain.errors import Conflict, Invalid, NotAllowed
from manent_server.engine import closing
from manent_server.engine.closing import Ending
from manent_server.store import approvals, deploys, records, votes
from manent_server.store.approvals import Approval
from manent_server.store.deploys import Deploy
from manent_server.store.records import Deed
from manent_server.store.transaction import Transaction
from manent_server.store.votes import Ballot
from manent_server.usecases import identify, inbox, once
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import Decision, IdempotencyKey

GATE = "gate"
RECORDED = "recorded"
ALREADY = "already recorded"


def decide(
    desk: Desk,
    approval_id: str,
    decision: Decision,
    *,
    caller: Caller,
    key: IdempotencyKey | None = None,
) -> dict[str, Any]:
    """Approve or reject what one rule of a deploy asks.

    Said again by the same person, whatever way they come, it is no second vote: the answer's
    `message` says so. The last approval that was lacking opens the gate; one rejection ends the
    deploy CANCELLED/`rejected`.

    Raises:
        NotFound: There is no such approval, or the caller does not see it.
        NotAllowed: The caller has no say in it; the problem says why.
        Conflict: Nothing is asked any more, or this person has said the opposite.
        Invalid: A rejection without a comment.
    """
    said = _said(decision)
    mine = secrets.token_hex(16)
    done: list[_Done] = []

    def work(tx: Transaction) -> str:
        found = inbox.find(tx, approval_id, caller)
        caller.demand(access.APPROVE, found.application, found.environment)
        row = deploys.lock(tx, found.deploy)
        known = once.remembered(tx, caller, key)
        if known is not None:
            done[:] = [_Done(ALREADY)]
            return known
        # Read again: only now does nobody else decide about the deploy.
        approval = approvals.read(tx, found.id)
        if row is None or approval is None:
            raise inbox.nothing(approval_id)
        asked = _Asked(row, approval, said, decision.comment, caller, mine)
        done[:] = [_take(tx, asked)]
        once.remember(tx, caller, key, approval.id)
        return approval.id

    approval = once.run(desk.store, work)
    for one in done:
        if one.opens is not None:
            desk.admission(one.opens.environment, only=[one.opens.id])
        elif one.frees is not None:
            desk.admission(one.frees)
    message = done[0].message if done else ALREADY
    return inbox.one(desk, approval, caller=caller) | {"message": message}


@dataclass(frozen=True)
class _Asked:
    """Who says what to which rule of which deploy, both as they stand under its lock."""

    deploy: Deploy
    approval: Approval
    said: Said
    comment: str | None
    caller: Caller
    vote: str


@dataclass(frozen=True)
class _Done:
    """What came of it: a deploy whose gate may be open, an environment where one has ended."""

    message: str
    opens: Deploy | None = None
    frees: str | None = None


def _said(decision: Decision) -> Said:
    if decision.decision not in tuple(Said):
        raise Invalid(f"decision {decision.decision!r} is not known", next="use approve or reject")
    said = Said(decision.decision)
    if said == Said.REJECT and not plain(decision.comment or ""):
        raise Invalid(
            "a rejection needs a comment",
            code="comment_missing",
            next="say why, for whoever asked for the deploy",
            errors=[{"path": "comment", "message": "is missing"}],
        )
    return said


def _take(tx: Transaction, asked: _Asked) -> _Done:
    voter = voter_of(tx, asked.caller)
    mine = _earlier(tx, asked.approval, voter)
    standing = [vote for vote in mine if not vote.is_void]
    if standing:
        return _repeat(tx, asked, standing[-1])
    _demand_open(tx, asked)
    _demand_say(tx, asked, voter)
    _demand_another_basis(asked, mine)
    at = tx.now()
    ballot = Ballot(
        id=asked.vote,
        voter=voter,
        decision=asked.said,
        comment=asked.comment,
        channel=asked.caller.channel,
        address=asked.caller.address,
        session=asked.caller.session or "",
    )
    votes.cast(tx, asked.approval.id, asked.approval.digest, ballot, at=at)
    return _reject(tx, asked) if asked.said == Said.REJECT else _approve(tx, asked)


def voter_of(tx: Transaction, caller: Caller) -> Voter:
    """The caller as one who votes: the groups it is listed in are looked up when votes count."""
    found = identify.voter(caller)
    listed = rules.groups_of(replace(found, groups=frozenset()), votes.people(tx))
    return replace(found, groups=found.groups - listed)


def _who(caller: Caller) -> str:
    found = identify.voter(caller)
    return found.login or found.principal


def _earlier(tx: Transaction, approval: Approval, voter: Voter) -> list[Vote]:
    """What this voter has said before, whether it counts or not."""
    said = votes.of(tx, [approval.id]).get(approval.id, [])
    return [vote for vote in said if vote.voter.identity == voter.identity]


def _demand_another_basis(asked: _Asked, mine: list[Vote]) -> None:
    """What counts no more is not said again with the very sign-in that took its weight."""
    same = [vote for vote in mine if vote.session == (asked.caller.session or "")]
    if same:
        raise NotAllowed(
            f"what {asked.caller.name} has said with this sign-in counts no more: {same[-1].void}",
            code="not_eligible",
            next="ask an administrator; a new sign-in may vote again",
        )


def _repeat(tx: Transaction, asked: _Asked, earlier: Vote) -> _Done:
    if earlier.decision == asked.said:
        # What had lost its weight may have it again: nothing else would look.
        may_open = asked.said == Said.APPROVE and _is_asked(asked) and not _is_over(tx, asked)
        is_given = may_open and _is_given(tx, asked)
        return _given(tx, asked, ALREADY) if is_given else _Done(ALREADY)
    raise Conflict(
        f"{_who(asked.caller)} has decided already: {earlier.decision}",
        code="already_decided",
        next=f"a decision never changes; manent cancel {asked.deploy.id} stops the deploy",
    )


def _demand_open(tx: Transaction, asked: _Asked) -> None:
    """Refuse what nobody asks any more, naming what is asked instead."""
    row, approval = asked.deploy, asked.approval
    if _is_asked(asked):
        if _is_over(tx, asked):
            raise Conflict(
                "the time to decide is over",
                code="approval_expired",
                next="ask for the deploy again",
            )
        return
    if not row.is_live:
        raise Conflict(
            f"deploy {row.id} has ended: {row.outcome}",
            code="deploy_ended",
            next=f"manent show {row.id} says how",
        )
    if row.approval == Stage.GIVEN and approval.digest == row.approval_digest:
        raise Conflict(
            f"deploy {row.id} is approved already",
            code="already_approved",
            next=f"manent cancel {row.id} stops it",
        )
    newer = approvals.standing_of(approvals.of_deploy(tx, row.id), row.approval_digest)
    instead = next((one.id for one in newer if one.rule == approval.rule), None)
    raise Conflict(
        f"what {approval.id} asked has changed since: it is asked anew",
        code="approval_void",
        next=f"manent approve {instead}" if instead else f"manent explain {row.id} says what now",
        facts={"approval": instead},
    )


def _is_asked(asked: _Asked) -> bool:
    row, approval = asked.deploy, asked.approval
    is_open = row.is_live and row.approval == Stage.ASKED and approval.state != approvals.VOID
    return is_open and approval.digest == row.approval_digest


def _is_over(tx: Transaction, asked: _Asked) -> bool:
    approval = asked.approval
    end = approval.expires_at if approval.state == approvals.WAITING else None
    return end is not None and end <= tx.now()


def _demand_say(tx: Transaction, asked: _Asked, voter: Voter) -> None:
    rule = asked.approval.asks
    known = votes.people(tx)
    why = rules.why_not(rule, voter, approvals.subject(asked.deploy), known)
    if why is None:
        return
    who = _who(asked.caller)
    raise NotAllowed(
        f"{who} may not {asked.said} deploy {asked.deploy.id}: {who} {why}",
        code="not_eligible",
        next=f"ask somebody else of: {rules.may(rule)}",
    )


def _reject(tx: Transaction, asked: _Asked) -> _Done:
    """One rejection is final."""
    row = asked.deploy
    who = _who(asked.caller)
    _record(tx, asked, is_given=False)
    at = tx.now()
    approvals.change(tx, [asked.approval.id], state=approvals.REJECTED, closed_at=at)
    message = f"rejected by {who} under rule {asked.approval.rule}: {asked.comment}"
    error = {"code": "rejected", "message": message, "by": who, "comment": asked.comment}
    closing.close(tx, Ending(row.id, None, Outcome.REJECTED, actor=asked.caller.name, error=error))
    return _Done(RECORDED, frees=row.environment)


def _approve(tx: Transaction, asked: _Asked) -> _Done:
    is_given = _is_given(tx, asked)
    _record(tx, asked, is_given=is_given)
    return _given(tx, asked, RECORDED) if is_given else _Done(RECORDED)


def _is_given(tx: Transaction, asked: _Asked) -> bool:
    """Whether everyone who has to agree has; the rules that are met are closed."""
    asks = approvals.asked(tx, asked.deploy)
    met = [ask.id for ask in asks if ask.verdict.is_met]
    approvals.change(tx, met, state=approvals.APPROVED, closed_at=tx.now())
    return awaiting.is_met(asks)


def _given(tx: Transaction, asked: _Asked, message: str) -> _Done:
    row = asked.deploy
    deploys.update(tx, row.id, approval=Stage.GIVEN, approval_at=None)
    # Should this process end before it admits: somebody looks at the deploy within a second.
    records.wake(tx, row.id, tx.now(), GATE)
    return _Done(message, opens=row)


def _record(tx: Transaction, asked: _Asked, *, is_given: bool) -> None:
    row, approval = asked.deploy, asked.approval
    detail = {
        "approval": approval.id,
        "rule": approval.rule,
        "decision": asked.said,
        "by": _who(asked.caller),
        "comment": asked.comment,
        "digest": approval.digest,
        "given": is_given,
    }
    place = (row.id, row.application, row.environment)
    deed = Deed(asked.caller, "approval.decided", *place, detail, id=asked.vote)
    records.write_audit(tx, deed, at=tx.now())
