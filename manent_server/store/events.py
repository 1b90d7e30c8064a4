"""Event rows: written with their deed, numbered after its commit, read in that order."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa

from manent_server.domain import events
from manent_server.domain.access import ALL, Scope
from manent_server.domain.events import Event
from manent_server.domain.notice import NoticeState
from manent_server.store.sight import touching
from manent_server.store.tables import Tables, into
from manent_server.store.transaction import Transaction

_SAME = ("id", "at", "actor", "deploy", "application", "environment")


def insert(tx: Transaction, deeds: Sequence[Mapping[str, Any]]) -> None:
    """Write the events of deeds that are told; they get their positions later.

    Args:
        tx: The transaction that does the deeds.
        deeds: The columns of their records, and `detail`.
    """
    rows = [row(deed) for deed in deeds]
    if rows:
        tx.connection.execute(into(tx.tables.events), rows)


def row(deed: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of a deed's event."""
    return {key: deed[key] for key in (*_SAME, "detail")} | {"type": deed["action"]}


def has_unnumbered(tx: Transaction) -> bool:
    """Whether some event waits for its position."""
    return tx.connection.execute(_unnumbered(tx.tables)).first() is not None


@cache
def _unnumbered(tables: Tables) -> sa.Select[Any]:
    return sa.select(tables.events.c.entry).where(tables.events.c.position.is_(None)).limit(1)


def unnumbered_since(tx: Transaction) -> datetime | None:
    """Since when the oldest event waits for its position."""
    e = tx.tables.events
    found: datetime | None = tx.connection.execute(
        sa.select(e.c.at).where(e.c.position.is_(None)).order_by(e.c.entry).limit(1)
    ).scalar()
    return found


@dataclass(frozen=True)
class Numbered:
    """An event that has just got its position; `entry` is its row."""

    entry: int
    event: Event


def number(tx: Transaction, *, limit: int) -> list[Numbered]:
    """Give the next positions to committed events; only the holder of the lease may call it.

    A row that is not there yet gets a later position, whatever its `entry` is: whoever has read
    up to a position has seen everything below it.
    """
    # The lease keeps others away; the lock keeps away one whose lease has ended unseen.
    rows = tx.connection.execute(_to_number(tx.tables), {"most": limit}).all()
    if not rows:
        return []
    top = newest(tx)
    given = [
        {"of_entry": row.entry, "given": position} for position, row in enumerate(rows, top + 1)
    ]
    tx.connection.execute(_numbered(tx.tables), given)
    return [
        Numbered(row.entry, _event(row, position)) for position, row in enumerate(rows, top + 1)
    ]


@cache
def _to_number(tables: Tables) -> sa.Select[Any]:
    e = tables.events
    query = sa.select(e).where(e.c.position.is_(None)).order_by(e.c.entry)
    return query.limit(sa.bindparam("most")).with_for_update()


@cache
def _numbered(tables: Tables) -> sa.Update:
    e = tables.events
    return (
        sa.update(e)
        .where(e.c.entry == sa.bindparam("of_entry"))
        .values(position=sa.bindparam("given"))
    )


def newest(tx: Transaction) -> int:
    """The highest position given; 0 before the first."""
    return int(tx.connection.execute(_newest(tx.tables)).scalar() or 0)


@cache
def _newest(tables: Tables) -> sa.Select[Any]:
    return sa.select(sa.func.max(tables.events.c.position))


@dataclass(frozen=True)
class Wanted:
    """Which events to read: above `after`, at most `limit`, of one application or environment."""

    after: int
    limit: int
    application: str | None = None
    environment: str | None = None
    sight: Scope = ALL


def read(tx: Transaction, wanted: Wanted, *, until: int) -> list[Event]:
    """Events up to position `until`, in their order."""
    e = tx.tables.events
    query = (
        sa.select(e)
        .where(e.c.position > wanted.after, e.c.position <= until)
        .order_by(e.c.position)
        .limit(wanted.limit)
    )
    if wanted.application is not None:
        query = query.where(e.c.application == wanted.application)
    if wanted.environment is not None:
        query = query.where(e.c.environment == wanted.environment)
    query = visible(query, e, wanted.sight)
    return [_event(row, row.position) for row in tx.connection.execute(query)]


def visible(query: sa.Select[Any], e: sa.Table, sight: Scope) -> sa.Select[Any]:
    """Only events that somebody with this sight may see.

    Those of no place are about the installation, for whoever sees all of it; but a mark on
    everything touches everybody.
    """
    if sight.is_everywhere:
        return query
    is_placed = sa.or_(e.c.application.is_not(None), e.c.environment.is_not(None))
    query = query.where(sa.or_(is_placed, e.c.type.in_(events.OF_MARKS)))
    return touching(query, sight, e.c.application, e.c.environment)


def _event(row: Any, position: int) -> Event:
    return Event(
        id=row.id,
        position=position,
        at=row.at,
        type=row.type,
        actor=row.actor,
        deploy=row.deploy,
        application=row.application,
        environment=row.environment,
        detail=row.detail or {},
    )


def prefixed(row: Any) -> Event:
    """The event in a row of several tables, where its columns begin with `event_`."""
    return Event(
        id=row.event_id,
        position=row.event_position,
        at=row.event_at,
        type=row.event_type,
        actor=row.event_actor,
        deploy=row.event_deploy,
        application=row.event_application,
        environment=row.event_environment,
        detail=row.event_detail or {},
    )


def forget(tx: Transaction, *, before: datetime, owed_before: datetime, limit: int) -> int:
    """Remove old events; the newest stays: its position is the counter.

    Args:
        tx: The transaction.
        before: Older ones go, with the notices of them.
        owed_before: Only if older than this, those somebody was not told of yet.
        limit: At most so many.
    """
    e, n = tx.tables.events, tx.tables.notices
    owed = sa.exists().where(n.c.event == e.c.entry, n.c.state != NoticeState.DELIVERED)
    old = (
        sa.select(e.c.entry)
        .where(e.c.at < before, e.c.position < newest(tx))
        .where(sa.or_(~owed, e.c.at < owed_before))
        .order_by(e.c.position)
        .limit(limit)
    )
    return tx.connection.execute(sa.delete(e).where(e.c.entry.in_(old))).rowcount
