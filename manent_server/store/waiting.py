"""Deploys whose gates are closed, as many of them at once: read lightly, moved in bulk.

Thousands may wait in one environment. What their gates are judged by is mostly the same; so are
their orders, which are long: each is read once.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

import sqlalchemy as sa

from manent_server.domain import promotion
from manent_server.domain.deploy import Kind, Phase, State
from manent_server.domain.gates import Asked
from manent_server.store import deploys, queue
from manent_server.store.among import among
from manent_server.store.tables import Tables
from manent_server.store.transaction import Transaction

_CHUNK = 2000
_PART = 300


class Likeness(NamedTuple):
    """What deploys have in common that the gates, but for time, cannot tell apart."""

    application: str
    kind: str
    version: str
    sha256: str | None
    origin: str
    override: tuple[str, ...]
    order_digest: str


class Waiting(NamedTuple):
    """One that waits; `wake_at` is when it is looked at again, None: at events alone."""

    id: str
    number: int
    like: Likeness
    not_before: datetime | None
    not_after: datetime | None
    phase: str | None
    approval: str | None
    approval_at: datetime | None
    wake_at: datetime | None


def parts(
    tx: Transaction, environment: str, *, only: Sequence[str] | None = None
) -> Iterator[list[Waiting]]:
    """Delayed deploys of an environment in order of acceptance, a part at a time.

    Args:
        tx: The transaction.
        environment: Its name.
        only: Those of these ids; None: all.
    """
    d = tx.tables.deploys
    if only is not None:
        place = {"environment": environment}
        for ids in _chunks(only):
            query = _query(tx.tables).where(among(tx, d.c.id, ids))
            yield [_of(row) for row in tx.connection.execute(query, place)]
        return
    after = 0
    while True:
        # What one part holds in memory is let go of before the next is read.
        found = tx.connection.execute(
            _next_part(tx.tables), {"environment": environment, "after": after}
        )
        rows = [_of(row) for row in found]
        if rows:
            yield rows
        if len(rows) < _PART:
            return
        after = rows[-1].number


@cache
def _next_part(tables: Tables) -> sa.Select[Any]:
    number = tables.deploys.c.number
    return _query(tables).where(number > sa.bindparam("after")).limit(_PART)


@cache
def _query(tables: Tables) -> sa.Select[Any]:
    d, w = tables.deploys, tables.wakes
    return (
        sa.select(
            d.c.id,
            d.c.number,
            d.c.application,
            d.c.kind,
            d.c.version,
            d.c.sha256,
            d.c.origin,
            d.c.override,
            d.c.order_digest,
            d.c.not_before,
            d.c.not_after,
            d.c.phase,
            d.c.approval,
            d.c.approval_at,
            w.c.at,
        )
        .join_from(d, w, w.c.deploy == d.c.id, isouter=True)
        .where(d.c.environment == sa.bindparam("environment"), d.c.state == State.DELAYED)
        .order_by(d.c.number)
    )


def _of(row: sa.Row[Any]) -> Waiting:
    deploy, number, application, kind, version, sha256, origin, override, digest, *rest = tuple(row)
    like = Likeness(application, kind, version, sha256, origin, tuple(override or ()), digest)
    return Waiting(deploy, number, like, *rest)


def orders(tx: Transaction, rows: Sequence[Waiting]) -> dict[str, Mapping[str, Any]]:
    """The orders of these deploys by their digest, each read once."""
    d = tx.tables.deploys
    one_of = {row.like.order_digest: row.id for row in rows}
    return {
        found.order_digest: found.order_body
        for ids in _chunks(list(one_of.values()))
        for found in tx.connection.execute(
            sa.select(d.c.order_digest, d.c.order_body).where(among(tx, d.c.id, ids))
        )
    }


def asked(environment: str, like: Likeness, order: Mapping[str, Any], at: datetime) -> Asked:
    """What the gates need to know of all that are alike, their own instants left out."""
    return Asked(
        application=like.application,
        environment=environment,
        kind=Kind(like.kind),
        version=like.version,
        requested_at=at,
        is_automatic=like.origin != deploys.REQUEST,
        is_return=bool(order.get("returns")),
        override=frozenset(like.override),
        sha256=like.sha256,
        promotion=promotion.load(order.get("promotion")),
    )


def enqueue(tx: Transaction, environment: str, rows: Sequence[Waiting]) -> None:
    """Give tickets in order of acceptance; one that has ended meanwhile is left alone.

    As many tickets are drawn as numbers lie between the first and the last of them: so one
    statement gives them all, and some tickets are nobody's.
    """
    if not rows:
        return
    low, high = min(row.number for row in rows), max(row.number for row in rows)
    shift = queue.next_tickets(tx, environment, high - low + 1) - low
    ticket = tx.tables.deploys.c.number + shift
    at = tx.now()
    _change(tx, rows, state=State.ENQUEUED, phase=Phase.QUEUED, ticket=ticket, queued_at=at)


def show(tx: Transaction, phase: Phase, rows: Sequence[Waiting]) -> None:
    """Let them say which gate they wait for."""
    _change(tx, rows, phase=phase)


def _change(tx: Transaction, rows: Sequence[Waiting], **values: Any) -> None:
    d = tx.tables.deploys
    for ids in _chunks([row.id for row in rows]):
        change = sa.update(d).where(among(tx, d.c.id, ids), d.c.state == State.DELAYED)
        tx.connection.execute(change.values(**values, blocked=None, revision=d.c.revision + 1))


def wake_at(tx: Transaction, instants: Mapping[str, datetime | None]) -> None:
    """When each of them is looked at again; None: only when something happens."""
    w = tx.tables.wakes
    for ids in _chunks(list(instants)):
        tx.connection.execute(sa.delete(w).where(among(tx, w.c.deploy, ids)))
    rows = [
        {"deploy": deploy, "at": at, "reason": "gate"}
        for deploy, at in instants.items()
        if at is not None
    ]
    if rows:
        tx.connection.execute(w.insert(), rows)


def _chunks(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), _CHUNK):
        yield ids[start : start + _CHUNK]
