"""Places and order in an environment: its row lock, numbers, tickets and slots."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa

from manent_server.domain.access import ALL, Scope
from manent_server.domain.deploy import State
from manent_server.store import deploys, installation
from manent_server.store.deploys import Deploy
from manent_server.store.sight import within
from manent_server.store.tables import Tables, into
from manent_server.store.transaction import Transaction, clock

_HEADS = 50


@dataclass(frozen=True)
class Environment:
    """The row every admission to an environment is serialised by."""

    name: str
    tier: str
    pool: str
    concurrency: int
    is_configured: bool
    rules: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Slot:
    """One place in an environment, taken by a deploy of one application."""

    environment: str
    application: str
    place: int
    deploy: str
    taken_at: datetime


@cache
def _environment(tables: Tables) -> sa.Select[Any]:
    e = tables.environments
    return sa.select(e.c.name, e.c.tier, e.c.pool, e.c.concurrency, e.c.is_configured, e.c.rules)


def lock_environment(tx: Transaction, name: str) -> Environment | None:
    """The environment's row, locked until the transaction ends."""
    row = tx.connection.execute(_locked(tx.tables, tx.dialect), {"name": name}).one_or_none()
    if row is None:
        return None
    *values, at = row
    if at is not None:
        tx.heard(at)
    return Environment(*values)


@cache
def _locked(tables: Tables, dialect: str) -> sa.Select[Any]:
    """The row, and the clock as it was once the row's lock was got: the inner query locks."""
    is_it = tables.environments.c.name == sa.bindparam("name")
    locked = _environment(tables).where(is_it).with_for_update().subquery("locked")
    return sa.select(*locked.c, clock(dialect))


def environments(tx: Transaction) -> list[Environment]:
    """Every environment that is configured or still has rows."""
    query = _environment(tx.tables).order_by(tx.tables.environments.c.name)
    return [Environment(*row) for row in tx.connection.execute(query)]


def next_number(tx: Transaction, environment: str) -> int:
    """The next number there; the caller holds the row's lock, so no number is left out."""
    return _draw(tx, environment, "next_number")


def next_ticket(tx: Transaction, environment: str) -> int:
    """The next place in the order of admission there."""
    return next_tickets(tx, environment, 1)


def next_tickets(tx: Transaction, environment: str, count: int) -> int:
    """The first of as many places in the order of admission there."""
    return _draw(tx, environment, "next_ticket", count)


def _draw(tx: Transaction, environment: str, counter: str, count: int = 1) -> int:
    values = {"environment": environment, "many": count}
    return int(tx.connection.execute(_drawn(tx.tables, counter), values).scalar_one())


@cache
def _drawn(tables: Tables, counter: str) -> sa.UpdateBase:
    e, many = tables.environments, sa.bindparam("many", type_=sa.BigInteger)
    drawn = sa.update(e).where(e.c.name == sa.bindparam("environment"))
    return drawn.values({counter: e.c[counter] + many}).returning(e.c[counter] - many)


def slots(tx: Transaction, environment: str | None = None) -> list[Slot]:
    """Taken places."""
    query = _slots(tx.tables, is_one=environment is not None)
    return [Slot(*row) for row in tx.connection.execute(query, {"environment": environment})]


@cache
def _slots(tables: Tables, *, is_one: bool) -> sa.Select[Any]:
    s = tables.slots
    query = sa.select(s.c.environment, s.c.application, s.c.place, s.c.deploy, s.c.taken_at)
    query = query.order_by(s.c.environment, s.c.place)
    return query.where(s.c.environment == sa.bindparam("environment")) if is_one else query


def has_slot(tx: Transaction, deploy: str) -> bool:
    """Whether the deploy holds a place."""
    found = tx.connection.execute(_place_of(tx.tables), {"deploy": deploy})
    return found.one_or_none() is not None


@cache
def _place_of(tables: Tables) -> sa.Select[Any]:
    s = tables.slots
    return sa.select(s.c.place).where(s.c.deploy == sa.bindparam("deploy"))


