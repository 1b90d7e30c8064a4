"""Deploy rows: the truth about every request to bring a version somewhere."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from typing import Any

import sqlalchemy as sa

from manent_server.domain import awaiting, promotion
from manent_server.domain import question as questions
from manent_server.domain.access import ALL, Scope
from manent_server.domain.deploy import LIVE, Kind, Outcome, State
from manent_server.domain.gates import Asked
from manent_server.domain.question import Question, Topic
from manent_server.store.clean import clean
from manent_server.store.sight import within
from manent_server.store.tables import Tables, epochs, into
from manent_server.store.transaction import Transaction

REQUEST = "request"
"""The origin of a deploy that a person or a pipeline asked for; any other is automation."""
LIVE_STATES = tuple(sorted(LIVE))


@dataclass(frozen=True)
class Deploy:
    """One row, as it was read; instants in UTC."""

    id: str
    environment: str
    application: str
    number: int
    kind: str
    version: str
    sha256: str | None
    state: str
    phase: str | None
    outcome: str | None
    reason: str | None
    requested_by: str
    origin: str
    requested_at: datetime
    order_body: Mapping[str, Any]
    order_shape: int
    order_digest: str
    pool: str
    priority: int
    sequence: int | None
    ticket: int | None
    not_before: datetime | None
    not_after: datetime | None
    override: Sequence[str] | None
    root: str
    rerun_of: str | None
    rerun_from: str | None
    pass_number: int
    dispatch: int
    dispatched_at: datetime | None
    workflow_version: str | None
    epoch: int
    executor: str | None
    incarnation: str | None
    started_at: datetime | None
    handed_out_at: datetime | None
    deadline_at: datetime | None
    ended_at: datetime | None
    cancel_requested_at: datetime | None
    cancel_by: str | None
    cancel_rollback: bool
    cancel_reason: str | None
    rollback_to: str | None
    promoted_from: str | None
    replaces: str | None
    superseded_by: str | None
    prepared: Mapping[str, Any] | None
    question: Mapping[str, Any] | None
    error: Mapping[str, Any] | None
    warnings: Sequence[str] | None
    links: Mapping[str, Any] | None
    changes: Sequence[Any] | None
    requester: Mapping[str, Any] | None
    approval: str | None
    approval_digest: str | None
    approval_at: datetime | None
    resolved: Mapping[str, Any] | None
    blocked: str | None
    revision: int
    log_next: int
    log_bytes: int
    log_dropped: int

    @property
    def standing(self) -> dict[str, str | None]:
        """Where it stands, for the record of what changes that."""
        return {"state": self.state, "phase": self.phase}

    @property
    def is_live(self) -> bool:
        """Whether it has not ended."""
        return self.state in LIVE_STATES

    @property
    def open_question(self) -> Question | None:
        """What a person has to answer before it goes on."""
        found = questions.load(self.question) if self.question else None
        is_asked = self.state == State.PENDING and self.phase in tuple(Topic)
        return found if found is not None and is_asked and found.is_open else None

    @property
    def asked(self) -> Asked:
        """What the gates need to know of it."""
        return Asked(
            application=self.application,
            environment=self.environment,
            kind=Kind(self.kind),
            version=self.version,
            requested_at=self.requested_at,
            not_before=self.not_before,
            not_after=self.not_after,
            is_automatic=self.origin != REQUEST,
            is_return=bool(self.order_body.get("returns")),
            override=frozenset(self.override or ()),
            sha256=self.sha256,
            promotion=promotion.load(self.order_body.get("promotion")),
            approval=awaiting.standing(self.approval, self.approval_at, since=self.requested_at),
            id=self.id,
        )


_NAMES = tuple(field.name for field in fields(Deploy))


@cache
def whole(tables: Tables) -> sa.Select[Any]:
    """Whole rows, for `of`; built once: with so many columns that takes as long as asking."""
    return sa.select(*(tables.deploys.c[name] for name in _NAMES))


def of(row: sa.Row[Any]) -> Deploy:
    """A `Deploy` from a row selected by `whole`."""
    return Deploy(*tuple(row))


def insert(tx: Transaction, values: Mapping[str, Any]) -> None:
    """Write a new deploy; counters and flags that are not given begin at their start."""
    start = {
        "origin": REQUEST,
        "pass_number": 1,
        "dispatch": 0,
        "epoch": 0,
        "cancel_rollback": False,
        "revision": 1,
        "log_next": 1,
        "log_bytes": 0,
        "log_dropped": 0,
    }
    tx.connection.execute(into(tx.tables.deploys), start | clean(values))


@cache
def _by_id(tables: Tables) -> sa.Select[Any]:
    return whole(tables).where(tables.deploys.c.id == sa.bindparam("deploy"))


@cache
def _locked_by_id(tables: Tables) -> sa.Select[Any]:
    return _by_id(tables).with_for_update()


@cache
def _locked_with_clock(tables: Tables) -> sa.Select[Any]:
    """The row, and the clock as it was once the row's lock was got.

    The inner query locks; what stands outside of it is computed for each row it has given.
    """
    locked = _locked_by_id(tables).subquery("locked")
    return sa.select(*locked.c, sa.func.clock_timestamp())


def read(tx: Transaction, deploy: str) -> Deploy | None:
    """One deploy by its full id."""
    return _one(tx, _by_id(tx.tables), {"deploy": deploy})


def versions(tx: Transaction, ids: Sequence[str]) -> dict[str, str]:
    """The versions of deploys by their id."""
    if not ids:
        return {}
    d = tx.tables.deploys
    rows = tx.connection.execute(sa.select(d.c.id, d.c.version).where(d.c.id.in_(ids)))
    return {row.id: row.version for row in rows}


def superseded(tx: Transaction, ids: Sequence[str]) -> dict[str, list[str]]:
    """For deploys by their id, those that ended because of them."""
    found: dict[str, list[str]] = {}
    query, values = _superseded(tx.tables), {"ids": list(ids)}
    for row in tx.connection.execute(query, values) if ids else ():
        found.setdefault(row.superseded_by, []).append(row.id)
    return found


@cache
def _superseded(tables: Tables) -> sa.Select[Any]:
    d = tables.deploys
    is_of = d.c.superseded_by.in_(sa.bindparam("ids", expanding=True))
    return sa.select(d.c.superseded_by, d.c.id).where(is_of).order_by(d.c.number)


def lock(tx: Transaction, deploy: str) -> Deploy | None:
    """One deploy by its full id, its row locked until the transaction ends."""
    if tx.dialect == "sqlite":
        return _one(tx, _locked_by_id(tx.tables), {"deploy": deploy})
    row = tx.connection.execute(_locked_with_clock(tx.tables), {"deploy": deploy}).one_or_none()
    if row is None:
        return None
    *values, at = row
    tx.heard(at)
    return Deploy(*values)


def _one(
    tx: Transaction, query: sa.Select[Any], values: Mapping[str, Any] | None = None
) -> Deploy | None:
    row = tx.connection.execute(query, values).one_or_none()
    return of(row) if row else None


def update(tx: Transaction, deploy: str, **values: Any) -> None:
    """Change a live deploy; a row that has ended is never changed.

    Raises:
        EndedDeploy: The row has ended or is not there.
    """
    done = tx.connection.execute(_changed(tx.tables), {**clean(values), "of_deploy": deploy})
    if done.rowcount != 1:
        raise EndedDeploy(deploy)


@cache
def _changed(tables: Tables) -> sa.Update:
    """The columns are those of the values it is executed with."""
    d = tables.deploys
    owner = (d.c.id == sa.bindparam("of_deploy"), d.c.state.in_(LIVE_STATES))
    return sa.update(d).where(*owner).values(revision=d.c.revision + 1)


def next_pass(tx: Transaction, root: str) -> int:
    """The number of the next pass of a root; the caller holds the environment's row lock."""
    d = tx.tables.deploys
    query = sa.select(sa.func.max(d.c.pass_number)).where(d.c.root == root)
    return int(tx.connection.execute(query).scalar_one() or 0) + 1


