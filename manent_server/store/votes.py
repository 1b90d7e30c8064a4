"""Votes: what was said to approvals, and whether it still counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa

from manent_server.domain import approval as rules
from manent_server.domain import basis
from manent_server.domain.access import Grant
from manent_server.domain.approval import People, Person, Said, Vote, Voter
from manent_server.domain.basis import Basis
from manent_server.store.clean import clean
from manent_server.store.tables import Tables
from manent_server.store.transaction import Transaction


@dataclass(frozen=True)
class Ballot:
    """A vote to be recorded; `session`: what it was given with, empty where that has no name."""

    id: str
    voter: Voter
    decision: Said
    comment: str | None
    channel: str
    address: str | None
    session: str = ""


def cast(tx: Transaction, approval: str, digest: str, ballot: Ballot, *, at: datetime) -> None:
    """Record a vote on what has this digest; nothing ever changes it."""
    values = {
        "id": ballot.id,
        "approval": approval,
        "identity": ballot.voter.identity,
        "principal": ballot.voter.principal,
        "login": ballot.voter.login,
        "groups": sorted(ballot.voter.groups),
        "session": ballot.session,
        "decision": ballot.decision,
        "comment": ballot.comment,
        "channel": ballot.channel,
        "address": ballot.address,
        "digest": digest,
    }
    tx.connection.execute(tx.tables.votes.insert(), clean(values) | {"at": at})


def of(tx: Transaction, ids: Sequence[str]) -> dict[str, list[Vote]]:
    """What was said to approvals, in order, and what of it counts by who is in force."""
    rows = tx.connection.execute(_votes(tx.tables), {"ids": list(ids)}).all() if ids else []
    if not rows:
        return {}
    found: dict[str, list[Vote]] = {}
    known, granted = people(tx), basis.load(_policy(tx, "grants"))
    for row in rows:
        voter = Voter(row.principal, row.login, frozenset(row.groups or ()))
        groups = rules.groups_of(voter, known)
        place = (row.application, row.environment)
        vote = Vote(
            voter=voter,
            decision=Said(row.decision),
            at=row.at,
            comment=row.comment,
            channel=row.channel,
            void=basis.lapsed(_basis(row), groups, granted, *place),
            session=row.session,
        )
        found.setdefault(row.approval, []).append(vote)
    return found


def _basis(row: Any) -> Basis:
    own = None
    if row.role is not None:
        own = Grant(row.role, tuple(row.applications), tuple(row.environments))
    ended = None
    if row.token_revoked_at is not None:
        ended = "its token was revoked"
    elif row.revoked_by is not None:
        ended = "its sign-in was ended by an administrator"
    return Basis(row.principal, row.session, own, ended)


@cache
def _votes(tables: Tables) -> sa.Select[Any]:
    """With where they count, and what became of the sign-in each was given with."""
    v, a, t, s = tables.votes, tables.approvals, tables.tokens, tables.sessions
    names = ("approval", "principal", "login", "groups", "session", "decision", "at", "comment")
    query = sa.select(
        *(v.c[name] for name in (*names, "channel")),
        a.c.application,
        a.c.environment,
        t.c.role,
        t.c.applications,
        t.c.environments,
        t.c.revoked_at.label("token_revoked_at"),
        s.c.revoked_by,
    )
    query = query.join_from(v, a, a.c.id == v.c.approval)
    query = query.join(t, t.c.id == v.c.session, isouter=True)
    query = query.join(s, s.c.id == v.c.session, isouter=True)
    return query.where(v.c.approval.in_(sa.bindparam("ids", expanding=True))).order_by(v.c.at)


def people(tx: Transaction) -> People:
    """Who is who, as the policy in force has it."""
    return {
        login: Person(frozenset(one["groups"]), frozenset(one["handles"]))
        for login, one in _policy(tx, "people").items()
    }


def _policy(tx: Transaction, column: str) -> Mapping[str, Any]:
    p = tx.tables.policies
    query = sa.select(p.c[column]).order_by(p.c.revision.desc()).limit(1)
    return tx.connection.execute(query).scalar_one_or_none() or {}
