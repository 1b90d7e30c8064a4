"""Deploys by address, and in pages."""

import base64
import binascii
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

import sqlalchemy as sa

from manent_server.domain.access import ALL, Scope
from manent_server.domain.deploy import State
from manent_server.domain.errors import Invalid, NotFound
from manent_server.store import deploys
from manent_server.store.deploys import Deploy
from manent_server.store.sight import covered, within
from manent_server.store.tables import Tables
from manent_server.store.transaction import Transaction

SHORTEST = 6
_ID = re.compile(r"[0-9a-f]{6,40}")
_NUMBERED = re.compile(r"([^/#]{1,63})/([^/#]{1,63})#([0-9]{1,18})")


def by_address(tx: Transaction, address: str, *, sight: Scope = ALL) -> Deploy:
    """A deploy by its id, a unique beginning of it, or `application/environment#number`.

    Raises:
        NotFound: Nothing in sight has that address.
        Invalid: Several ids begin so.
    """
    values: dict[str, Any]
    numbered = _NUMBERED.fullmatch(address)
    if numbered:
        application, environment, number = numbered.groups()
        query = _by_number(tx.tables)
        values = {"application": application, "environment": environment, "number": int(number)}
    elif _ID.fullmatch(address):
        query, values = _by_beginning(tx.tables), {"low": address, "high": address + "g"}
    else:
        raise _nothing(address)
    d = tx.tables.deploys
    query = within(query, sight, d.c.application, d.c.environment)
    rows = tx.connection.execute(query, values).all()
    if len(rows) > 1:
        raise Invalid(
            f"several deploys begin with {address}",
            code="address_ambiguous",
            next="give more of the id",
        )
    if not rows:
        raise _nothing(address)
    return deploys.of(rows[0])


@dataclass(frozen=True)
class About:
    """A deploy there are records of, and where it went."""

    deploy: str
    application: str
    environment: str


def recorded(tx: Transaction, address: str, *, sight: Scope) -> About | None:
    """The deploy with that id, or the only one whose id begins so, of which the record tells.

    It may have been pruned.
    """
    if not _ID.fullmatch(address):
        return None
    a = tx.tables.audit
    columns = (a.c.deploy, a.c.application, a.c.environment)
    query = sa.select(*columns).where(a.c.deploy >= address, a.c.deploy < address + "g")
    query = within(query, sight, a.c.application, a.c.environment).distinct().limit(2)
    found = [About(*row) for row in tx.connection.execute(query)]
    return found[0] if len(found) == 1 else None


@cache
def _by_number(tables: Tables) -> sa.Select[Any]:
    d, given = tables.deploys, sa.bindparam
    return deploys.whole(tables).where(
        d.c.application == given("application"),
        d.c.environment == given("environment"),
        d.c.number == given("number"),
    )


@cache
def _by_beginning(tables: Tables) -> sa.Select[Any]:
    d, given = tables.deploys, sa.bindparam
    begins_so = d.c.id >= given("low"), d.c.id < given("high")
    return deploys.whole(tables).where(*begins_so).limit(2)


def _nothing(address: str) -> NotFound:
    shown = address.encode("unicode_escape").decode("ascii")[:80]
    return NotFound(
        f"there is no deploy {shown}",
        next="give an id, at least 6 characters of it, or application/environment#number",
    )


@dataclass(frozen=True)
class Page:
    """Which deploys, the newest first: those before a cursor.

    Attributes:
        sight: Outside of it there is nothing.
        seen: The applications and the environments that it touches, if it is not everywhere. The
            rows would be the same without; but a pattern tells the database nothing about how
            few rows it leaves, names do.
    """

    application: str | None
    environment: str | None
    version: str | None
    states: Sequence[str]
    outcome: str | None
    before: str | None
    limit: int
    sight: Scope = ALL
    seen: tuple[Sequence[str], Sequence[str]] | None = None


_FEW: Final = 20


def page(tx: Transaction, wanted: Page) -> tuple[list[Deploy], str | None]:
    """One page by (time, id), and the cursor of the next one."""
    d = tx.tables.deploys
    query = deploys.whole(tx.tables)
    names = () if wanted.seen is None or wanted.application else wanted.seen[0]
    if 1 < len(names) <= _FEW:
        query = query.where(d.c.id.in_(_newest_of_each(d, wanted, names)))
    else:
        query = query.where(*_conditions(d, wanted))
    query = _newest(query, d, wanted)
    rows = [deploys.of(row) for row in tx.connection.execute(query)]
    if len(rows) <= wanted.limit:
        return rows, None
    kept = rows[: wanted.limit]
    return kept, cursor(kept[-1].requested_at, kept[-1].id)


