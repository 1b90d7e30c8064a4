"""Executor rows and leases."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from manent_server.domain.errors import Unavailable
from manent_server.domain.liveness import is_lost
from manent_server.store import installation
from manent_server.store.tables import Tables
from manent_server.store.transaction import Transaction


@dataclass(frozen=True)
class Executor:
    """A worker's row in the registry; `incarnation` is drawn anew by each start."""

    id: str
    incarnation: str
    version: str
    build: str
    hostname: str
    boot: str
    pid_namespace: str
    started_at: datetime
    heartbeat_at: datetime
    stopped_at: datetime | None
    draining: bool
    pools: Sequence[str]
    plugins: Sequence[str]
    running: Sequence[str] | None
    configuration: str | None
    recovered_by: str | None


_NAMES = tuple(field.name for field in fields(Executor))


@cache
def _select(tables: Tables) -> sa.Select[Any]:
    return sa.select(*(tables.executors.c[name] for name in _NAMES))


@cache
def _by_id(tables: Tables, *, is_locked: bool = False) -> sa.Select[Any]:
    query = _select(tables).where(tables.executors.c.id == sa.bindparam("executor"))
    return query.with_for_update() if is_locked else query


@cache
def _everyone(tables: Tables) -> sa.Select[Any]:
    return _select(tables).order_by(tables.executors.c.id)


def read(tx: Transaction, executor: str) -> Executor | None:
    """One row, not locked: hand-out and prelude must not queue behind the heartbeat."""
    row = tx.connection.execute(_by_id(tx.tables), {"executor": executor}).one_or_none()
    return Executor(*row) if row else None


def lock(tx: Transaction, executor: str) -> Executor | None:
    """One row, locked until the transaction ends."""
    query = _by_id(tx.tables, is_locked=True)
    row = tx.connection.execute(query, {"executor": executor}).one_or_none()
    return Executor(*row) if row else None


def everyone(tx: Transaction) -> list[Executor]:
    """Every registered executor."""
    return [Executor(*row) for row in tx.connection.execute(_everyone(tx.tables))]


def is_mine(tx: Transaction, executor: str, incarnation: str) -> bool:
    """Whether the row carries this incarnation, nobody claimed it and things may begin."""
    values = {"executor": executor, "incarnation": incarnation, **tx.floor}
    return tx.connection.execute(_mine(tx.tables), values).one_or_none() is not None


@cache
def _mine(tables: Tables) -> sa.Select[Any]:
    e, given = tables.executors, sa.bindparam
    return sa.select(e.c.id).where(
        e.c.id == given("executor"),
        e.c.incarnation == given("incarnation"),
        e.c.recovered_by.is_(None),
        installation.is_open(tables),
    )


def has_died(tx: Transaction, executor: str, incarnation: str) -> bool:
    """Whether a start of a worker is gone without a recorded stop: claimed, replaced, forgotten."""
    row = read(tx, executor)
    if row is None or row.incarnation != incarnation:
        return True
    return row.recovered_by is not None and row.stopped_at is None


def write(tx: Transaction, values: Mapping[str, Any]) -> bool:
    """Take the row: insert it, or replace what an earlier start wrote.

    Returns:
        False if another process inserted it at the same moment.
    """
    e = tx.tables.executors
    done = tx.connection.execute(sa.update(e).where(e.c.id == values["id"]).values(**values))
    if done.rowcount != 0:
        return True
    dialect = sqlite if tx.dialect == "sqlite" else postgresql
    insert = dialect.insert(e).values(**values).on_conflict_do_nothing().returning(e.c.id)
    return tx.connection.execute(insert).one_or_none() is not None


def claim(tx: Transaction, executor: str, incarnation: str, *, by: str, again: bool) -> bool:
    """Write who takes over from this incarnation: it is never "mine" again.

    Args:
        tx: The transaction that takes its deploys.
        executor: The row.
        incarnation: The start of it that was judged.
        by: Who claims.
        again: Also if somebody has claimed it before.

    Returns:
        False if somebody was faster: another start of it, or another claim.
    """
    e = tx.tables.executors
    where = [e.c.id == executor, e.c.incarnation == incarnation]
    where += [] if again else [e.c.recovered_by.is_(None)]
    done = tx.connection.execute(sa.update(e).where(*where).values(recovered_by=by))
    return done.rowcount == 1


def retire_all(tx: Transaction, *, by: str, at: datetime) -> None:
    """Take every row as that of a worker of the past: stopped, and claimed from."""
    e = tx.tables.executors
    stopped = sa.func.coalesce(e.c.stopped_at, sa.literal(at, e.c.stopped_at.type))
    tx.connection.execute(sa.update(e).values(stopped_at=stopped, running=[], recovered_by=by))


def forget(tx: Transaction, executor: str, incarnation: str) -> bool:
    """Take an executor out of the registry; False if it has started again meanwhile."""
    e = tx.tables.executors
    where = (e.c.id == executor, e.c.incarnation == incarnation)
    return tx.connection.execute(sa.delete(e).where(*where)).rowcount == 1


def update(tx: Transaction, executor: str, incarnation: str, **values: Any) -> bool:
    """Change the row of this incarnation; False if it is another's or claimed."""
    e = tx.tables.executors
    done = tx.connection.execute(
        sa.update(e)
        .where(e.c.id == executor, e.c.incarnation == incarnation, e.c.recovered_by.is_(None))
        .values(**values)
    )
    return done.rowcount == 1


@dataclass(frozen=True)
class Lease:
    """A right to act alone, with the token every batch of its holder checks."""

    name: str
    holder: str
    token: int


Term = tuple[int, datetime]
"""Token and end of a lease: prolonged or taken anew it has another."""


