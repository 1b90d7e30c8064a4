"""Counts that outlive the deploys they were made of."""

from collections.abc import Collection, Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from manent_server.domain.tally import ATTEMPTS, ENDED, PRUNED_UNTIL, Key, Life
from manent_server.store.among import among
from manent_server.store.transaction import Transaction


def add(tx: Transaction, counted: Mapping[Key, int]) -> None:
    """Add to what was counted before; called where an event is numbered, so never twice."""
    t = tx.tables.tallies
    insert = _insert(tx, counted)
    if insert is None:
        return
    more = t.c.value + insert.excluded.value
    tx.connection.execute(
        insert.on_conflict_do_update(index_elements=["name", "labels"], set_={"value": more})
    )


def reach(tx: Transaction, counted: Mapping[Key, int]) -> None:
    """Raise numbers to these; one that is higher stays."""
    t = tx.tables.tallies
    insert = _insert(tx, counted)
    if insert is None:
        return
    highest = sa.func.max if tx.dialect == "sqlite" else sa.func.greatest
    given = {"value": highest(t.c.value, insert.excluded.value)}
    tx.connection.execute(
        insert.on_conflict_do_update(index_elements=["name", "labels"], set_=given)
    )


def put(tx: Transaction, key: Key, value: int) -> None:
    """Set a number, whatever it was."""
    insert = _insert(tx, {key: value})
    if insert is not None:
        given = {"value": insert.excluded.value}
        tx.connection.execute(
            insert.on_conflict_do_update(index_elements=["name", "labels"], set_=given)
        )


def _insert(
    tx: Transaction, counted: Mapping[Key, int]
) -> sqlite.Insert | postgresql.Insert | None:
    # In one order everywhere: two who add to the same rows do not wait for each other in a ring.
    rows = [
        {"name": name, "labels": labels, "value": value}
        for (name, labels), value in sorted(counted.items())
        if value
    ]
    if not rows:
        return None
    table = tx.tables.tallies
    if tx.dialect == "sqlite":
        return sqlite.insert(table).values(rows)
    return postgresql.insert(table).values(rows)


def everything(tx: Transaction) -> dict[Key, int]:
    """Every count that metrics show; there are a few hundred."""
    t = tx.tables.tallies
    query = sa.select(t.c.name, t.c.labels, t.c.value).where(t.c.name != PRUNED_UNTIL)
    rows = tx.connection.execute(query)
    return {(row.name, row.labels): row.value for row in rows}


def pruned_until(tx: Transaction) -> dict[tuple[str, str], int]:
    """By application and environment, when the last of the deleted deploys had ended."""
    t = tx.tables.tallies
    query = sa.select(t.c.labels, t.c.value).where(t.c.name == PRUNED_UNTIL)
    found = {}
    for labels, value in tx.connection.execute(query):
        application, _, environment = labels.partition("|")
        found[application, environment] = value
    return found


def environments(tx: Transaction) -> frozenset[str]:
    """The environments that are counted by name."""
    t = tx.tables.tallies
    labels = tx.connection.scalars(sa.select(t.c.labels).where(t.c.name == ENDED))
    return frozenset(one.partition("|")[0] for one in labels)


def lives(tx: Transaction, ids: Sequence[str]) -> dict[str, Life]:
    """What is counted of deploys, by id."""
    d = tx.tables.deploys
    query = sa.select(
        d.c.id,
        d.c.environment,
        d.c.state,
        d.c.outcome,
        d.c.requested_at,
        d.c.queued_at,
        d.c.started_at,
        d.c.ended_at,
    ).where(among(tx, d.c.id, ids))
    return {row[0]: Life(*row[1:]) for row in tx.connection.execute(query)}


def attempts(tx: Transaction, ids: Collection[str]) -> dict[Key, int]:
    """The attempts of deploys, by hook and result."""
    a = tx.tables.attempts
    query = (
        sa.select(a.c.hook, a.c.result, sa.func.count())
        .where(among(tx, a.c.deploy, list(ids)), a.c.result.is_not(None))
        .group_by(a.c.hook, a.c.result)
    )
    rows = tx.connection.execute(query)
    return {(ATTEMPTS, f"{hook}|{result}"): count for hook, result, count in rows}
