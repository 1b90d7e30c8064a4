"""One heartbeat: it moves the worker's row and the leases of its attempts together."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from manent_server.store import workers
from manent_server.store.deploys import LIVE_STATES
from manent_server.store.tables import Tables
from manent_server.store.transaction import Transaction


@dataclass(frozen=True)
class Beat:
    """What a worker says.

    Attributes:
        executor: Its row.
        incarnation: This start of it.
        running: The deploys it runs.
        attempts: The attempts whose guard it has.
        lease: How long they may go on from now; None for no end.
        configuration: The digest of what it runs with; a reload changes it.
    """

    executor: str
    incarnation: str
    running: Sequence[str]
    attempts: Sequence[str]
    lease: timedelta | None
    configuration: str


@dataclass(frozen=True)
class Answer:
    """Which attempts are still the worker's, and which of these got a new lease.

    An owned one whose row somebody held keeps the lease it had.
    """

    owned: frozenset[str]
    renewed: frozenset[str]


def beat(tx: Transaction, said: Beat) -> Answer | None:
    """One heartbeat; None if the row is not this incarnation's any more, or claimed."""
    return _beat_sqlite(tx, said) if tx.dialect == "sqlite" else _beat_postgres(tx, said)


def _beat_sqlite(tx: Transaction, said: Beat) -> Answer | None:
    """The transaction holds the lock of the whole database: nobody holds a row."""
    at = tx.now()
    if not workers.update(
        tx,
        said.executor,
        said.incarnation,
        heartbeat_at=at,
        running=list(said.running),
        configuration=said.configuration,
    ):
        return None
    a = tx.tables.attempts
    owned = _owned(tx.tables).where(a.c.id.in_(said.attempts))
    found = frozenset(tx.connection.execute(owned, _who(said)).scalars())
    if said.lease is None or not found:
        return Answer(found, frozenset())
    moved = sa.update(a).where(a.c.id.in_(found)).values(lease_until=at + said.lease)
    tx.connection.execute(moved)
    return Answer(found, found)


def _who(said: Beat) -> dict[str, str]:
    return {"its_executor": said.executor, "its_incarnation": said.incarnation}


def _beat_postgres(tx: Transaction, said: Beat) -> Answer | None:
    rows = tx.connection.execute(
        _statement(tx.tables),
        {
            **_who(said),
            "its_deploys": list(said.running),
            "its_attempts": list(said.attempts),
            "its_lease": said.lease,
            "its_configuration": said.configuration,
        },
    ).all()
    if not rows:
        return None
    owned = frozenset(row.owned for row in rows if row.owned is not None)
    return Answer(owned, frozenset(row.renewed for row in rows if row.renewed is not None))


def _owned(tables: Tables) -> sa.Select[Any]:
    """Open attempts whose deploy still carries this start and the epoch they began under."""
    a, d = tables.attempts, tables.deploys
    return (
        sa.select(a.c.id)
        .join(d, d.c.id == a.c.deploy)
        .where(
            a.c.ended_at.is_(None),
            d.c.state.in_(LIVE_STATES),
            d.c.epoch == a.c.epoch,
            d.c.executor == sa.bindparam("its_executor"),
            d.c.incarnation == sa.bindparam("its_incarnation"),
        )
    )


@cache
def _statement(tables: Tables) -> sa.Select[Any]:
    """One statement, so that a worker cut off in between has done all of it or nothing."""
    e, a, given = tables.executors, tables.attempts, sa.bindparam
    beat = (
        sa.update(e)
        .where(
            e.c.id == given("its_executor"),
            e.c.incarnation == given("its_incarnation"),
            e.c.recovered_by.is_(None),
        )
        .values(
            heartbeat_at=sa.func.clock_timestamp(),
            running=given("its_deploys", type_=e.c.running.type),
            configuration=given("its_configuration", type_=e.c.configuration.type),
        )
        .returning(e.c.id)
        .cte("beat")
    )
    names = given("its_attempts", type_=postgresql.ARRAY(sa.Text))
    # Where the row was claimed while this waited for it, nothing is owned.
    owned = (
        _owned(tables).where(a.c.id == sa.any_(names), sa.exists(sa.select(beat.c.id))).cte("owned")
    )
    seen, lease = a.alias("seen"), sa.cast(given("its_lease"), sa.Interval)
    free = (
        sa.select(seen.c.id)
        .where(
            seen.c.id.in_(sa.select(owned.c.id)),
            seen.c.ended_at.is_(None),
            lease.is_not(None),
        )
        .with_for_update(skip_locked=True)
    )
    renewed = (
        sa.update(a)
        .where(a.c.id.in_(free), a.c.ended_at.is_(None))
        .values(lease_until=sa.func.clock_timestamp() + lease)
        .returning(a.c.id)
        .cte("renewed")
    )
    both = beat.outerjoin(owned, sa.true()).outerjoin(renewed, renewed.c.id == owned.c.id)
    return sa.select(owned.c.id.label("owned"), renewed.c.id.label("renewed")).select_from(both)
