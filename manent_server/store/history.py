"""What the deploys of an application say to automation: what is newest, what was given up."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from manent_server.domain.deploy import Kind, Outcome, State
from manent_server.store.deploys import LIVE_STATES, REQUEST
from manent_server.store.transaction import Transaction


def newest_accepted(tx: Transaction, application: str) -> str | None:
    """The version that was accepted for the first time last, wherever it was to go."""
    d = tx.tables.deploys
    query = (
        sa.select(d.c.version)
        .where(d.c.application == application, d.c.kind == Kind.DEPLOY)
        .group_by(d.c.version)
        .order_by(sa.func.min(d.c.requested_at).desc(), d.c.version.desc())
        .limit(1)
    )
    return tx.connection.execute(query).scalar_one_or_none()


def changes_of(
    tx: Transaction, application: str, version: str
) -> Sequence[Mapping[str, Any]] | None:
    """The changes a version brings, as whoever asked for it last has named them."""
    d = tx.tables.deploys
    query = (
        sa.select(d.c.changes)
        .where(d.c.version == version, d.c.application == application, d.c.changes.is_not(None))
        .order_by(d.c.requested_at.desc(), d.c.id.desc())
        .limit(1)
    )
    return tx.connection.execute(query).scalar() or None


def rolled_back_from(
    tx: Transaction, application: str, environment: str, version: str
) -> str | None:
    """The deploy by which the version was given up there, unless it stands again.

    It stands again once a person has deployed it there with success since, or a version that
    was accepted later has been deployed there with success since. Order is that of epochs: two
    deploys of one application never run in one environment at once.
    """
    first = _first_accepted(tx, application, version)
    if first is None:
        return None
    d = tx.tables.deploys
    here = sa.and_(d.c.application == application, d.c.environment == environment)
    epoch = _standing_since(tx, here, version, first)
    undone = _one(
        tx,
        here,
        d.c.version == version,
        d.c.kind != Kind.ROLLBACK,
        d.c.epoch > epoch,
        sa.or_(
            d.c.outcome.in_((Outcome.ROLLED_BACK, Outcome.ROLLBACK_FAILED)),
            sa.and_(d.c.cancel_rollback, d.c.handed_out_at.is_not(None)),
        ),
    )
    return undone or _one(tx, here, *_rollback_of(tx, version, epoch))


def was_taken_up(
    tx: Transaction, application: str, environment: str, *, version: str, origin: str
) -> bool:
    """Whether this automation brought the version there before, or anybody does so now."""
    d = tx.tables.deploys
    is_mine = sa.or_(d.c.origin == origin, d.c.state.in_(LIVE_STATES))
    here = (d.c.application == application, d.c.environment == environment)
    return _one(tx, *here, d.c.version == version, is_mine) is not None


def _first_accepted(tx: Transaction, application: str, version: str) -> datetime | None:
    d = tx.tables.deploys
    query = sa.select(sa.func.min(d.c.requested_at)).where(
        d.c.application == application, d.c.version == version
    )
    found: datetime | None = tx.connection.execute(query).scalar_one()
    return found


def _standing_since(
    tx: Transaction, here: sa.ColumnElement[bool], version: str, first: datetime
) -> int:
    """The epoch of the last success that lets the version be brought again; 0 for none."""
    d, e = tx.tables.deploys, tx.tables.deploys.alias("earlier")
    is_older = sa.exists().where(
        e.c.application == d.c.application,
        e.c.version == d.c.version,
        e.c.requested_at <= first,
    )
    query = (
        sa.select(d.c.epoch)
        .where(
            here,
            d.c.state == State.SUCCESS,
            d.c.kind != Kind.ROLLBACK,
            sa.case((d.c.version == version, d.c.origin == REQUEST), else_=~is_older),
        )
        .order_by(d.c.epoch.desc())
        .limit(1)
    )
    return tx.connection.execute(query).scalar_one_or_none() or 0


def _rollback_of(tx: Transaction, version: str, epoch: int) -> tuple[sa.ColumnElement[bool], ...]:
    """Rollbacks since that passed the version on their way back, also one that is yet to run."""
    d = tx.tables.deploys
    passed, target = d.alias("passed"), d.alias("target")
    is_live = d.c.state.in_(LIVE_STATES)
    is_passed = sa.exists().where(
        target.c.id == d.c.rollback_to,
        passed.c.application == d.c.application,
        passed.c.environment == d.c.environment,
        passed.c.version == version,
        passed.c.kind != Kind.ROLLBACK,
        passed.c.handed_out_at.is_not(None),
        passed.c.epoch > target.c.epoch,
        sa.or_(is_live, passed.c.epoch < d.c.epoch),
    )
    return (
        d.c.kind == Kind.ROLLBACK,
        d.c.version != version,
        d.c.state != State.CANCELLED,
        sa.or_(is_live, d.c.epoch > epoch),
        is_passed,
    )


def _one(tx: Transaction, *where: Any) -> str | None:
    d = tx.tables.deploys
    query = sa.select(d.c.id).where(*where).order_by(d.c.epoch.desc()).limit(1)
    return tx.connection.execute(query).scalar_one_or_none()
