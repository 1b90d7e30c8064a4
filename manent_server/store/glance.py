"""A glance: what waits for the loops of a process, by one statement for all of them."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import sqlalchemy as sa

from manent_server.domain.deploy import Phase
from manent_server.store.tables import Tables
from manent_server.store.transaction import Transaction


@dataclass(frozen=True)
class Glance:
    """What there is to do; whoever does it looks for itself.

    Attributes:
        events: Some wait for their positions.
        records: Some wait for their numbers.
        unresolved: Of some deploys it is to be found out what they would bring.
        wakes: Some have come.
        schedules: Of some an instant has come.
        head: The last number of the record.
    """

    events: bool
    records: bool
    unresolved: bool
    wakes: bool
    schedules: bool
    head: int


def glance(tx: Transaction) -> Glance:
    """Look once."""
    values = {"now": tx.now()} if tx.dialect == "sqlite" else {}
    return Glance(*tx.connection.execute(_glance(tx.tables, tx.dialect), values).one())


@cache
def _glance(tables: Tables, dialect: str) -> sa.Select[Any]:
    d, w, s = tables.deploys, tables.wakes, tables.schedules
    # The instants are columns of one type on either database.
    now: sa.ColumnElement[Any] = (
        sa.bindparam("now", type_=w.c.at.type)
        if dialect == "sqlite"
        else sa.func.statement_timestamp()
    )
    last = sa.select(sa.func.coalesce(sa.func.max(tables.audit_chain.c.number), 0))
    unresolved = sa.exists().where(
        # As the partial index has it.
        sa.text("approval = 'resolving' AND state = 'DELAYED'"),
        d.c.phase == Phase.RESOLVING,
        sa.or_(d.c.approval_at.is_(None), d.c.approval_at <= now),
    )
    return sa.select(
        sa.exists().where(tables.events.c.position.is_(None)),
        sa.exists().select_from(tables.audit_waiting),
        unresolved,
        sa.exists().where(w.c.at <= now),
        sa.exists().where(s.c.next_at <= now),
        last.scalar_subquery(),
    )
