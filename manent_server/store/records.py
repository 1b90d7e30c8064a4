"""Rows that accompany a decision: idempotency keys, wakes, inventory; and its record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from manent_server.store.audit import Deed, read_detail, write_audit, write_audits
from manent_server.store.clean import clean
from manent_server.store.tables import Tables, into
from manent_server.store.transaction import Transaction

__all__ = ["Deed", "read_detail", "write_audit", "write_audits"]


@dataclass(frozen=True)
class Key:
    """An idempotency key as it was used first: by whom, where, for which body and what came."""

    principal: str
    path: str
    key: str
    body_digest: str
    subject: str


def read_key(tx: Transaction, principal: str, path: str, key: str) -> Key | None:
    """The first use of a key, if there was one."""
    k = tx.tables.keys
    row = tx.connection.execute(
        sa.select(k.c.principal, k.c.path, k.c.key, k.c.body_digest, k.c.subject).where(
            k.c.principal == principal, k.c.path == path, k.c.key == key
        )
    ).one_or_none()
    return Key(*row) if row else None


class KeyTaken(Exception):
    """The same key was used first by somebody at the same moment: read it and answer that."""


def write_key(tx: Transaction, key: Key, *, at: datetime) -> None:
    """Record the first use.

    Raises:
        KeyTaken: Another transaction was first.
    """
    dialect = sqlite if tx.dialect == "sqlite" else postgresql
    insert = dialect.insert(tx.tables.keys).values(
        principal=key.principal,
        path=key.path,
        key=key.key,
        body_digest=key.body_digest,
        subject=key.subject,
        created_at=at,
    )
    written = insert.on_conflict_do_nothing().returning(tx.tables.keys.c.key)
    if tx.connection.execute(written).one_or_none() is None:
        raise KeyTaken


Named = tuple[str, str, str]
"""Principal, path and key: what a key is found by."""


def old_keys(tx: Transaction, *, before: datetime, after: Named | None, limit: int) -> list[Named]:
    """A page of the keys that are older than an instant and whose deploy is gone, if it was one.

    A key outlives its deploy: while that can be read, the same request is answered with it.
    """
    k, d = tx.tables.keys, tx.tables.deploys
    named = (k.c.principal, k.c.path, k.c.key)
    there = sa.exists().where(d.c.id == k.c.subject)
    query = sa.select(*named).where(k.c.created_at < before, ~there)
    if after is not None:
        query = query.where(sa.tuple_(*named) > sa.tuple_(*map(sa.literal, after)))
    rows = tx.connection.execute(query.order_by(*named).limit(limit))
    return [(row.principal, row.path, row.key) for row in rows]


def forget_keys(tx: Transaction, keys: Sequence[Named]) -> None:
    """Remove keys: whoever sends one again asks for something new."""
    k = tx.tables.keys
    one = sa.and_(
        k.c.principal == sa.bindparam("of"),
        k.c.path == sa.bindparam("at"),
        k.c.key == sa.bindparam("named"),
    )
    values = [{"of": of, "at": path, "named": key} for of, path, key in keys]
    tx.connection.execute(sa.delete(k).where(one), values)


def wake(tx: Transaction, deploy: str, at: datetime, reason: str) -> None:
    """Look at the deploy again at that instant; the one wake of a deploy is replaced."""
    w = tx.tables.wakes
    done = tx.connection.execute(
        sa.update(w).where(w.c.deploy == deploy).values(at=at, reason=reason)
    )
    if done.rowcount == 0:
        tx.connection.execute(w.insert().values(deploy=deploy, at=at, reason=reason))


def unwake(tx: Transaction, deploy: str) -> None:
    """Nothing is to be looked at any more."""
    tx.connection.execute(_unwoken(tx.tables), {"deploy": deploy})


@cache
def _unwoken(tables: Tables) -> sa.Delete:
    return sa.delete(tables.wakes).where(tables.wakes.c.deploy == sa.bindparam("deploy"))


@dataclass(frozen=True)
class Due:
    """A deploy whose wake has come; `is_delayed`: it waits for its gates."""

    deploy: str
    environment: str
    is_delayed: bool


def due(tx: Transaction, *, at: datetime, limit: int) -> list[Due]:
    """Deploys whose wake has come, the longest due first."""
    rows = tx.connection.execute(_due(tx.tables), {"now": at, "most": limit})
    return [Due(row.deploy, row.environment, row.state == "DELAYED") for row in rows]


@cache
def _due(tables: Tables) -> sa.Select[Any]:
    """Found by their instants first: few are due, however many deploys wait."""
    w, d = tables.wakes, tables.deploys
    first = sa.select(w.c.deploy, w.c.at).where(w.c.at <= sa.bindparam("now")).order_by(w.c.at)
    found = first.limit(sa.bindparam("most")).subquery("due")
    query = sa.select(found.c.deploy, d.c.environment, d.c.state)
    return query.join_from(found, d, d.c.id == found.c.deploy).order_by(found.c.at)


def wake_waiting(
    tx: Transaction, environment: str | None, application: str | None, *, at: datetime
) -> None:
    """Look at once at running deploys of a place that wait for a gate."""
    w, d = tx.tables.wakes, tx.tables.deploys
    mine = sa.select(d.c.id).where(d.c.state == "PENDING")
    if environment:
        mine = mine.where(d.c.environment == environment)
    if application:
        mine = mine.where(d.c.application == application)
    tx.connection.execute(
        sa.update(w).where(w.c.reason == "gate", w.c.deploy.in_(mine)).values(at=at)
    )


def wake_of(tx: Transaction, deploy: str) -> tuple[datetime, str] | None:
    """When a deploy is to be looked at again, and why."""
    w = tx.tables.wakes
    row = tx.connection.execute(
        sa.select(w.c.at, w.c.reason).where(w.c.deploy == deploy)
    ).one_or_none()
    return (row.at, row.reason) if row else None


@dataclass(frozen=True)
class Stock:
    """One inventory row: what runs on one target, as far as it is known."""

    application: str
    environment: str
    target: str
    version: str | None
    sha256: str | None
    configuration: str | None
    outputs: Mapping[str, Any] | None
    since: datetime
    deploy: str
    state: str


def inventory(
    tx: Transaction, *, application: str | None = None, environment: str | None = None
) -> list[Stock]:
    """Inventory rows by application, environment and target."""
    query = _inventory(tx.tables, of_application=bool(application), there=bool(environment))
    values = {"application": application, "environment": environment}
    return [Stock(*tuple(row)) for row in tx.connection.execute(query, values)]


@cache
def _inventory(tables: Tables, *, of_application: bool, there: bool) -> sa.Select[Any]:
    i = tables.inventory
    query = sa.select(*(i.c[field.name] for field in fields(Stock)))
    query = query.order_by(i.c.application, i.c.environment, i.c.target)
    if of_application:
        query = query.where(i.c.application == sa.bindparam("application"))
    return query.where(i.c.environment == sa.bindparam("environment")) if there else query


def write_stock(tx: Transaction, stock: Stock) -> None:
    """Write one inventory row."""
    values = clean(
        {
            "version": stock.version,
            "sha256": stock.sha256,
            "configuration": stock.configuration,
            "outputs": stock.outputs,
            "deploy": stock.deploy,
            "state": stock.state,
        }
    ) | {"since": stock.since}
    place = {
        "application": stock.application,
        "environment": stock.environment,
        "target": stock.target,
    }
    which = {f"of_{name}": value for name, value in place.items()}
    if tx.connection.execute(_stock_changed(tx.tables), values | which).rowcount == 0:
        tx.connection.execute(into(tx.tables.inventory), values | place)


@cache
def _stock_changed(tables: Tables) -> sa.Update:
    """The columns are those of the values it is executed with."""
    i, given = tables.inventory, sa.bindparam
    return sa.update(i).where(
        i.c.application == given("of_application"),
        i.c.environment == given("of_environment"),
        i.c.target == given("of_target"),
    )