def _conditions(d: sa.Table, wanted: Page) -> list[sa.ColumnElement[bool]]:
    """What a deploy of the list is like."""
    asked = (
        (d.c.application, wanted.application),
        (d.c.environment, wanted.environment),
        (d.c.version, wanted.version),
        (d.c.outcome, wanted.outcome),
    )
    found: list[sa.ColumnElement[bool]] = [
        column == value for column, value in asked if value is not None
    ]
    found += covered(wanted.sight, d.c.application, d.c.environment)
    if wanted.seen is not None:
        applications, environments = wanted.seen
        found += [d.c.application.in_(applications), d.c.environment.in_(environments)]
    if wanted.states:
        found.append(d.c.state.in_(wanted.states))
    if wanted.before is not None:
        at, deploy = read_cursor(wanted.before)
        # The first condition lets an index begin where the page does.
        found += [
            d.c.requested_at <= at,
            sa.or_(d.c.requested_at < at, sa.and_(d.c.requested_at == at, d.c.id < deploy)),
        ]
    return found


def _newest(query: sa.Select[Any], d: sa.Table, wanted: Page) -> sa.Select[Any]:
    return query.order_by(d.c.requested_at.desc(), d.c.id.desc()).limit(wanted.limit + 1)


def _newest_of_each(d: sa.Table, wanted: Page, names: Sequence[str]) -> sa.CompoundSelect[Any]:
    """The ids of a page of each application: how rare a name is no statistics tell reliably."""
    conditions = _conditions(d, replace(wanted, seen=None))
    environments = wanted.seen[1] if wanted.seen else ()
    parts = []
    for name in names:
        one = sa.select(d.c.id).where(
            d.c.application == name, d.c.environment.in_(environments), *conditions
        )
        parts.append(sa.select(_newest(one, d, wanted).subquery().c.id))
    return sa.union_all(*parts)


def cursor(at: datetime, row: str) -> str:
    """Where a page by (time, id) ended."""
    text = json.dumps([at.isoformat(), row])
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_cursor(cursor: str) -> tuple[datetime, str]:
    """What `cursor` wrote.

    Raises:
        Invalid: Anything else.
    """
    instant, deploy = datetime.min.replace(tzinfo=UTC), ""
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        at, deploy = json.loads(text)
        instant = datetime.fromisoformat(at).astimezone(UTC)
        whole = _ID.fullmatch(deploy)
    except (ValueError, TypeError, OverflowError, binascii.Error, RecursionError):
        whole = None
    if whole is None:
        raise Invalid(
            "the cursor is not one of ours",
            code="cursor_invalid",
            next="give `next` of the page before as `before`",
        )
    return instant, deploy


def of_sight(tx: Transaction, ids: Sequence[str], sight: Scope) -> list[str]:
    """Those of these deploys that can be seen, in their order."""
    if sight.is_everywhere or not ids:
        return list(ids)
    d = tx.tables.deploys
    query = within(sa.select(d.c.id), sight, d.c.application, d.c.environment)
    seen = set(tx.connection.execute(query.where(d.c.id.in_(ids))).scalars())
    return [one for one in ids if one in seen]


def queued(tx: Transaction, environment: str) -> list[str]:
    """The ids that wait for a place in an environment, the head of the queue first."""
    ids = tx.connection.execute(_queued(tx.tables), {"environment": environment})
    return list(ids.scalars())


@cache
def _queued(tables: Tables) -> sa.Select[Any]:
    d, s = tables.deploys, tables.slots
    query = sa.select(d.c.id).where(
        d.c.environment == sa.bindparam("environment"),
        d.c.state == State.ENQUEUED,
        d.c.ticket.is_not(None),
        ~sa.exists().where(s.c.deploy == d.c.id),
    )
    return query.order_by(d.c.priority, d.c.ticket)


def place_in_queue(tx: Transaction, row: Deploy) -> tuple[int, list[str]] | None:
    """Position from 1 and the ids ahead, for a deploy that waits for its place."""
    ids = queued(tx, row.environment) if row.ticket is not None else []
    if row.id not in ids:
        return None
    ahead = ids[: ids.index(row.id)]
    return len(ahead) + 1, ahead