def take_lease(  # noqa: PLR0913 - a lease, who asks, when and for how long
    tx: Transaction,
    name: str,
    holder: str,
    *,
    lasts: timedelta,
    at: datetime,
    overdue: Term | None = None,
) -> Lease | None:
    """Take or prolong a lease; None while another holds it, or nothing may begin.

    Args:
        tx: The transaction.
        name: Of the lease.
        holder: Who asks.
        lasts: How long it lasts.
        at: The database's clock.
        overdue: A term that has ended whatever that clock says: it was set back.
    """
    values = {"name": name, **tx.floor}
    row = tx.connection.execute(_lease_to_take(tx.tables), values).one_or_none()
    if row is None:
        return _first_lease(tx, name, holder, until=at + lasts)
    if row.holder != holder and row.until > at and (row.token, row.until) != overdue:
        return None
    token = row.token if row.holder == holder and row.until > at else row.token + 1
    values = {"of_name": name, "holder": holder, "token": token, "until": at + lasts}
    tx.connection.execute(_lease_taken(tx.tables), values)
    return Lease(name, holder, token)


@cache
def _lease_to_take(tables: Tables) -> sa.Select[Any]:
    leases = tables.leases
    query = sa.select(leases.c.holder, leases.c.token, leases.c.until)
    is_it = leases.c.name == sa.bindparam("name")
    query = query.where(is_it, installation.is_open(tables))
    return query.with_for_update(skip_locked=True, of=leases)


@cache
def _lease_taken(tables: Tables) -> sa.Update:
    """The columns are those of the values it is executed with."""
    return sa.update(tables.leases).where(tables.leases.c.name == sa.bindparam("of_name"))


def _first_lease(tx: Transaction, name: str, holder: str, *, until: datetime) -> Lease | None:
    """The first ever holder of a lease; None if another was faster or the row is locked."""
    leases = tx.tables.leases
    dialect = sqlite if tx.dialect == "sqlite" else postgresql
    given = (sa.literal(value) for value in (name, holder, 1))
    first = sa.select(*given, sa.literal(until, leases.c.until.type))
    first = first.where(installation.is_open(tx.tables))
    insert = dialect.insert(leases).from_select(["name", "holder", "token", "until"], first)
    written = insert.on_conflict_do_nothing().returning(leases.c.name)
    made = tx.connection.execute(written, tx.floor).one_or_none() is not None
    return Lease(name, holder, 1) if made else None


def holds_lease(tx: Transaction, lease: Lease, *, at: datetime) -> bool:
    """Whether the lease is still this holder's; asked in the transaction that acts."""
    values = {"name": lease.name, **tx.floor}
    row = tx.connection.execute(_lease_of(tx.tables), values).one_or_none()
    return row is not None and row.token == lease.token and row.until > at


def term(tx: Transaction, name: str) -> Term | None:
    """How a lease stands, whoever has it."""
    row = tx.connection.execute(_lease_of(tx.tables), {"name": name, **tx.floor}).one_or_none()
    return None if row is None else (row.token, row.until)


class LeaseLost(Unavailable):
    """A batch of a lease's holder that comes too late: another may act by now."""


def demand_lease(tx: Transaction, lease: Lease, *, lasts: timedelta, prolongs: bool) -> None:
    """Go on only if the lease is still this holder's; nobody can take it before the end of `tx`.

    Args:
        tx: The transaction that acts.
        lease: As it was taken.
        lasts: How long it lasts from now if it is prolonged.
        prolongs: Whether to do that.

    Raises:
        LeaseLost: It has ended, it is another's, or nothing may begin.
    """
    values = {"name": lease.name, "token": lease.token, **tx.floor}
    until = tx.connection.execute(_lease_kept(tx.tables), values).scalar_one_or_none()
    at = tx.now()
    if until is None or until <= at:
        raise LeaseLost(f"the lease {lease.name} has ended", next="another process goes on")
    if prolongs:
        # The row's lock keeps the token what it was.
        values = {"of_name": lease.name, "until": at + lasts}
        tx.connection.execute(_lease_taken(tx.tables), values)


@cache
def _lease_kept(tables: Tables) -> sa.Select[Any]:
    leases, given = tables.leases, sa.bindparam
    mine = leases.c.name == given("name"), leases.c.token == given("token")
    query = sa.select(leases.c.until).where(*mine, installation.is_open(tables))
    return query.with_for_update(read=True, key_share=True, of=leases)


@cache
def _lease_of(tables: Tables) -> sa.Select[Any]:
    leases = tables.leases
    query = sa.select(leases.c.token, leases.c.until)
    return query.where(leases.c.name == sa.bindparam("name"), installation.is_open(tables))


def give_up_lease(tx: Transaction, lease: Lease) -> None:
    """End a lease early, so that another need not wait for its end."""
    leases = tx.tables.leases
    tx.connection.execute(
        sa.update(leases)
        .where(leases.c.name == lease.name, leases.c.token == lease.token)
        .values(until=tx.now())
    )


def offering(tx: Transaction, *, pool: str, stale_after: timedelta, at: datetime) -> list[Executor]:
    """Executors that take from the pool: alive by the database's clock and not draining."""
    crew = alive(tx, stale_after=stale_after, at=at)
    return [executor for executor in crew if pool in executor.pools]


def alive(tx: Transaction, *, stale_after: timedelta, at: datetime) -> list[Executor]:
    """Executors that take work: alive by the database's clock, unclaimed and not draining."""
    return [
        executor
        for executor in everyone(tx)
        if not executor.draining
        and executor.recovered_by is None
        and not is_lost(
            heartbeat_at=executor.heartbeat_at,
            stopped_at=executor.stopped_at,
            at=at,
            stale_after=stale_after,
        )
    ]
