"""Locks and holds: who set them, why, and until when."""

from collections.abc import Mapping
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa

from manent_server.domain.gates import Lock
from manent_server.store.clean import clean
from manent_server.store.tables import Tables
from manent_server.store.transaction import Transaction


def insert_lock(tx: Transaction, values: Mapping[str, Any]) -> None:
    """Set a lock."""
    tx.connection.execute(tx.tables.locks.insert().values(**clean(dict(values))))


def insert_hold(tx: Transaction, values: Mapping[str, Any]) -> None:
    """Set a hold."""
    tx.connection.execute(tx.tables.holds.insert().values(**clean(dict(values))))


@cache
def _all_locks(tables: Tables) -> sa.Select[Any]:
    t = tables.locks
    return sa.select(
        t.c.id,
        t.c.application,
        t.c.environment,
        t.c.reason,
        t.c.owner,
        t.c.created_at,
        t.c.expires_at,
        t.c.automatic,
        t.c.lifted_at,
    )


def read_lock(tx: Transaction, lock: str) -> Lock | None:
    """One lock, in force or not."""
    row = tx.connection.execute(
        _all_locks(tx.tables).where(tx.tables.locks.c.id == lock)
    ).one_or_none()
    return Lock(*tuple(row)) if row else None


def locks(tx: Transaction, *, at: datetime) -> list[Lock]:
    """Locks in force."""
    return [Lock(*tuple(row)) for row in tx.connection.execute(_in_force(tx.tables), {"at": at})]


@cache
def _in_force(tables: Tables) -> sa.Select[Any]:
    t = tables.locks
    is_on = sa.or_(t.c.expires_at.is_(None), t.c.expires_at > sa.bindparam("at"))
    return _all_locks(tables).where(t.c.lifted_at.is_(None), is_on).order_by(t.c.created_at, t.c.id)


def lift_locks(tx: Transaction, ids: list[str], *, by: str, at: datetime) -> list[str]:
    """Lift locks; the ids of those that were in force."""
    t = tx.tables.locks
    done = tx.connection.execute(
        sa.update(t)
        .where(t.c.id.in_(ids), t.c.lifted_at.is_(None))
        .values(lifted_at=at, lifted_by=by)
        .returning(t.c.id)
    )
    return list(done.scalars())


def lift_automatic(
    tx: Transaction, application: str, environment: str, *, by: str, at: datetime
) -> list[str]:
    """Lift the automatic locks of an application in an environment."""
    mine = [
        lock.id
        for lock in locks(tx, at=at)
        if lock.automatic and (lock.application, lock.environment) == (application, environment)
    ]
    return lift_locks(tx, mine, by=by, at=at) if mine else []
