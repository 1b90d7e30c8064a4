"""Session rows: sign-ins by an identity provider, as digests, until they end."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from manent_server.store.tables import Tables
from manent_server.store.transaction import Transaction

_PROVIDER: Final = "oidc:"


@dataclass(frozen=True)
class Session:
    """One sign-in; `source` is a key of `access.oidc` or `access.trust`, with which of them."""

    id: str
    source: str
    principal: str
    groups: Sequence[str]
    actor: str | None
    created_at: datetime
    expires_at: datetime
    revoked_at: datetime | None


@cache
def _select(tables: Tables) -> sa.Select[Any]:
    return sa.select(*(tables.sessions.c[one.name] for one in fields(Session)))


def insert(tx: Transaction, values: Mapping[str, Any]) -> bool:
    """Write a new session; False where its assertion was used before."""
    dialect = sqlite if tx.dialect == "sqlite" else postgresql
    s = tx.tables.sessions
    written = dialect.insert(s).values(**values).on_conflict_do_nothing().returning(s.c.id)
    return tx.connection.execute(written).one_or_none() is not None


def read(tx: Transaction, session: str) -> Session | None:
    """One session by its id."""
    query = _select(tx.tables).where(tx.tables.sessions.c.id == session)
    row = tx.connection.execute(query).one_or_none()
    return Session(*tuple(row)) if row else None


def by_proof(tx: Transaction, proof: str) -> Session | None:
    """The session that was made for an assertion."""
    query = _select(tx.tables).where(tx.tables.sessions.c.proof == proof)
    row = tx.connection.execute(query).one_or_none()
    return Session(*tuple(row)) if row else None


def by_hash(tx: Transaction, digest: str, *, at: datetime) -> Session | None:
    """The session with that digest, if it is in force."""
    row = tx.connection.execute(_by_hash(tx.tables), {"digest": digest, "at": at}).one_or_none()
    return Session(*tuple(row)) if row else None


@cache
def _by_hash(tables: Tables) -> sa.Select[Any]:
    s = tables.sessions
    return _select(tables).where(
        s.c.hash == sa.bindparam("digest"),
        s.c.revoked_at.is_(None),
        s.c.expires_at > sa.bindparam("at"),
    )


def newest_of(tx: Transaction, principals: Sequence[str], *, at: datetime) -> Session | None:
    """The newest session in force of a person under one of these names."""
    s = tx.tables.sessions
    query = _select(tx.tables).where(
        s.c.principal.in_(principals),
        s.c.source.startswith(_PROVIDER),
        s.c.revoked_at.is_(None),
        s.c.expires_at > at,
    )
    row = tx.connection.execute(query.order_by(s.c.created_at.desc()).limit(1)).one_or_none()
    return Session(*tuple(row)) if row else None


def is_revoked(tx: Transaction, session: str) -> bool:
    """Whether somebody has ended it; held until the transaction ends, so that nobody can."""
    s = tx.tables.sessions
    query = sa.select(s.c.revoked_at).where(s.c.id == session).with_for_update(read=True)
    return tx.connection.execute(query).scalar_one_or_none() is not None


def revoke(tx: Transaction, session: str, *, at: datetime, by: str | None = None) -> bool:
    """End a session, `by` somebody else or by its own; whether it had not ended before."""
    s = tx.tables.sessions
    ended = sa.update(s).where(s.c.id == session, s.c.revoked_at.is_(None))
    done = tx.connection.execute(ended.values(revoked_at=at, revoked_by=by))
    return done.rowcount > 0


def forget(tx: Transaction, *, before: datetime, limit: int) -> None:
    """Remove rows of sessions that ended before an instant, a few at a time.

    One that somebody else ended stays: by its row votes given with it count no more.
    """
    s = tx.tables.sessions
    old = sa.select(s.c.id).where(s.c.expires_at < before, s.c.revoked_by.is_(None))
    old = old.order_by(s.c.expires_at).limit(limit)
    tx.connection.execute(sa.delete(s).where(s.c.id.in_(old)))


def live(tx: Transaction, *, at: datetime) -> list[Session]:
    """Those in force, the oldest first."""
    s = tx.tables.sessions
    is_live = s.c.revoked_at.is_(None), s.c.expires_at > at
    query = _select(tx.tables).where(*is_live).order_by(s.c.created_at, s.c.id)
    return [Session(*tuple(row)) for row in tx.connection.execute(query)]


def newest_end(tx: Transaction) -> datetime | None:
    """When a token or session was revoked last."""
    ends = [
        tx.connection.execute(sa.select(sa.func.max(table.c.revoked_at))).scalar()
        for table in (tx.tables.tokens, tx.tables.sessions)
    ]
    return max((end for end in ends if end is not None), default=None)
