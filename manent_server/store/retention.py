"""Old deploys: which there are, what holds them, and how they go with all that is theirs."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from manent_server.domain.deploy import Kind, Outcome, State
from manent_server.domain.tally import PRUNED_UNTIL, Key
from manent_server.store import tallies
from manent_server.store.among import among
from manent_server.store.deploys import LIVE_STATES
from manent_server.store.transaction import Transaction

_COUNTED = (State.SUCCESS, State.ERROR)
_LINKS = ("rollback_to", "promoted_from", "rerun_of")
Place = tuple[str, str]


@dataclass(frozen=True)
class Old:
    """A deploy that ended before the instant asked for."""

    id: str
    application: str
    environment: str
    number: int
    version: str
    requested_at: datetime
    dispatch: int
    rollback_to: str | None
    promoted_from: str | None
    rerun_of: str | None

    @property
    def refers(self) -> bool:
        """Whether it was made of another deploy."""
        return any((self.rollback_to, self.promoted_from, self.rerun_of))


def old(tx: Transaction, *, before: datetime, after: Old | None, limit: int) -> list[Old]:
    """Ended before an instant, the newest first; `after` is the last one of the page before.

    Whatever refers to a deploy was asked for later than it: read in this order, it comes first.
    """
    d = tx.tables.deploys
    # Nothing ends before it was asked for: the index by that instant leads to the old ones.
    query = sa.select(*(d.c[name] for name in Old.__dataclass_fields__)).where(
        d.c.requested_at < before, d.c.ended_at < before
    )
    if after is not None:
        query = query.where(
            sa.tuple_(d.c.requested_at, d.c.id)
            < sa.tuple_(sa.literal(after.requested_at, d.c.requested_at.type), sa.literal(after.id))
        )
    query = query.order_by(d.c.requested_at.desc(), d.c.id.desc()).limit(limit)
    return [Old(*row) for row in tx.connection.execute(query)]


def places(tx: Transaction) -> list[Place]:
    """Every application and environment that has deploys, found by steps through an index."""
    d = tx.tables.deploys
    place = sa.tuple_(d.c.application, d.c.environment)
    query = sa.select(d.c.application, d.c.environment).order_by(d.c.application, d.c.environment)
    found: list[Place] = []
    while True:
        after = [place > sa.tuple_(*map(sa.literal, found[-1]))] if found else []
        row = tx.connection.execute(query.where(*after).limit(1)).one_or_none()
        if row is None:
            return found
        found.append((row.application, row.environment))


def releases(tx: Transaction, place: Place, *, limit: int) -> list[tuple[str, str]]:
    """Id and version of the last that succeeded in a place, the newest first.

    Whole ones count: one that left targets out is in the list, but is not counted.
    """
    d = tx.tables.deploys
    here = (*_here(d, place), d.c.state == State.SUCCESS)
    edge = (
        sa.select(d.c.epoch)
        .where(*here, d.c.outcome == Outcome.DEPLOYED)
        .order_by(d.c.epoch.desc())
        .offset(limit - 1)
        .limit(1)
    )
    last = tx.connection.execute(edge).scalar_one_or_none() or 0
    query = sa.select(d.c.id, d.c.version).where(*here, d.c.epoch >= last)
    query = query.order_by(d.c.epoch.desc())
    return [(row.id, row.version) for row in tx.connection.execute(query)]


@dataclass(frozen=True)
class GivenUp:
    """Where anything was rolled back from: elsewhere no version can have been given up.

    Attributes:
        versions: Place and version of what was undone by its own rollback.
        places: Where there was a rollback of its own.
    """

    versions: frozenset[tuple[Place, str]]
    places: frozenset[Place]

    def may_concern(self, place: Place, version: str) -> bool:
        """Whether it has to be looked at more closely."""
        return place in self.places or (place, version) in self.versions


def given_up(tx: Transaction) -> GivenUp:
    """What all the places have to be asked about: few of all deploys, each found by an index."""
    d = tx.tables.deploys
    place = (d.c.application, d.c.environment)
    undone = sa.select(*place, d.c.version).where(
        d.c.outcome.in_((Outcome.ROLLED_BACK, Outcome.ROLLBACK_FAILED))
    )
    versions = undone.union(sa.select(*place, d.c.version).where(d.c.cancel_rollback))
    # Written out: an index of some rows is no use for a parameter that might mean others.
    kind = sa.literal(Kind.ROLLBACK.value, literal_execute=True)
    places_of = sa.select(*place).where(d.c.kind == kind)
    return GivenUp(
        versions=frozenset(((app, env), one) for app, env, one in tx.connection.execute(versions)),
        places=frozenset((app, env) for app, env in tx.connection.execute(places_of.distinct())),
    )


def highest_sequence(tx: Transaction, place: Place) -> str | None:
    """The deploy that carries the highest sequence among those that succeeded in a place."""
    d = tx.tables.deploys
    query = (
        sa.select(d.c.id)
        .where(*_here(d, place), d.c.state == State.SUCCESS, d.c.sequence.is_not(None))
        .order_by(d.c.sequence.desc())
        .limit(1)
    )
    return tx.connection.execute(query).scalar_one_or_none()


def automated(tx: Transaction) -> set[str]:
    """Applications that schedules deploy."""
    s = tx.tables.schedules
    query = sa.select(s.c.application).where(s.c.deleted_at.is_(None)).distinct()
    return set(tx.connection.execute(query).scalars())


def first_accepted(
    tx: Transaction, application: str, *, versions: Iterable[str], since: datetime
) -> list[str]:
    """The first deploy of each version at hand: by their order one is newer than another.

    Args:
        tx: For reading.
        application: Whose.
        versions: At hand whatever their age.
        since: Whatever was asked for again since then is at hand too.
    """
    d = tx.tables.deploys
    mine = (d.c.application == application, d.c.kind == Kind.DEPLOY)
    first = (
        sa.select(d.c.version, sa.func.min(d.c.requested_at).label("at"))
        .where(*mine)
        .group_by(d.c.version)
        .having(sa.or_(d.c.version.in_(list(versions)), sa.func.max(d.c.requested_at) >= since))
        .subquery()
    )
    is_first = sa.and_(first.c.version == d.c.version, first.c.at == d.c.requested_at)
    query = sa.select(d.c.id).join(first, is_first).where(*mine)
    return list(tx.connection.execute(query).scalars())


def last_of_automation(tx: Transaction, place: Place, versions: Iterable[str]) -> list[str]:
    """The last deploy by automation of each of these versions in a place."""
    d = tx.tables.deploys
    query = (
        sa.select(d.c.id)
        .where(*_here(d, place), d.c.version == sa.bindparam("version"), d.c.origin != "request")
        .order_by(d.c.requested_at.desc())
        .limit(1)
    )
    found = (
        tx.connection.execute(query, {"version": version}).scalar_one_or_none()
        for version in versions
    )
    return [one for one in found if one is not None]


def count_live(tx: Transaction) -> int:
    """How many have not ended."""
    d = tx.tables.deploys
    query = sa.select(sa.func.count()).where(d.c.state.in_(LIVE_STATES))
    return int(tx.connection.execute(query).scalar_one())


def referrers(tx: Transaction, ids: Sequence[str]) -> dict[str, set[str]]:
    """By deploy, those that were made of it."""
    d = tx.tables.deploys
    found: dict[str, set[str]] = {}
    for link in _LINKS:
        query = sa.select(d.c[link], d.c.id).where(among(tx, d.c[link], ids))
        for of, by in tx.connection.execute(query):
            found.setdefault(of, set()).add(by)
    return found


def count_runs(tx: Transaction, ids: Sequence[str]) -> int:
    """How many runs of schedules these deploys came of."""
    r = tx.tables.schedule_runs
    query = sa.select(sa.func.count()).where(r.c.deploy.in_(ids))
    return int(tx.connection.execute(query).scalar_one())


def count_approvals(tx: Transaction, ids: Sequence[str]) -> int:
    """How many approvals these deploys asked for."""
    a = tx.tables.approvals
    query = sa.select(sa.func.count()).where(a.c.deploy.in_(ids))
    return int(tx.connection.execute(query).scalar_one())


def count_empty_runs(tx: Transaction, *, before: datetime) -> int:
    """How many runs of schedules are old and have no deploy."""
    r = tx.tables.schedule_runs
    query = sa.select(sa.func.count()).where(r.c.deploy.is_(None), r.c.settled_at < before)
    return int(tx.connection.execute(query).scalar_one())


def delete_empty_runs(tx: Transaction, *, before: datetime, limit: int) -> int:
    """Remove old runs of schedules that have no deploy; how many."""
    r = tx.tables.schedule_runs
    query = sa.select(r.c.schedule, r.c.at).where(r.c.deploy.is_(None), r.c.settled_at < before)
    keys = tx.connection.execute(query.limit(limit)).all()
    if keys:
        one = sa.and_(r.c.schedule == sa.bindparam("s"), r.c.at == sa.bindparam("a"))
        tx.connection.execute(sa.delete(r).where(one), [{"s": s, "a": a} for s, a in keys])
    return len(keys)


@dataclass(frozen=True)
class Gone:
    """What one batch removed.

    Attributes:
        deploys: Their ids.
        runs: Of schedules, how many.
        approvals: How many.
        holes: What was noted of where figures have holes now; higher than what was known.
    """

    deploys: tuple[str, ...] = ()
    runs: int = 0
    approvals: int = 0
    holes: Mapping[Key, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether that was anything."""
        return bool(self.deploys or self.runs)