def mark_superseding(tx: Transaction, deploy: str, by: str) -> None:
    """Link an ended deploy to the one that made it outdated."""
    d = tx.tables.deploys
    tx.connection.execute(sa.update(d).where(d.c.id == deploy).values(superseded_by=by))


class EndedDeploy(Exception):
    """A write to a deploy that has ended; ended deploys never change."""


def next_epoch(tx: Transaction) -> int:
    """The next value of the one sequence that fences every deploy."""
    if tx.dialect == "sqlite":
        table = tx.tables.metadata.tables["manent_epochs"]
        drawn = tx.connection.execute(table.insert().returning(table.c.value)).scalar_one()
        tx.connection.execute(sa.delete(table).where(table.c.value < drawn))
        return int(drawn)
    return int(tx.connection.execute(_next_epoch()).scalar_one())


@cache
def _next_epoch() -> sa.Select[Any]:
    return sa.select(epochs().next_value())


def next_epochs(tx: Transaction, count: int) -> list[int]:
    """As many values of that sequence."""
    if tx.dialect == "sqlite":
        return [next_epoch(tx) for _ in range(count)]
    rows = sa.select(epochs().next_value()).select_from(sa.func.generate_series(1, count))
    return [int(value) for value in tx.connection.execute(rows).scalars()]


