"""The log of a deploy: numbered lines, several to a row.

A row holds consecutive lines of one step, attempt and stream; its `sequence` is the number
of the first. Numbers are given under the deploy row's lock, so two writers never share one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa

from manent_server.store.clean import text
from manent_server.store.deploys import Deploy
from manent_server.store.tables import Tables, into
from manent_server.store.transaction import Transaction, clock


@dataclass(frozen=True)
class Origin:
    """Where lines came from; lines of different origins never share a row."""

    step: str | None
    attempt: int | None
    stream: str
    level: str | None
    executor: str | None


@dataclass(frozen=True)
class Chunk:
    """Consecutive lines of one origin, joined by newlines; `at` None: when they are written."""

    at: datetime | None
    origin: Origin
    text: str

    @property
    def lines(self) -> int:
        """How many they are."""
        return self.text.count("\n") + 1


@dataclass(frozen=True)
class Line:
    """One line as it is read."""

    sequence: int
    at: datetime
    origin: Origin
    text: str


def append(
    tx: Transaction, deploy: str, epoch: int | None, chunks: Sequence[Chunk]
) -> tuple[int, int] | None:
    """Write chunks in order.

    Args:
        tx: The transaction.
        deploy: Whose log.
        epoch: The writer's epoch; None for a use case that holds the row anyway.
        chunks: What to write.

    Returns:
        First number given and first number not given, or None if another epoch owns the log.
    """
    counts = [chunk.lines for chunk in chunks]
    lines = sum(counts)
    size = sum(len(chunk.text) for chunk in chunks)
    values = {"of_deploy": deploy, "of_epoch": epoch, "lines": lines, "size": size}
    counted = _counted(tx.tables, tx.dialect)
    if epoch is None:
        del values["of_epoch"]
        counted = _counted_for_all(tx.tables, tx.dialect)
    row = tx.connection.execute(counted, values).one_or_none()
    if row is None:
        return None
    after, at = row
    if at is not None:
        tx.heard(at)
    sequence = after - lines
    rows = []
    for chunk, count in zip(chunks, counts, strict=True):
        rows.append(_row(deploy, sequence, chunk, count) | {"at": chunk.at or tx.now()})
        sequence += count
    if rows:
        tx.connection.execute(into(tx.tables.logs), rows)
    return after - lines, after


@cache
def _counted_for_all(tables: Tables, dialect: str) -> sa.sql.dml.ReturningUpdate[Any]:
    d, given = tables.deploys, sa.bindparam
    # The log of a deploy that has ended is closed: its readers were told so.
    return (
        sa.update(d)
        .where(d.c.id == given("of_deploy"), d.c.ended_at.is_(None))
        .values(log_next=d.c.log_next + given("lines"), log_bytes=d.c.log_bytes + given("size"))
        .returning(d.c.log_next, clock(dialect))
    )


@cache
def _counted(tables: Tables, dialect: str) -> sa.sql.dml.ReturningUpdate[Any]:
    is_owner = tables.deploys.c.epoch == sa.bindparam("of_epoch")
    return _counted_for_all(tables, dialect).where(is_owner)


def next_number(tx: Transaction, deploy: str) -> int | None:
    """The number the next line of a deploy will get; None for a deploy that is not there."""
    d = tx.tables.deploys
    return tx.connection.execute(sa.select(d.c.log_next).where(d.c.id == deploy)).scalar()


def append_to_each(tx: Transaction, rows: Sequence[Deploy], origin: Origin, line: str) -> None:
    """Write one line to the logs of several deploys whose rows are locked."""
    at = tx.now()
    d = tx.tables.deploys
    tx.connection.execute(
        sa.update(d)
        .where(d.c.id.in_([row.id for row in rows]))
        .values(log_next=d.c.log_next + 1, log_bytes=d.c.log_bytes + len(line))
    )
    chunk = Chunk(at, origin, line)
    tx.connection.execute(
        into(tx.tables.logs),
        [_row(row.id, row.log_next, chunk, 1) | {"at": at} for row in rows],
    )


def _row(deploy: str, sequence: int, chunk: Chunk, count: int) -> dict[str, Any]:
    origin = chunk.origin
    return {
        "deploy": deploy,
        "sequence": sequence,
        "lines": count,
        "size": len(chunk.text),
        "at": chunk.at,
        "step": origin.step,
        "attempt": origin.attempt,
        "stream": origin.stream,
        "level": origin.level,
        "text": text(chunk.text),
        "executor": origin.executor,
    }


def read(tx: Transaction, deploy: str, *, after: int, limit: int, size: int) -> list[Line]:
    """Lines with a number above `after`: at most `limit` of them and about `size` characters."""
    table = tx.tables.logs
    # The row that holds the next line begins at it or before it.
    begin = (
        sa.select(sa.func.max(table.c.sequence))
        .where(table.c.deploy == deploy, table.c.sequence <= after + 1)
        .scalar_subquery()
    )
    rows = tx.connection.execute(
        sa.select(table)
        .where(table.c.deploy == deploy, table.c.sequence >= sa.func.coalesce(begin, 0))
        .order_by(table.c.sequence)
        # A row holds at least one line, and rows are small: this bounds what is fetched.
        .limit(min(limit, 64))
    )
    found: list[Line] = []
    total = 0
    for row in rows:
        origin = Origin(row.step, row.attempt, row.stream, row.level, row.executor)
        for number, line in enumerate(row.text.split("\n"), start=row.sequence):
            if number <= after:
                continue
            if len(found) == limit or (found and total + len(line) > size):
                return found
            found.append(Line(number, row.at, origin, line))
            total += len(line)
    return found


def drop(tx: Transaction, deploy: str, *, since: int, before: int) -> int:
    """Remove whole rows between two numbers; how many lines went."""
    table = tx.tables.logs
    gone = tx.connection.execute(
        sa.delete(table)
        .where(
            table.c.deploy == deploy,
            table.c.sequence >= since,
            table.c.sequence + table.c.lines <= before,
        )
        .returning(table.c.lines, table.c.size)
    ).all()
    lines = int(sum(row.lines for row in gone))
    d = tx.tables.deploys
    tx.connection.execute(
        sa.update(d)
        .where(d.c.id == deploy)
        .values(
            log_bytes=d.c.log_bytes - sum(row.size for row in gone),
            log_dropped=d.c.log_dropped + lines,
        )
    )
    return lines
