"""How far each receiver of the record was handed it."""

from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa

from manent_server.domain.audit import Entry
from manent_server.store.clean import text
from manent_server.store.tables import Tables
from manent_server.store.transaction import Transaction


@dataclass(frozen=True)
class Position:
    """The number of the last record a receiver has for good, and since when that fails."""

    sink: str
    number: int
    failing_since: datetime | None
    error: str | None


def read(tx: Transaction, sink: str) -> Position:
    """The position of one; before the first record for one that never had any."""
    row = tx.connection.execute(_one(tx.tables), {"sink": sink}).one_or_none()
    return Position(*row) if row else Position(sink, 0, None, None)


@cache
def _one(tables: Tables) -> sa.Select[Any]:
    return _all(tables).where(tables.audit_positions.c.sink == sa.bindparam("sink"))


def _all(tables: Tables) -> sa.Select[Any]:
    p = tables.audit_positions
    return sa.select(p.c.sink, p.c.number, p.c.failing_since, p.c.error)


def everyone(tx: Transaction) -> dict[str, Position]:
    """Of all receivers there ever were, by name."""
    return {row.sink: Position(*row) for row in tx.connection.execute(_all(tx.tables))}


def move(tx: Transaction, sink: str, number: int, *, at: datetime) -> None:
    """It has everything up to a number."""
    _write(tx, sink, {"number": number, "moved_at": at, "failing_since": None, "error": None})


def fail(tx: Transaction, sink: str, error: str, *, at: datetime) -> None:
    """It could not be handed on just now."""
    known = read(tx, sink)
    values = {"failing_since": known.failing_since or at, "error": text(error)}
    _write(tx, sink, values | {"number": known.number, "moved_at": at})


def _write(tx: Transaction, sink: str, values: dict[str, Any]) -> None:
    p = tx.tables.audit_positions
    done = tx.connection.execute(sa.update(p).where(p.c.sink == sink).values(**values))
    if done.rowcount == 0:
        tx.connection.execute(p.insert().values(sink=sink, **values))


def entries(tx: Transaction, *, after: int, limit: int) -> list[Entry]:
    """Chained records, in the order of their numbers."""
    rows = tx.connection.execute(_entries(tx.tables), {"after": after, "most": limit})
    return [Entry(*row) for row in rows]


@cache
def _entries(tables: Tables) -> sa.Select[Any]:
    a, c = tables.audit, tables.audit_chain
    return (
        sa.select(c.c.number, c.c.hash, a.c.record)
        .join_from(c, a, a.c.entry == c.c.entry)
        .where(c.c.number > sa.bindparam("after"))
        .order_by(c.c.number)
        .limit(sa.bindparam("most"))
    )


def oldest_after(tx: Transaction, number: int) -> datetime | None:
    """When the first record after a number was written."""
    a, c = tx.tables.audit, tx.tables.audit_chain
    query = (
        sa.select(a.c.at)
        .join_from(c, a, a.c.entry == c.c.entry)
        .where(c.c.number > number)
        .order_by(c.c.number)
        .limit(1)
    )
    found: datetime | None = tx.connection.execute(query).scalar()
    return found
