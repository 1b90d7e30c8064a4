"""The record: written with its deed, numbered and chained after the commit, read and checked."""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa

from manent_server.domain import audit
from manent_server.domain import events as kinds
from manent_server.domain.access import Caller
from manent_server.domain.audit import Head, Wanted
from manent_server.domain.errors import Invalid
from manent_server.store import events
from manent_server.store.clean import clean
from manent_server.store.tables import Tables
from manent_server.store.transaction import Transaction

_COLUMNS = ("id", "at", "actor", "action", "deploy", "application", "environment")
_SHOWN = len("2026-11-30 05:01:52.123456+00")
_EVENT = ("id", "at", "actor", "deploy", "application", "environment")


@dataclass(frozen=True)
class Deed:
    """Who did what to which deploy, application and environment.

    `actor` is who asked, with the way it came; a name alone for what nobody asks for just now.
    `id` is given where a repeated transaction has to find its own deed. `before` and `after` say
    what it changed.
    """

    actor: Caller | str
    action: str
    deploy: str | None = None
    application: str | None = None
    environment: str | None = None
    detail: Mapping[str, Any] | None = None
    id: str | None = None
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None


def write_audit(tx: Transaction, deed: Deed, *, at: datetime) -> None:
    """Record a deed in the transaction that does it."""
    write_audits(tx, [deed], at=at)


def write_audits(tx: Transaction, deeds: Sequence[Deed], *, at: datetime) -> None:
    """Record deeds in the transaction that does them; listeners hear of them after its commit."""
    rows = [_row(deed, at) for deed in deeds]
    told = [row for row in rows if kinds.is_told(row["action"])]
    if tx.dialect == "postgresql" and len(rows) == len(told) == 1:
        given = {f"of_{key}": value for key, value in rows[0].items()}
        tx.connection.execute(_both(tx.tables), given)
        return
    if rows:
        tx.connection.execute(_insert(tx.tables), rows)
    events.insert(tx, told)


def _row(deed: Deed, at: datetime) -> dict[str, Any]:
    """The columns of a record, and what only its event needs."""
    detail = clean(dict(deed.detail or {}))
    caller = deed.actor if isinstance(deed.actor, Caller) else None
    values = clean(
        {
            "id": deed.id or secrets.token_hex(16),
            "actor": caller.name if caller is not None else deed.actor,
            "action": deed.action,
            "deploy": deed.deploy,
            "application": deed.application,
            "environment": deed.environment,
        }
    )
    rest = {
        "channel": caller.channel if caller is not None else None,
        "address": caller.address if caller is not None else None,
        "before": deed.before,
        "after": deed.after,
    }
    head = Head(at=at, **values)
    record = audit.text(head, {**clean(rest), "detail": detail or None})
    return {**values, "at": at, "record": record, "detail": detail}


@cache
def _insert(tables: Tables) -> sa.Insert:
    a = tables.audit
    return a.insert().values({key: sa.bindparam(key) for key in (*_COLUMNS, "record")})


@cache
def _both(tables: Tables) -> sa.Insert:
    """One statement for the usual case: one deed, which is told."""
    a, e = tables.audit, tables.events
    given = {key: sa.bindparam(f"of_{key}", type_=a.c[key].type) for key in (*_COLUMNS, "record")}
    written = a.insert().values(given).returning(*(a.c[key] for key in _COLUMNS)).cte("written")
    detail = sa.bindparam("of_detail", type_=e.c.detail.type)
    columns = [*(written.c[key] for key in _EVENT), written.c.action, detail]
    return e.insert().from_select([*_EVENT, "type", "detail"], sa.select(*columns))


def read_detail(tx: Transaction, record: str) -> dict[str, Any] | None:
    """The detail of one deed, None if it was not done."""
    a = tx.tables.audit
    found = tx.connection.execute(sa.select(a.c.record).where(a.c.id == record)).scalar()
    return dict(audit.parse(found)["detail"] or {}) if found else None


@dataclass(frozen=True)
class Recorded:
    """A record as it is listed; without a number it is not chained yet."""

    id: str
    number: int | None
    hash: str | None
    text: str


def page(tx: Transaction, wanted: Wanted) -> tuple[list[Recorded], str | None]:
    """Records, the newest first, and what to ask before for the next page.

    Raises:
        Invalid: `before` is no record.
    """
    a, c = tx.tables.audit, tx.tables.audit_chain
    query = (
        sa.select(a.c.id, c.c.number, c.c.hash, a.c.record)
        .join_from(a, c, c.c.entry == a.c.entry, isouter=True)
        .where(*_matching(tx, wanted))
        .order_by(a.c.entry.desc())
        .limit(wanted.limit + 1)
    )
    rows = [Recorded(*row) for row in tx.connection.execute(query)]
    shown = rows[: wanted.limit]
    return shown, shown[-1].id if len(rows) > wanted.limit else None


