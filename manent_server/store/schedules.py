"""Schedules and their runs: what is to be deployed when, and what became of each instant."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from manent_server.domain.schedule import Overlap, Recurrence, Result
from manent_server.store.clean import clean
from manent_server.store.deploys import LIVE_STATES
from manent_server.store.tables import Tables
from manent_server.store.transaction import Transaction

ORIGIN = "schedule"
"""The origin of a deploy that a schedule asked for."""
_MICROSECOND = timedelta(microseconds=1)
# A schedule has no more deploys that have not ended than these.
_NEWEST = 10


@dataclass(frozen=True)
class Schedule:
    """One row; `source` says whether `version`, the newest or an environment's is deployed."""

    id: str
    name: str
    application: str
    environment: str
    cron: str
    timezone: str
    source: str
    version: str | None
    source_environment: str | None
    overlap: str
    catch_up: int | None
    reason: str | None
    created_by: str
    behind: str | None
    created_at: datetime
    paused_at: datetime | None
    paused_by: str | None
    pause_reason: str | None
    deleted_at: datetime | None
    deleted_by: str | None
    next_at: datetime | None

    @property
    def every(self) -> Recurrence:
        """When it fires."""
        return Recurrence(self.cron, self.timezone)

    @property
    def window(self) -> timedelta | None:
        """How old a missed instant may be to be caught up with."""
        return None if self.catch_up is None else self.catch_up * _MICROSECOND

    @property
    def policy(self) -> Overlap:
        """What an instant does while an earlier deploy has not ended."""
        return Overlap(self.overlap)


@dataclass(frozen=True)
class Run:
    """What became of one instant."""

    schedule: str
    at: datetime
    result: str
    reason: str | None
    detail: str | None
    deploy: str | None
    settled_at: datetime


_NAMES = tuple(field.name for field in fields(Schedule))
_RUN = tuple(field.name for field in fields(Run))


@cache
def _whole(tables: Tables) -> sa.Select[Any]:
    return sa.select(*(tables.schedules.c[name] for name in _NAMES))


@cache
def _runs(tables: Tables) -> sa.Select[Any]:
    return sa.select(*(tables.schedule_runs.c[name] for name in _RUN))


def microseconds(window: timedelta | None) -> int | None:
    """A duration as it is stored."""
    return None if window is None else window // _MICROSECOND


def insert(tx: Transaction, values: Mapping[str, Any]) -> bool:
    """Write a new schedule; False if another one has the name."""
    dialect = sqlite if tx.dialect == "sqlite" else postgresql
    s = tx.tables.schedules
    row = {**clean(dict(values)), "unique_name": values["name"]}
    written = dialect.insert(s).values(row).on_conflict_do_nothing().returning(s.c.id)
    return tx.connection.execute(written).one_or_none() is not None


def find(tx: Transaction, address: str) -> Schedule | None:
    """One by its name, or by its id when it may be deleted."""
    s = tx.tables.schedules
    query = _whole(tx.tables).where(sa.or_(s.c.unique_name == address, s.c.id == address))
    return _one(tx, query.order_by(s.c.deleted_at.is_not(None)))


def lock(tx: Transaction, schedule: str) -> Schedule | None:
    """One by its id, its row locked until the transaction ends."""
    query = _whole(tx.tables).where(tx.tables.schedules.c.id == schedule)
    return _one(tx, query.with_for_update())


def _one(tx: Transaction, query: sa.Select[Any]) -> Schedule | None:
    row = tx.connection.execute(query).first()
    return Schedule(*tuple(row)) if row else None


def all_of(
    tx: Transaction, *, application: str | None = None, environment: str | None = None
) -> list[Schedule]:
    """Those that are not deleted, by name."""
    s = tx.tables.schedules
    query = _whole(tx.tables).where(s.c.deleted_at.is_(None)).order_by(s.c.name)
    if application:
        query = query.where(s.c.application == application)
    if environment:
        query = query.where(s.c.environment == environment)
    return [Schedule(*tuple(row)) for row in tx.connection.execute(query)]


def update(tx: Transaction, schedule: str, **values: Any) -> None:
    """Change a schedule whose row is locked."""
    s = tx.tables.schedules
    tx.connection.execute(sa.update(s).where(s.c.id == schedule).values(clean(values)))


def due(tx: Transaction, *, at: datetime) -> list[tuple[str, str]]:
    """Those of which an instant has come, and their environments; the longest due first."""
    rows = tx.connection.execute(_due(tx.tables), {"now": at})
    return [(row.id, row.environment) for row in rows]


@cache
def _due(tables: Tables) -> sa.Select[Any]:
    s = tables.schedules
    has_come = s.c.next_at <= sa.bindparam("now")
    return sa.select(s.c.id, s.c.environment).where(has_come).order_by(s.c.next_at)


def write_runs(tx: Transaction, runs: Sequence[Run]) -> None:
    """Record what became of instants; the table's key refuses a second word on one."""
    rows = [clean({name: getattr(run, name) for name in _RUN}) for run in runs]
    if rows:
        tx.connection.execute(tx.tables.schedule_runs.insert(), rows)


def runs(
    tx: Transaction, schedule: str, *, before: datetime | None = None, limit: int
) -> list[Run]:
    """What became of its instants, the newest first."""
    r = tx.tables.schedule_runs
    query = _runs(tx.tables).where(r.c.schedule == schedule)
    if before is not None:
        query = query.where(r.c.at < before)
    rows = tx.connection.execute(query.order_by(r.c.at.desc()).limit(limit))
    return [Run(*tuple(row)) for row in rows]


def live(tx: Transaction, schedule: str) -> list[tuple[str, bool]]:
    """Its deploys that have not ended: the id, and whether it has begun."""
    r, d = tx.tables.schedule_runs, tx.tables.deploys
    fired = (
        sa.select(r.c.deploy)
        .where(r.c.schedule == schedule, r.c.result == Result.FIRED)
        .order_by(r.c.at.desc())
        .limit(_NEWEST)
    )
    query = sa.select(d.c.id, d.c.started_at).where(
        d.c.id.in_(fired.subquery().select()), d.c.state.in_(LIVE_STATES)
    )
    rows = tx.connection.execute(query.order_by(d.c.number))
    return [(row.id, row.started_at is not None) for row in rows]


def of_deploys(tx: Transaction, deploys: Sequence[str]) -> dict[str, tuple[str, datetime]]:
    """Which schedule asked for each of these deploys, by name, and for which instant."""
    if not deploys:
        return {}
    r, s = tx.tables.schedule_runs, tx.tables.schedules
    query = (
        sa.select(r.c.deploy, s.c.name, r.c.at)
        .join(s, s.c.id == r.c.schedule)
        .where(r.c.deploy.in_(deploys))
    )
    return {row.deploy: (row.name, row.at) for row in tx.connection.execute(query)}