def take_slot(tx: Transaction, deploy: Deploy, *, place: int, at: datetime) -> None:
    """Take a place; the table's keys refuse a second one for the same application."""
    values = {
        "environment": deploy.environment,
        "application": deploy.application,
        "place": place,
        "deploy": deploy.id,
        "taken_at": at,
    }
    tx.connection.execute(into(tx.tables.slots), values)


def free_slot(tx: Transaction, deploy: str) -> None:
    """Give the place back."""
    tx.connection.execute(_freed(tx.tables), {"deploy": deploy})


@cache
def _freed(tables: Tables) -> sa.Delete:
    return sa.delete(tables.slots).where(tables.slots.c.deploy == sa.bindparam("deploy"))


def waiting(
    tx: Transaction, environment: str, *, limit: int | None = None, sight: Scope = ALL
) -> list[Deploy]:
    """Deploys with a ticket and no slot, the head of the queue first.

    A rollback stands before everything else of its environment.
    """
    d = tx.tables.deploys
    query = deploys.whole(tx.tables).where(_queued(tx.tables, environment))
    query = within(query, sight, d.c.application, d.c.environment)
    query = query.order_by(d.c.priority, d.c.ticket)
    if limit is not None:
        query = query.limit(limit)
    return [deploys.of(row) for row in tx.connection.execute(query)]


def waiting_before(tx: Transaction, row: Deploy) -> list[Deploy]:
    """Older deploys of its application there that have no place yet, their rows locked."""
    d, s = tx.tables.deploys, tx.tables.slots
    query = deploys.whole(tx.tables).where(
        d.c.application == row.application,
        d.c.environment == row.environment,
        d.c.state.in_((State.DELAYED, State.ENQUEUED)),
        d.c.number < row.number,
        ~sa.exists().where(s.c.deploy == d.c.id),
    )
    query = query.order_by(d.c.id).with_for_update()
    return [deploys.of(found) for found in tx.connection.execute(query)]


def lock_live(tx: Transaction, environment: str, applications: Collection[str]) -> None:
    """Lock every live deploy of these applications there, in the order of ids."""
    d = tx.tables.deploys
    if not applications:
        return
    query = sa.select(d.c.id).where(
        d.c.environment == environment,
        d.c.application.in_(applications),
        d.c.state.in_(deploys.LIVE_STATES),
    )
    tx.connection.execute(query.order_by(d.c.id).with_for_update()).all()


def occupant(tx: Transaction, place: tuple[str, str]) -> str | None:
    """The deploy that has the place of (application, environment), else the next to get it."""
    d, s = tx.tables.deploys, tx.tables.slots
    mine = sa.select(s.c.deploy).where(s.c.application == place[0], s.c.environment == place[1])
    found: str | None = tx.connection.execute(mine).scalar_one_or_none()
    if found is not None:
        return found
    query = sa.select(d.c.id).where(_queued(tx.tables, place[1]), d.c.application == place[0])
    query = query.order_by(d.c.priority, d.c.ticket).limit(1)
    return tx.connection.execute(query).scalar_one_or_none()


def _queued(tables: Tables, environment: Any) -> sa.ColumnElement[bool]:
    d, s = tables.deploys, tables.slots
    return sa.and_(
        d.c.environment == environment,
        d.c.state == State.ENQUEUED,
        d.c.ticket.is_not(None),
        ~sa.exists().where(s.c.deploy == d.c.id),
    )


def ahead_of(tx: Transaction, environment: str, priority: int) -> list[str]:
    """Deploys that one of this priority would queue behind, the head first."""
    d = tx.tables.deploys
    query = sa.select(d.c.id).where(_queued(tx.tables, environment), d.c.priority <= priority)
    return list(tx.connection.execute(query.order_by(d.c.priority, d.c.ticket)).scalars())