def _matching(tx: Transaction, wanted: Wanted) -> Iterator[sa.ColumnElement[bool]]:
    a = tx.tables.audit
    for name in ("actor", "deploy", "application", "environment"):
        value = getattr(wanted, name)
        if value is not None:
            yield a.c[name] == value
    if wanted.action is not None and wanted.action.endswith("*"):
        yield a.c.action.startswith(wanted.action.removesuffix("*"), autoescape=True)
    elif wanted.action is not None:
        yield a.c.action == wanted.action
    if wanted.since is not None:
        yield a.c.at >= wanted.since
    if wanted.until is not None:
        yield a.c.at < wanted.until
    if wanted.before is not None:
        yield a.c.entry < _entry(tx, wanted.before)


def _entry(tx: Transaction, record: str) -> int:
    a = tx.tables.audit
    found: int | None = tx.connection.execute(
        sa.select(a.c.entry).where(a.c.id == record)
    ).scalar_one_or_none()
    if found is None:
        raise Invalid(
            "the cursor is not one of ours",
            code="cursor_invalid",
            next="give `next` of the page before as `before`",
        )
    return found


def has_waiting(tx: Transaction) -> bool:
    """Whether some record waits for its number."""
    return tx.connection.execute(_any_waiting(tx.tables)).first() is not None


@cache
def _any_waiting(tables: Tables) -> sa.Select[Any]:
    return sa.select(tables.audit_waiting.c.entry).limit(1)


def waiting_since(tx: Transaction) -> datetime | None:
    """Since when the oldest record waits for its number."""
    a, w = tx.tables.audit, tx.tables.audit_waiting
    query = sa.select(a.c.at).join_from(w, a, a.c.entry == w.c.entry).order_by(w.c.entry).limit(1)
    found: datetime | None = tx.connection.execute(query).scalar()
    return found


def waiting(tx: Transaction) -> int:
    """How many records wait for their numbers."""
    query = sa.select(sa.func.count()).select_from(tx.tables.audit_waiting)
    return int(tx.connection.execute(query).scalar_one())


def head(tx: Transaction) -> tuple[int, str]:
    """The last number and its hash."""
    found = tx.connection.execute(_head(tx.tables)).one_or_none()
    return (found.number, found.hash) if found else (0, audit.GENESIS)


@cache
def _head(tables: Tables) -> sa.Select[Any]:
    c = tables.audit_chain
    return sa.select(c.c.number, c.c.hash).order_by(c.c.number.desc()).limit(1)


def number_at(tx: Transaction, at: datetime) -> int:
    """The last number whose record was written before an instant; 0 for none."""
    a, c = tx.tables.audit, tx.tables.audit_chain
    query = (
        sa.select(c.c.number)
        .join_from(c, a, a.c.entry == c.c.entry)
        .where(a.c.at < at)
        .order_by(c.c.number.desc())
        .limit(1)
    )
    return tx.connection.execute(query).scalar_one_or_none() or 0


def chain(tx: Transaction, *, limit: int) -> int:
    """Number and chain committed records; only the holder of the lease may call it.

    Whoever has read up to a number has seen everything below it: what commits later gets a
    later one.

    Returns:
        How many those were.
    """
    a, c, w = tx.tables.audit, tx.tables.audit_chain, tx.tables.audit_waiting
    # The lease keeps others away; the lock keeps away one whose lease has ended unseen.
    query = sa.select(w.c.entry).order_by(w.c.entry).limit(limit).with_for_update()
    entries = list(tx.connection.scalars(query))
    if not entries:
        return 0
    texts = sa.select(a.c.entry, a.c.record).where(a.c.entry.in_(entries)).order_by(a.c.entry)
    number, last = head(tx)
    rows = []
    for found in tx.connection.execute(texts):
        number += 1
        last = audit.link(last, number, found.record)
        rows.append({"number": number, "entry": found.entry, "hash": last})
    if rows:
        tx.connection.execute(c.insert(), rows)
    chained = [row["entry"] for row in rows]
    tx.connection.execute(sa.delete(w).where(w.c.entry.in_(chained)))
    return len(rows)


def chain_beyond(tx: Transaction, record: str, *, number: int) -> None:
    """Give one record of this transaction that number, beyond the next: it states the gap.

    Args:
        tx: The transaction that wrote the record, while nobody else chains.
        record: Its id.
        number: Greater than every one so far.
    """
    a, c, w = tx.tables.audit, tx.tables.audit_chain, tx.tables.audit_waiting
    entry, text = tx.connection.execute(
        sa.select(a.c.entry, a.c.record).where(a.c.id == record)
    ).one()
    _, last = head(tx)
    values = {"number": number, "entry": entry, "hash": audit.link(last, number, text)}
    tx.connection.execute(c.insert().values(values))
    tx.connection.execute(sa.delete(w).where(w.c.entry == entry))


