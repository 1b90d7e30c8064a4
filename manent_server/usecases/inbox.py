"""Inbox: what waits for people's approval, what was said, and whether one has a say in it."""

import re
from collections.abc import Sequence
from typing import Any

from manent_server.domain import access
from manent_server.domain import approval as rules
from manent_server.domain.access import Caller
from manent_server.domain.approval import Subject, Vote
from manent_server.domain.errors import Invalid, NotFound
from manent_server.store import approvals, deploys, votes
from manent_server.store.approvals import Approval
from manent_server.store.deploys import Deploy
from manent_server.store.transaction import Transaction
from manent_server.usecases import identify, inspect, view
from manent_server.usecases import live as lives
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import ApprovalFilter

_ID = re.compile(r"[0-9a-f]{6,40}")


def is_id(text: str) -> bool:
    """Whether it may be an approval's id, or the beginning of one."""
    return _ID.fullmatch(text) is not None


def find(tx: Transaction, address: str, caller: Caller) -> Approval:
    """An approval by its id or a unique beginning of it, if the caller sees it.

    Raises:
        NotFound: Nothing the caller sees has that address.
        Invalid: Several ids begin so.
    """
    sight = caller.scope(access.READ)
    found = approvals.beginning(tx, address, sight=sight) if is_id(address) else []
    if len(found) > 1:
        raise Invalid(
            f"several approvals begin with {address}",
            code="address_ambiguous",
            next="give more of the id",
        )
    if not found:
        raise nothing(address)
    return found[0]


def nothing(address: str) -> NotFound:
    """There is none, or none one may know of."""
    shown = address.encode("unicode_escape").decode("ascii")[:80]
    return NotFound(f"there is no approval {shown}", next="manent approvals lists what waits")


def one(desk: Desk, address: str, *, caller: Caller) -> dict[str, Any]:
    """One approval with what was said to it."""
    with desk.store.read() as tx:
        return _shown(tx, desk, [find(tx, address, caller)], caller)[0]


def approvals_of(desk: Desk, wanted: ApprovalFilter, *, caller: Caller) -> dict[str, Any]:
    """Approvals the caller sees, the newest first."""
    if not 1 <= wanted.limit <= inspect.LONGEST_PAGE:
        raise Invalid(f"limit is {wanted.limit}", next=f"use 1 to {inspect.LONGEST_PAGE}")
    desk = desk.seen_by(caller)
    with desk.store.read() as tx:
        deploy = None
        if wanted.deploy is not None:
            deploy = desk.deploy(tx, wanted.deploy).id
        where = inspect.place(tx, desk, wanted.application, wanted.environment)
        page = approvals.Page(
            **where,
            deploy=deploy,
            state=wanted.state,
            before=wanted.before,
            limit=wanted.limit,
            sight=desk.sight,
        )
        rows, after = approvals.page(tx, page)
        return view.page(_shown(tx, desk, rows, caller), after)


def _shown(
    tx: Transaction, desk: Desk, rows: Sequence[Approval], caller: Caller
) -> list[dict[str, Any]]:
    said = votes.of(tx, [row.id for row in rows])
    sight = _Sight(tx, desk, caller)
    return [sight.of(row, said.get(row.id, [])) for row in rows]


class _Sight:
    """Approvals as one caller sees them; what many have in common is read once."""

    def __init__(self, tx: Transaction, desk: Desk, caller: Caller) -> None:
        self._tx = tx
        self._desk = desk
        self._caller = caller
        self._people = votes.people(tx)
        self._deploys: dict[str, Deploy] = {}
        self._live: dict[tuple[str, str], str | None] = {}

    def _deploy(self, row: Approval) -> Deploy:
        if row.deploy not in self._deploys:
            found = deploys.read(self._tx, row.deploy)
            if found is None:
                raise LookupError(row.deploy)
            self._deploys[row.deploy] = found
        return self._deploys[row.deploy]

    def _live_version(self, row: Approval) -> str | None:
        place = (row.application, row.environment)
        if place not in self._live:
            found = lives.read(self._tx, *place)
            self._live[place] = found.version if found is not None else None
        return self._live[place]

    def of(self, row: Approval, votes: Sequence[Vote]) -> dict[str, Any]:
        """With the rule, what is asked about, what was said and what is lacking."""
        deploy, rule = self._deploy(row), row.asks
        about = approvals.subject(deploy)
        verdict = rules.judge(rule, votes, about, self._people)
        why_not = self._why_not(row, about)
        return {
            "id": row.id,
            "deploy": deploy.id,
            "number": deploy.number,
            "application": row.application,
            "environment": row.environment,
            "kind": deploy.kind,
            "version": deploy.version,
            "from_version": self._live_version(row),
            "requested_by": deploy.requested_by,
            "reason": deploy.reason,
            "not_before": view.instant(deploy.not_before),
            "links": dict(deploy.links) if deploy.links else None,
            "changes": list(deploy.changes) if deploy.changes else None,
            "rule": rule.name,
            "quorum": rule.quorum,
            "from": list(rule.members),
            "required": list(rule.required),
            "chat": list(rule.chat),
            "state": row.state,
            "digest": row.digest,
            "asked_at": view.instant(row.asked_at),
            "expires_at": view.instant(row.expires_at),
            "closed_at": view.instant(row.closed_at),
            "approvers": list(verdict.approvers),
            "missing": list(verdict.missing) if row.state == approvals.WAITING else [],
            "votes": [_vote(vote) for vote in votes],
            "may_decide": why_not is None,
            "why_not": why_not,
            "url": f"{self._desk.url}/api/v1/approvals/{row.id}",
            "command": f"manent approve {row.id}",
        }

    def _why_not(self, row: Approval, about: Subject) -> str | None:
        """Why the caller has no say in it."""
        caller = self._caller
        if row.state != approvals.WAITING:
            return f"nothing is asked any more: {row.state}"
        if not caller.may(access.APPROVE, row.application, row.environment):
            return "lacks the right approve there"
        return rules.why_not(row.asks, identify.voter(caller), about, self._people)


def _vote(vote: Vote) -> dict[str, Any]:
    return {
        "by": vote.voter.login or vote.voter.principal,
        "decision": vote.decision,
        "comment": vote.comment,
        "channel": vote.channel,
        "at": view.instant(vote.at),
    }
