"""Marks in the way of deploys: who set them, why, and until when."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa

from manent_server.domain import audit
from manent_server.domain.access import Caller
from manent_server.domain.marks import Mark, Sort
from manent_server.store import records
from manent_server.store.clean import clean
from manent_server.store.records import Deed
from manent_server.store.tables import Tables
from manent_server.store.transaction import Transaction

_NAMES = tuple(field.name for field in fields(Mark))


def insert(tx: Transaction, mark: Mark) -> None:
    """Set a mark."""
    values: Mapping[str, Any] = {name: getattr(mark, name) for name in _NAMES}
    tx.connection.execute(tx.tables.marks.insert().values(**clean(dict(values))))


def record(tx: Transaction, mark: Mark, verb: str, *, by: Caller | str, at: datetime) -> None:
    """Put on record that a mark was `set` or `lifted`."""
    detail = {str(mark.sort): mark.id, "reason": mark.reason, "version": mark.version}
    shown = {name: value for name, value in detail.items() if value is not None}
    place = (mark.deploy, mark.application, mark.environment)
    stands = _stands(mark)
    before, after = (None, stands) if verb == "set" else (stands, None)
    deed = Deed(by, f"{mark.sort}.{verb}", *place, shown, before=before, after=after)
    records.write_audit(tx, deed, at=at)


def _stands(mark: Mark) -> dict[str, Any]:
    """What binds while it stands."""
    instants = {"starts_at": mark.starts_at, "expires_at": mark.expires_at}
    known = {name: audit.instant(at) for name, at in instants.items() if at is not None}
    return {"id": mark.id, "owner": mark.owner, "reason": mark.reason, **known}


@cache
def _all(tables: Tables) -> sa.Select[Any]:
    return sa.select(*(tables.marks.c[name] for name in _NAMES))


def _of(row: sa.Row[Any]) -> Mark:
    values = row._asdict()
    return Mark(**values | {"sort": Sort(values["sort"])})


def read(tx: Transaction, mark: str) -> Mark | None:
    """One mark, in force or not."""
    query = _all(tx.tables).where(tx.tables.marks.c.id == mark)
    row = tx.connection.execute(query).one_or_none()
    return _of(row) if row else None


def standing(tx: Transaction, *, at: datetime, sort: Sort | None = None) -> list[Mark]:
    """Marks that bind now or will: not lifted and not expired, the oldest first."""
    found = [_of(row) for row in tx.connection.execute(_standing(tx.tables), {"at": at})]
    return found if sort is None else [mark for mark in found if mark.sort == sort]


@cache
def _standing(tables: Tables) -> sa.Select[Any]:
    t = tables.marks
    is_on = sa.or_(t.c.expires_at.is_(None), t.c.expires_at > sa.bindparam("at"))
    return _all(tables).where(t.c.lifted_at.is_(None), is_on).order_by(t.c.created_at, t.c.id)


def lift(tx: Transaction, ids: Sequence[str], *, by: str, at: datetime) -> list[str]:
    """Lift marks; the ids of those that were in force."""
    t = tx.tables.marks
    if not ids:
        return []
    done = tx.connection.execute(
        sa.update(t)
        .where(t.c.id.in_(ids), t.c.lifted_at.is_(None))
        .values(lifted_at=at, lifted_by=by)
        .returning(t.c.id)
    )
    return list(done.scalars())


def of_place(
    tx: Transaction, application: str, environment: str, *, sort: Sort, at: datetime
) -> list[Mark]:
    """Standing marks of a sort on exactly this application in this environment."""
    return [
        mark
        for mark in standing(tx, at=at, sort=sort)
        if (mark.application, mark.environment) == (application, environment)
    ]
