"""Token rows: a digest, never the token."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa

from manent_server.domain.access import PERSON, Kind
from manent_server.store.tables import Tables
from manent_server.store.transaction import Transaction, clock


@dataclass(frozen=True)
class Token:
    """One token; `shown` is its beginning, for people to tell it apart."""

    id: str
    name: str
    shown: str
    role: str
    kind: Kind
    groups: Sequence[str]
    applications: Sequence[str]
    environments: Sequence[str]
    created_by: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    last_used_from: str | None


@cache
def _select(tables: Tables) -> sa.Select[Any]:
    t = tables.tokens
    return sa.select(*(t.c[one.name] for one in fields(Token)))


def insert(tx: Transaction, values: Mapping[str, Any]) -> None:
    """Write a new token."""
    tx.connection.execute(tx.tables.tokens.insert().values(**values))


def read(tx: Transaction, token: str) -> Token | None:
    """One token by its id."""
    row = tx.connection.execute(
        _select(tx.tables).where(tx.tables.tokens.c.id == token)
    ).one_or_none()
    return Token(*tuple(row)) if row else None


def by_hash(tx: Transaction, digest: str) -> Token | None:
    """The token with that digest, if it is in force; the clock comes with it."""
    query = _by_hash(tx.tables, tx.dialect)
    row = tx.connection.execute(query, {"digest": digest}).one_or_none()
    if row is None:
        return None
    *values, at = row
    if at is not None:
        tx.heard(at)
    found = Token(*values)
    return found if found.expires_at is None or found.expires_at > tx.now() else None


@cache
def _by_hash(tables: Tables, dialect: str) -> sa.Select[Any]:
    t = tables.tokens
    is_it = t.c.hash == sa.bindparam("digest"), t.c.revoked_at.is_(None)
    return _select(tables).add_columns(clock(dialect)).where(*is_it)


def ended(tx: Transaction, digest: str) -> Token | None:
    """The token with that digest, in force or not."""
    query = _select(tx.tables).where(tx.tables.tokens.c.hash == digest)
    row = tx.connection.execute(query).one_or_none()
    return Token(*tuple(row)) if row else None


def is_revoked(tx: Transaction, token: str) -> bool:
    """Whether somebody has revoked it; held until the transaction ends, so that nobody can."""
    t = tx.tables.tokens
    query = sa.select(t.c.revoked_at).where(t.c.id == token).with_for_update(read=True)
    return tx.connection.execute(query).scalar_one_or_none() is not None


def touch(tx: Transaction, token: str, *, at: datetime, address: str | None) -> None:
    """Note that it was used."""
    t = tx.tables.tokens
    used = {"last_used_at": at, "last_used_from": address}
    tx.connection.execute(sa.update(t).where(t.c.id == token).values(**used))


def of_people(tx: Transaction, names: Sequence[str], *, at: datetime) -> list[Token]:
    """The tokens in force of people under one of these names, the oldest first."""
    t = tx.tables.tokens
    query = _select(tx.tables).where(
        t.c.name.in_(names),
        t.c.kind == PERSON,
        t.c.revoked_at.is_(None),
        sa.or_(t.c.expires_at.is_(None), t.c.expires_at > at),
    )
    return [Token(*row) for row in tx.connection.execute(query.order_by(t.c.created_at, t.c.id))]


def everyone(tx: Transaction) -> list[Token]:
    """Every token, the oldest first."""
    t = tx.tables.tokens
    query = _select(tx.tables).order_by(t.c.created_at, t.c.id)
    return [Token(*tuple(row)) for row in tx.connection.execute(query)]


def revoke(tx: Transaction, token: str, *, at: datetime) -> None:
    """End a token; one that has ended keeps its first end."""
    t = tx.tables.tokens
    tx.connection.execute(
        sa.update(t).where(t.c.id == token, t.c.revoked_at.is_(None)).values(revoked_at=at)
    )