def update_each(tx: Transaction, changes: Mapping[str, Mapping[str, Any]]) -> None:
    """Change several live deploys whose rows are locked, each in its own way.

    Args:
        tx: The transaction that holds their locks.
        changes: By id, values for the same columns.
    """
    d = tx.tables.deploys
    rows = [{"which": deploy, **clean(dict(values))} for deploy, values in changes.items()]
    if not rows:
        return
    named: dict[str, Any] = {name: sa.bindparam(name) for name in rows[0] if name != "which"}
    tx.connection.execute(
        sa.update(d)
        .where(d.c.id == sa.bindparam("which"), d.c.ended_at.is_(None))
        .values(**named, revision=d.c.revision + 1),
        rows,
    )


def live(tx: Transaction, *, application: str | None = None) -> list[Deploy]:
    """Every deploy that has not ended, the oldest first."""
    d = tx.tables.deploys
    query = whole(tx.tables).where(d.c.state.in_(LIVE_STATES)).order_by(d.c.requested_at)
    if application:
        query = query.where(d.c.application == application)
    return [of(row) for row in tx.connection.execute(query)]


def delayed(
    tx: Transaction, environment: str, *, limit: int | None = None, sight: Scope = ALL
) -> list[Deploy]:
    """Deploys of an environment whose gates are closed, in order of acceptance."""
    d = tx.tables.deploys
    query = whole(tx.tables).where(d.c.environment == environment, d.c.state == State.DELAYED)
    query = within(query, sight, d.c.application, d.c.environment)
    query = query.order_by(d.c.number)
    if limit is not None:
        query = query.limit(max(limit, 0))
    return [of(row) for row in tx.connection.execute(query)]


def owned(tx: Transaction, executor: str) -> list[Deploy]:
    """Live deploys that name this executor, whatever its incarnation."""
    d = tx.tables.deploys
    query = (
        whole(tx.tables)
        .where(d.c.executor == executor, d.c.state.in_(LIVE_STATES))
        .order_by(d.c.id)
    )
    return [of(row) for row in tx.connection.execute(query)]


def placed(tx: Transaction) -> list[Deploy]:
    """Live deploys that hold a place: whatever a worker has, has had or is about to have."""
    d, s = tx.tables.deploys, tx.tables.slots
    query = (
        whole(tx.tables)
        .join(s, s.c.deploy == d.c.id)
        .where(d.c.state.in_(LIVE_STATES))
        .order_by(d.c.id)
    )
    return [of(row) for row in tx.connection.execute(query)]


def cancelled(tx: Transaction) -> list[Deploy]:
    """Deploys somebody has cancelled that have not ended yet."""
    d = tx.tables.deploys
    query = whole(tx.tables).where(
        d.c.state.in_((State.ENQUEUED, State.PENDING)), d.c.cancel_requested_at.is_not(None)
    )
    return [of(row) for row in tx.connection.execute(query.order_by(d.c.requested_at))]


def lock_free(tx: Transaction, ids: Sequence[str]) -> list[Deploy]:
    """Those of the deploys whose row nobody holds, locked in the order of their ids."""
    d = tx.tables.deploys
    query = whole(tx.tables).where(d.c.id.in_(ids)).order_by(d.c.id)
    query = query.with_for_update(skip_locked=True)
    return [of(row) for row in tx.connection.execute(query)] if ids else []


def last_good(
    tx: Transaction, application: str, environment: str, *, is_whole: bool = False
) -> Deploy | None:
    """The last deploy that succeeded there; slots make their epochs rise with time.

    Args:
        tx: The transaction.
        application: Of what.
        environment: Where.
        is_whole: Only one that left no target out.
    """
    values = {"application": application, "environment": environment}
    return _one(tx, _last_good(tx.tables, is_whole=is_whole), values)


@cache
def _last_good(tables: Tables, *, is_whole: bool) -> sa.Select[Any]:
    d, given = tables.deploys, sa.bindparam
    query = whole(tables).where(
        d.c.application == given("application"),
        d.c.environment == given("environment"),
        d.c.state == State.SUCCESS,
    )
    query = query.order_by(d.c.epoch.desc()).limit(1)
    return query.where(d.c.outcome == Outcome.DEPLOYED) if is_whole else query
