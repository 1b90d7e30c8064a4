"""What the DORA figures are counted from, and how much of it is still there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from manent_server.domain.access import Scope
from manent_server.domain.deploy import State
from manent_server.domain.dora import Ended
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
    return [_ended(row, failed) for row in rows]


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


def _failures(tx: Transaction, deploys: Sequence[str]) -> dict[str, datetime]:
    """When the first step of each failed."""
    s = tx.tables.steps
    query = (
        sa.select(s.c.deploy, sa.func.min(s.c.ended_at).label("at"))
        .where(among(tx, s.c.deploy, deploys), s.c.state == "failed", s.c.hook.in_(_ACTING))
        .group_by(s.c.deploy)
    )
    return {row.deploy: row.at for row in tx.connection.execute(query) if row.at is not None}


def _ended(row: Any, failed: Mapping[str, datetime]) -> Ended:
    return Ended(
        application=row.application,
        environment=row.environment,
        tier=row.tier,
        kind=row.kind,
        version=row.version,
        replaced=row.replaced,
        state=row.state,
        outcome=row.outcome,
        ended_at=row.ended_at,
        failed_at=failed.get(row.id),
        changed_at=tuple(_instant(change["at"]) for change in row.changes or ()),
    )


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def whole_since(tx: Transaction, environment: str, since: datetime) -> datetime | None:
    """From when on every deploy an environment accepted is still there.

    Deploys are numbered there without a gap: a number that is missing was pruned.

    Returns:
        `since` where nothing is missing from then on, else the instant the first deploy after
        the last gap was asked for; None when the last one is missing.
    """
    d, e = tx.tables.deploys, tx.tables.environments
    here = d.c.environment == environment
    row = tx.connection.execute(sa.select(e.c.next_number).where(e.c.name == environment)).first()
    last = (row.next_number if row else 1) - 1
    if last == 0:
        return since
    newest = sa.select(d.c.requested_at).where(here, d.c.number == last)
    if tx.connection.execute(newest).first() is None:
        return None
    before = d.alias("before")
    is_first = sa.exists().where(
        before.c.environment == environment, before.c.number == d.c.number - 1
    )
    gap = sa.select(sa.func.max(d.c.requested_at)).where(
        here, d.c.requested_at >= since, d.c.number > 1, sa.not_(is_first)
    )
    found: datetime | None = tx.connection.execute(gap).scalar()
    return found if found is not None else since