def delete(
    tx: Transaction, ids: Sequence[str], *, before: datetime, holes: Mapping[Key, int]
) -> Gone:
    """Remove ended deploys with all that belongs to them, in the order given: the newest first.

    Rows somebody holds stay, and so does what the inventory or another deploy refers to by
    now: the database refuses to let it go.

    Args:
        tx: For writing.
        ids: A batch.
        before: What ended later stays.
        holes: Already on record of where figures have holes; it need not be noted again.
    """
    try:
        with tx.savepoint():
            return _delete(tx, ids, before=before, known=holes)
    except sa.exc.IntegrityError:
        if len(ids) == 1:
            return Gone()
    gone = Gone()
    for one in ids:
        part = delete(tx, [one], before=before, holes={**holes, **gone.holes})
        gone = Gone(
            gone.deploys + part.deploys,
            gone.runs + part.runs,
            gone.approvals + part.approvals,
            {**gone.holes, **part.holes},
        )
    return gone


def _delete(
    tx: Transaction, ids: Sequence[str], *, before: datetime, known: Mapping[Key, int]
) -> Gone:
    t, d = tx.tables, tx.tables.deploys
    free = (
        sa.select(d.c.id, d.c.application, d.c.environment, d.c.state, d.c.ended_at)
        .where(among(tx, d.c.id, ids), d.c.ended_at < before)
        .order_by(d.c.id)
        .with_for_update(skip_locked=True)
    )
    held = {row.id: row for row in tx.connection.execute(free)}
    gone = [one for one in ids if one in held]
    if not gone:
        return Gone()
    holes = {key: at for key, at in _holes(held.values()).items() if at > known.get(key, 0)}
    tallies.reach(tx, holes)
    runs = _delete_of(tx, t.schedule_runs, gone)
    asked = sa.select(t.approvals.c.id).where(among(tx, t.approvals.c.deploy, gone))
    tx.connection.execute(sa.delete(t.votes).where(t.votes.c.approval.in_(asked)))
    approvals = _delete_of(tx, t.approvals, gone)
    for table in (t.logs, t.attempts, t.steps, t.wakes):
        _delete_of(tx, table, gone)
    if tx.dialect == "sqlite":
        # It looks at each reference at once: what refers goes before what it refers to.
        one = sa.delete(d).where(d.c.id == sa.bindparam("gone"))
        for name in gone:
            tx.connection.execute(one, {"gone": name})
    else:
        tx.connection.execute(sa.delete(d).where(among(tx, d.c.id, gone)))
    return Gone(tuple(gone), runs, approvals, holes)


