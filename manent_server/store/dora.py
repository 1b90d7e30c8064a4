"""What the DORA figures are counted from, and how much of it is still there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from manent_server.domain.access import Scope
from manent_server.domain.deploy import Kind, State
from manent_server.domain.dora import Ended
from manent_server.store import tallies
from manent_server.store.among import among
from manent_server.store.sight import within
from manent_server.store.transaction import Transaction

_ENDED = (State.SUCCESS.value, State.ERROR.value)
_ACTING = ("deploy", "verify")


@dataclass(frozen=True)
class Wanted:
    """Which deploys: names as they are stored, None for any."""

    since: datetime
    sight: Scope
    application: str | None = None
    environment: str | None = None
    tier: str | None = None


def ended(tx: Transaction, wanted: Wanted, *, limit: int) -> list[Ended]:
    """What ended SUCCESS or ERROR since then, at most so many; who cares asks for one more."""
    d, e = tx.tables.deploys, tx.tables.environments
    before = tx.tables.deploys.alias("before")
    query = (
        sa.select(
            d.c.id, d.c.application, d.c.environment, e.c.tier, d.c.kind, d.c.version,
            before.c.version.label("replaced"), d.c.state, d.c.outcome, d.c.ended_at, d.c.changes,
        )
        .join(e, e.c.name == d.c.environment)
        .outerjoin(before, before.c.id == d.c.replaces)
        .where(d.c.state.in_(_ENDED), d.c.ended_at >= wanted.since)
    )  # fmt: skip
    rows = tx.connection.execute(_narrowed(query, tx, wanted).limit(limit)).all()
    failed = _failures(tx, [row.id for row in rows if row.state == State.ERROR])
    orphans = [row.id for row in rows if row.replaced is None and row.kind == Kind.DEPLOY]
    replaced = _replaced(tx, orphans)
    return [_ended(row, failed, replaced) for row in rows]


def _narrowed(query: sa.Select[Any], tx: Transaction, wanted: Wanted) -> sa.Select[Any]:
    d, e = tx.tables.deploys, tx.tables.environments
    for column, value in (
        (d.c.application, wanted.application),
        (d.c.environment, wanted.environment),
        (e.c.tier, wanted.tier),
    ):
        if value is not None:
            query = query.where(column == value)
    return within(query, wanted.sight, d.c.application, d.c.environment)


def _replaced(tx: Transaction, deploys: Sequence[str]) -> dict[str, str]:
    """What was in place before deploys whose predecessor is pruned, by their own snapshots."""
    d = tx.tables.deploys
    query = sa.select(d.c.id, d.c.prepared).where(among(tx, d.c.id, deploys))
    found = {}
    for row in tx.connection.execute(query):
        past = (row.prepared or {}).get("past") or {}
        versions = {one["version"] for one in past.values()}
        if len(versions) == 1:
            found[row.id] = versions.pop()
    return found


def _failures(tx: Transaction, deploys: Sequence[str]) -> dict[str, datetime]:
    """When the first step of each failed."""
    s = tx.tables.steps
    query = (
        sa.select(s.c.deploy, sa.func.min(s.c.ended_at).label("at"))
        .where(among(tx, s.c.deploy, deploys), s.c.state == "failed", s.c.hook.in_(_ACTING))
        .group_by(s.c.deploy)
    )
    return {row.deploy: row.at for row in tx.connection.execute(query) if row.at is not None}


def _ended(row: Any, failed: Mapping[str, datetime], replaced: Mapping[str, str]) -> Ended:
    return Ended(
        application=row.application,
        environment=row.environment,
        tier=row.tier,
        kind=row.kind,
        version=row.version,
        replaced=row.replaced if row.replaced is not None else replaced.get(row.id),
        state=row.state,
        outcome=row.outcome,
        ended_at=row.ended_at,
        failed_at=failed.get(row.id),
        changed_at=tuple(_instant(change["at"]) for change in row.changes or ()),
    )


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


@dataclass(frozen=True)
class Hole:
    """A place of whose history something is gone: deploys that ended until then."""

    application: str
    environment: str
    tier: str
    until: datetime


def holes(tx: Transaction, wanted: Wanted) -> list[Hole]:
    """Places of which deploys were pruned that ended since then and would have counted."""
    e = tx.tables.environments
    rows = tx.connection.execute(sa.select(e.c.name, e.c.tier))
    tiers = {row.name: row.tier for row in rows}
    found = [
        Hole(application, environment, tiers[environment], datetime.fromtimestamp(until, UTC))
        for (application, environment), until in tallies.pruned_until(tx).items()
        if environment in tiers and wanted.sight.covers(application, environment)
    ]
    return [one for one in found if wanted.since <= one.until and _is_wanted(one, wanted)]


def _is_wanted(one: Hole, wanted: Wanted) -> bool:
    return (
        wanted.application in (None, one.application)
        and wanted.environment in (None, one.environment)
        and wanted.tier in (None, one.tier)
    )