def has_waiting(tx: Transaction, environment: str) -> bool:
    """Whether anything there waits for its gates or for a place, and may be given one."""
    values = {"environment": environment, **tx.floor}
    found = tx.connection.execute(_one_waiting(tx.tables), values)
    return found.first() is not None


@cache
def _one_waiting(tables: Tables) -> sa.Select[Any]:
    d, s = tables.deploys, tables.slots
    is_placed = sa.exists().where(s.c.deploy == d.c.id)
    query = sa.select(d.c.id).where(
        d.c.environment == sa.bindparam("environment"),
        d.c.state.in_((State.DELAYED, State.ENQUEUED)),
        ~is_placed,
        installation.is_open(tables),
    )
    return query.limit(1)


@dataclass(frozen=True)
class Reach:
    """Which part of a queue is asked for: deploys of these pools, after a place in it."""

    pools: Collection[str]
    after: tuple[int, int] | None = None


def heads(
    tx: Transaction, environment: str, reach: Reach, *, without: Collection[str]
) -> list[Deploy]:
    """The next deploys of the queue, passing over applications at work."""
    values: dict[str, Any] = {
        "environment": environment,
        "without": list(without),
        "pools": list(reach.pools),
    }
    query = _heads(tx.tables)
    if reach.after is not None:
        query = _heads_after(tx.tables)
        values["priority"], values["ticket"] = reach.after
    return [deploys.of(row) for row in tx.connection.execute(query, values)]


@cache
def _heads(tables: Tables) -> sa.Select[Any]:
    d, given = tables.deploys, sa.bindparam
    query = deploys.whole(tables).where(
        _queued(tables, given("environment")),
        d.c.application.not_in(given("without", expanding=True)),
        d.c.pool.in_(given("pools", expanding=True)),
    )
    return query.order_by(d.c.priority, d.c.ticket).limit(_HEADS)


@cache
def _heads_after(tables: Tables) -> sa.Select[Any]:
    d, given = tables.deploys, sa.bindparam
    is_same = sa.and_(d.c.priority == given("priority"), d.c.ticket > given("ticket"))
    is_later = sa.or_(d.c.priority > given("priority"), is_same)
    return _heads(tables).where(d.c.priority >= given("priority"), is_later)


def expired(tx: Transaction, environment: str, *, at: datetime, limit: int) -> list[str]:
    """Deploys in the queue whose last instant to begin has passed."""
    values = {"environment": environment, "at": at, "most": limit}
    return list(tx.connection.execute(_expired(tx.tables), values).scalars())


@cache
def _expired(tables: Tables) -> sa.Select[Any]:
    d, given = tables.deploys, sa.bindparam
    is_over = _queued(tables, given("environment")), d.c.not_after <= given("at")
    return sa.select(d.c.id).where(*is_over).limit(given("most"))


@dataclass(frozen=True)
class Post:
    """An environment in which something waits, and what its admission depends on.

    `delayed`: something waits for its gates there; `revision` is that of the policy that wrote
    the row; `next_ticket` moves with every deploy that joins the queue.
    """

    environment: str
    delayed: bool
    concurrency: int
    revision: int
    next_ticket: int


def posts(tx: Transaction) -> list[Post]:
    """Environments in which something waits for a place or for its gates."""
    rows = tx.connection.execute(_posts(tx.tables))
    return [Post(*row[:5]) for row in rows if row.delayed or row.queued]


@cache
def _posts(tables: Tables) -> sa.Select[Any]:
    """Whether there is one each asks an index for: thousands that wait cost no more."""
    d, s, e = tables.deploys, tables.slots, tables.environments
    here = d.c.environment == e.c.name
    delayed = sa.exists().where(here, d.c.state == State.DELAYED)
    queued = sa.exists().where(
        here, d.c.state == State.ENQUEUED, ~sa.exists().where(s.c.deploy == d.c.id)
    )
    return sa.select(
        e.c.name,
        delayed.label("delayed"),
        e.c.concurrency,
        e.c.policy_revision,
        e.c.next_ticket,
        queued.label("queued"),
    ).order_by(e.c.name)