def _delete_of(tx: Transaction, table: sa.Table, deploys: Sequence[str]) -> int:
    """Remove what a table has of deploys; how many rows."""
    return tx.connection.execute(
        sa.delete(table).where(among(tx, table.c.deploy, deploys))
    ).rowcount


def _holes(gone: Iterable[Any]) -> dict[Key, int]:
    """Until when figures of a place have a hole, by the last of its deploys that count."""
    until: dict[Key, int] = {}
    for row in gone:
        if row.state in _COUNTED:
            key = PRUNED_UNTIL, f"{row.application}|{row.environment}"
            until[key] = max(until.get(key, 0), math.ceil(row.ended_at.timestamp()))
    return until


def _here(d: sa.Table, place: Place) -> tuple[sa.ColumnElement[bool], ...]:
    return d.c.application == place[0], d.c.environment == place[1]


def needed_artifacts(tx: Transaction, kept: Iterable[str]) -> set[str]:
    """Digests that live deploys and these ones have resolved or were asked with."""
    d = tx.tables.deploys
    found: set[str] = set()
    columns = (d.c.sha256, d.c.prepared)
    live = sa.select(*columns).where(d.c.state.in_(LIVE_STATES))
    for row in tx.connection.execute(live):
        found |= _digests(row.sha256, row.prepared)
    wanted = list(kept)
    for begin in range(0, len(wanted), 200):
        query = sa.select(*columns).where(d.c.id.in_(wanted[begin : begin + 200]))
        for row in tx.connection.execute(query):
            found |= _digests(row.sha256, row.prepared)
    return found


def _digests(pinned: str | None, prepared: Mapping[str, Any] | None) -> set[str]:
    artifacts = [
        *(prepared or {}).get("artifacts", {}).values(),
        *(past.get("artifact") for past in (prepared or {}).get("past", {}).values() if past),
    ]
    found = {one["sha256"] for one in artifacts if one and one.get("sha256")}
    return found | ({pinned} if pinned else set())
