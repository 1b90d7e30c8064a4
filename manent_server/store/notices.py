"""Notices: what each sink is still to be told, and which sinks are turned off."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import sqlalchemy as sa

from manent_server.domain.access import ALL, Scope
from manent_server.domain.errors import Invalid
from manent_server.domain.events import Event
from manent_server.domain.notice import NoticeState
from manent_server.store import events
from manent_server.store.clean import text
from manent_server.store.tables import Tables
from manent_server.store.transaction import Transaction


@dataclass(frozen=True)
class Notice:
    """One event for one sink."""

    id: str
    sink: str
    state: str
    created_at: datetime
    tries: int
    next_try_at: datetime | None
    expires_at: datetime
    done_at: datetime | None
    status: int | None
    error: str | None
    event: Event


@dataclass(frozen=True)
class Draft:
    """A notice to be written; `error` is given when the sink is off: it is dead at once."""

    sink: str
    entry: int
    expires_at: datetime
    error: str | None = None


def insert(tx: Transaction, drafts: Sequence[Draft], *, at: datetime) -> None:
    """Write notices; they are due at once."""
    rows = [
        {
            "id": secrets.token_hex(10),
            "sink": draft.sink,
            "event": draft.entry,
            "state": NoticeState.DEAD if draft.error else NoticeState.WAITING,
            "created_at": at,
            "tries": 0,
            "next_try_at": None if draft.error else at,
            "expires_at": draft.expires_at,
            "done_at": at if draft.error else None,
            "error": draft.error,
        }
        for draft in drafts
    ]
    if rows:
        tx.connection.execute(tx.tables.notices.insert(), rows)


def is_due(tx: Transaction, sink: str) -> bool:
    """Whether something waits to be sent now."""
    values = {"sink": sink, "at": tx.now()}
    return tx.connection.execute(_due(tx.tables), values).first() is not None


@cache
def _due(tables: Tables) -> sa.Select[Any]:
    n, given = tables.notices, sa.bindparam
    return (
        sa.select(n.c.id)
        .where(n.c.sink == given("sink"), n.c.done_at.is_(None), n.c.next_try_at <= given("at"))
        .limit(1)
    )


def take(tx: Transaction, sink: str, *, until: datetime) -> Notice | None:
    """The notice that is due longest, with one more try; nobody else takes it before `until`."""
    n = tx.tables.notices
    query = (
        _all(tx.tables)
        .where(n.c.sink == sink, n.c.done_at.is_(None), n.c.next_try_at <= tx.now())
        .order_by(n.c.next_try_at, n.c.event)
        .limit(1)
        .with_for_update(skip_locked=True, of=n)
    )
    row = tx.connection.execute(query).one_or_none()
    if row is None:
        return None
    tx.connection.execute(
        sa.update(n).where(n.c.id == row.id).values(tries=n.c.tries + 1, next_try_at=until)
    )
    return replace(_notice(row), tries=row.tries + 1, next_try_at=until)


@dataclass(frozen=True)
class Result:
    """What came of a try."""

    state: str
    next_try_at: datetime | None
    status: int | None
    error: str | None


def settle(tx: Transaction, notice: Notice, result: Result, *, at: datetime) -> bool:
    """Record a try; False when another try of the same notice was begun meanwhile."""
    n = tx.tables.notices
    is_open = result.state == NoticeState.WAITING
    done = tx.connection.execute(
        sa.update(n)
        .where(n.c.id == notice.id, n.c.tries == notice.tries, n.c.done_at.is_(None))
        .values(
            state=result.state,
            next_try_at=result.next_try_at,
            done_at=None if is_open else at,
            status=result.status,
            error=text(result.error) if result.error is not None else None,
        )
    )
    return done.rowcount == 1


def prolong(tx: Transaction, sink: str, error: str, *, at: datetime, lasts: timedelta) -> int:
    """Let what waits for a sink live on, and say what it waits for; how many that were.

    Args:
        tx: The transaction.
        sink: Whose notices.
        error: What it waits for.
        at: Now.
        lasts: How long a notice lives; those with less than half of it left get it whole again.
    """
    n = tx.tables.notices
    done = tx.connection.execute(
        sa.update(n)
        .where(
            n.c.sink == sink,
            n.c.done_at.is_(None),
            sa.or_(n.c.error.is_(None), n.c.error != error, n.c.expires_at < at + lasts / 2),
        )
        .values(expires_at=at + lasts, error=text(error))
    )
    return done.rowcount


def kill_waiting(tx: Transaction, sink: str, error: str, *, at: datetime) -> int:
    """Everything a sink was still to be told is dead; how many that were."""
    n = tx.tables.notices
    done = tx.connection.execute(
        sa.update(n)
        .where(n.c.sink == sink, n.c.done_at.is_(None))
        .values(state=NoticeState.DEAD, next_try_at=None, done_at=at, error=error)
    )
    return done.rowcount


def revive(tx: Transaction, *, at: datetime, expires_at: datetime, **which: str) -> int:
    """Make dead notices wait again, due at once; how many that were.

    Args:
        tx: The transaction.
        at: Now.
        expires_at: Until when they are tried now.
        which: `id` or `sink`.
    """
    n = tx.tables.notices
    done = tx.connection.execute(
        sa.update(n)
        .where(
            n.c.state == NoticeState.DEAD, *(n.c[name] == value for name, value in which.items())
        )
        .values(
            state=NoticeState.WAITING, next_try_at=at, expires_at=expires_at, done_at=None, tries=0
        )
    )
    return done.rowcount


def read(tx: Transaction, notice: str) -> Notice | None:
    """One notice."""
    row = tx.connection.execute(
        _all(tx.tables).where(tx.tables.notices.c.id == notice)
    ).one_or_none()
    return _notice(row) if row else None


@dataclass(frozen=True)
class Wanted:
    """Which notices to list."""

    state: str | None
    sink: str | None
    before: str | None
    limit: int
    sight: Scope = ALL


def page(tx: Transaction, wanted: Wanted) -> tuple[list[Notice], str | None]:
    """Notices, those of the newest events first, and what to ask before for the next page.

    Raises:
        Invalid: `before` is no notice.
    """
    n = tx.tables.notices
    query = _all(tx.tables).order_by(n.c.event.desc(), n.c.id.desc()).limit(wanted.limit + 1)
    if wanted.state is not None:
        query = query.where(n.c.state == wanted.state)
    if wanted.sink is not None:
        query = query.where(n.c.sink == wanted.sink)
    if wanted.before is not None:
        query = query.where(_is_before(tx, wanted.before))
    query = events.visible(query, tx.tables.events, wanted.sight)
    rows = [_notice(row) for row in tx.connection.execute(query)]
    shown = rows[: wanted.limit]
    return shown, shown[-1].id if len(rows) > wanted.limit else None


def _is_before(tx: Transaction, notice: str) -> sa.ColumnElement[bool]:
    n = tx.tables.notices
    event = tx.connection.execute(sa.select(n.c.event).where(n.c.id == notice)).scalar()
    if event is None:
        raise Invalid(
            "the cursor is not one of ours",
            code="cursor_invalid",
            next="give `next` of the page before as `before`",
        )
    return sa.or_(n.c.event < event, sa.and_(n.c.event == event, n.c.id < notice))


@cache
def _all(tables: Tables) -> sa.Select[Any]:
    n, e = tables.notices, tables.events
    mine = [n.c[name] for name in _NAMES]
    # Both tables have some names: the event's come under their own.
    theirs = [column.label(f"event_{column.name}") for column in e.c]
    return sa.select(*mine, *theirs).join(e, e.c.entry == n.c.event)


_NAMES = tuple(field.name for field in fields(Notice) if field.name != "event")


def _notice(row: Any) -> Notice:
    found = {name: getattr(row, name) for name in _NAMES}
    return Notice(**found, event=events.prefixed(row))


@dataclass(frozen=True)
class Standing:
    """What a sink has still to hear, what it will not, and since when the oldest waits."""

    sink: str
    waiting: int
    dead: int
    oldest_at: datetime | None


def standings(tx: Transaction) -> dict[str, Standing]:
    """Of every sink that has something undelivered."""
    n = tx.tables.notices
    waits = n.c.state == NoticeState.WAITING
    query = (
        sa.select(
            n.c.sink,
            sa.func.count().filter(waits),
            sa.func.count().filter(n.c.state == NoticeState.DEAD),
            sa.func.min(n.c.created_at).filter(waits),
        )
        .where(n.c.state.in_([NoticeState.WAITING, NoticeState.DEAD]))
        .group_by(n.c.sink)
    )
    return {row[0]: Standing(*row) for row in tx.connection.execute(query)}


def expire(tx: Transaction, *, before: datetime) -> int:
    """What nobody sends any more, because its sink is gone from the configuration, is dead."""
    n = tx.tables.notices
    done = tx.connection.execute(
        sa.update(n)
        .where(n.c.done_at.is_(None), n.c.expires_at < before)
        .values(
            state=NoticeState.DEAD, next_try_at=None, done_at=n.c.expires_at, error="nobody sent it"
        )
    )
    return done.rowcount


@dataclass(frozen=True)
class Off:
    """A sink that is turned off: since when, and why."""

    at: datetime
    reason: str


def off(tx: Transaction) -> dict[str, Off]:
    """The sinks that are turned off."""
    s = tx.tables.sinks
    rows = tx.connection.execute(sa.select(s.c.name, s.c.off_at, s.c.reason))
    return {row.name: Off(row.off_at, row.reason) for row in rows}


def turn_off(tx: Transaction, sink: str, reason: str, *, at: datetime) -> bool:
    """Turn a sink off; False when it was off before."""
    if sink in off(tx):
        return False
    tx.connection.execute(tx.tables.sinks.insert().values(name=sink, off_at=at, reason=reason))
    return True


def turn_on(tx: Transaction, sink: str) -> bool:
    """Turn a sink on; False when it was on before."""
    s = tx.tables.sinks
    return tx.connection.execute(sa.delete(s).where(s.c.name == sink)).rowcount == 1
