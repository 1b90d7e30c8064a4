"""One look at the whole installation, by a handful of statements that no index is missing for."""

from datetime import datetime

import sqlalchemy as sa

from manent_server.domain.census import Group, Tenancy
from manent_server.store.deploys import LIVE_STATES
from manent_server.store.transaction import Transaction


def live(tx: Transaction) -> list[Group]:
    """Live deploys, those that stand alike together."""
    d = tx.tables.deploys
    alike = (d.c.environment, d.c.state, sa.func.coalesce(d.c.phase, ""), d.c.executor)
    query = (
        sa.select(*alike, sa.func.count(), sa.func.min(d.c.cancel_requested_at))
        .where(d.c.state.in_(LIVE_STATES))
        .group_by(*alike)
    )
    return [Group(*row) for row in tx.connection.execute(query)]


def taken_since(tx: Transaction) -> dict[str, datetime]:
    """Since when the oldest place of each environment is taken."""
    s = tx.tables.slots
    query = sa.select(s.c.environment, sa.func.min(s.c.taken_at)).group_by(s.c.environment)
    return {row[0]: row[1] for row in tx.connection.execute(query)}


def approvals(tx: Transaction) -> tuple[int, datetime | None]:
    """How many wait for people, and since when the oldest."""
    a = tx.tables.approvals
    # As text, so that the partial index is seen to hold every row.
    query = sa.select(sa.func.count(), sa.func.min(a.c.asked_at)).where(
        sa.text("state = 'waiting'")
    )
    count, since = tx.connection.execute(query.select_from(a)).one()
    return count, since


def marks(tx: Transaction, *, at: datetime) -> dict[tuple[str, bool], int]:
    """Marks in force, by sort and whether manent set them."""
    m = tx.tables.marks
    query = (
        sa.select(m.c.sort, m.c.automatic, sa.func.count())
        .where(
            m.c.lifted_at.is_(None),
            sa.or_(m.c.expires_at.is_(None), m.c.expires_at > at),
            sa.or_(m.c.starts_at.is_(None), m.c.starts_at <= at),
        )
        .group_by(m.c.sort, m.c.automatic)
    )
    return {(row[0], bool(row[1])): row[2] for row in tx.connection.execute(query)}


def leases(tx: Transaction) -> list[Tenancy]:
    """Every lease there ever was."""
    found = tx.tables.leases
    query = sa.select(found.c.name, found.c.token, found.c.until).order_by(found.c.name)
    return [Tenancy(*row) for row in tx.connection.execute(query)]