@dataclass(frozen=True)
class Checkpoint:
    """A place of the chain that was signed, and when."""

    number: int
    at: datetime


def last_checkpoint(tx: Transaction) -> Checkpoint | None:
    """The newest checkpoint."""
    row = tx.connection.execute(_last_checkpoint(tx.tables)).one_or_none()
    if row is None:
        return None
    return Checkpoint(int(audit.parse(row.record)["detail"]["number"]), row.at)


@cache
def _last_checkpoint(tables: Tables) -> sa.Select[Any]:
    a = tables.audit
    query = sa.select(a.c.at, a.c.record).where(sa.text("action = 'audit.checkpoint'"))
    return query.order_by(a.c.entry.desc()).limit(1)


def links(
    tx: Transaction, *, after: int, limit: int, exact: bool = False
) -> Sequence[Sequence[Any]]:
    """The chain from a number on: the values of `Link`, for a million of them are read.

    Args:
        tx: For reading.
        after: The number before the first.
        limit: How many.
        exact: Have no beginning written by the database.
    """
    bound = {"after": after, "most": limit}
    if tx.dialect == "sqlite" and not exact:
        # A value of another kind, which only force can put there, it refuses to write.
        with suppress(sa.exc.OperationalError):
            rows = tx.connection.execute(_links(tx.tables, _written(tx.tables)), bound)
            return [
                (n, h, text, _without_nulls(head) if ":null" in head else head[:-1])
                for n, h, text, head in rows.all()
            ]
    rows = tx.connection.execute(_links(tx.tables, _columns(tx.tables, tx.dialect)), bound)
    return [
        (n, h, text, audit.beginning((name, _instant(at), *rest)))
        for n, h, text, name, at, *rest in rows.all()
    ]


def _links(tables: Tables, heads: Sequence[sa.ColumnElement[Any]]) -> sa.Select[Any]:
    a, c = tables.audit, tables.audit_chain
    return (
        sa.select(c.c.number, c.c.hash, a.c.record, *heads)
        .join_from(c, a, a.c.entry == c.c.entry, isouter=True)
        .where(c.c.number > sa.bindparam("after"))
        .order_by(c.c.number)
        .limit(sa.bindparam("most"))
    )


def _columns(tables: Tables, dialect: str) -> list[sa.ColumnElement[Any]]:
    a = tables.audit
    # As text: an instant made only to be written again takes longer than all the rest.
    at = sa.type_coerce(a.c.at, sa.Text) if dialect == "sqlite" else sa.cast(a.c.at, sa.Text)
    return [a.c.id, at, *(a.c[key] for key in _COLUMNS[2:])]


def _written(tables: Tables) -> list[sa.ColumnElement[Any]]:
    """One text instead of seven values, each of which takes its time."""
    pairs = zip(_COLUMNS, _columns(tables, "sqlite"), strict=True)
    return [sa.func.json_object(*(part for key, value in pairs for part in (_word(key), value)))]


def _word(key: str) -> sa.ColumnElement[str]:
    return sa.literal_column(f"'{key}'")


def _without_nulls(head: str) -> str:
    """An object of JSON without its members that are null, and open at its end."""
    for key in _COLUMNS[4:]:
        # Quotes in a value are escaped: no value looks like this.
        head = head.replace(f',"{key}":null', "")
    return head[:-1]


def _instant(shown: Any) -> Any:
    """An instant as records write it, of how the database shows one in UTC."""
    if not isinstance(shown, str) or shown.endswith("Z"):
        return shown
    if len(shown) == _SHOWN and shown.endswith("+00"):
        return f"{shown[:10]}T{shown[11:26]}Z"
    try:
        return audit.instant(datetime.fromisoformat(shown))
    except ValueError:  # infinite, or in a year that nothing else can say
        return shown


def stray(tx: Transaction) -> str | None:
    """The id of a record that is neither chained nor waits for it; one that was slipped in."""
    a, c, w = tx.tables.audit, tx.tables.audit_chain, tx.tables.audit_waiting
    query = (
        sa.select(a.c.id)
        .join_from(a, c, c.c.entry == a.c.entry, isouter=True)
        .join(w, w.c.entry == a.c.entry, isouter=True)
        .where(c.c.entry.is_(None), w.c.entry.is_(None))
        .order_by(a.c.entry)
        .limit(1)
    )
    found: str | None = tx.connection.execute(query).scalar()
    return found


def vanished(tx: Transaction) -> int | None:
    """The entry of a record that waits for its number and is gone."""
    a, w = tx.tables.audit, tx.tables.audit_waiting
    query = (
        sa.select(w.c.entry)
        .join_from(w, a, a.c.entry == w.c.entry, isouter=True)
        .where(a.c.entry.is_(None))
        .limit(1)
    )
    found: int | None = tx.connection.execute(query).scalar()
    return found
