"""Steps and attempts: what a pass has done, and what is at work now."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa

from manent_server.domain.plan import Step
from manent_server.store.clean import clean
from manent_server.store.deploys import Deploy
from manent_server.store.tables import Tables, into
from manent_server.store.transaction import Transaction


@dataclass(frozen=True)
class StepRow:
    """A step as recorded. `state`: waiting, running, succeeded, failed or skipped."""

    deploy: str
    pass_number: int
    name: str
    position: int
    hook: str
    target: str | None
    wave: int | None
    state: str
    failures: int
    outputs: Mapping[str, Any] | None
    error: Mapping[str, Any] | None
    checkpoint: Any
    started_at: datetime | None
    next_try_at: datetime | None
    ended_at: datetime | None
    carried_from: str | None


@dataclass(frozen=True)
class Attempt:
    """One run of a hook; it is open until `ended_at` is written.

    `died`: its worker died under it without a recorded stop; None where nobody had to ask.
    `resolved`: what a person said of it, where nobody knew whether it had done its work.
    """

    id: str
    deploy: str
    pass_number: int
    step: str
    attempt: int
    application: str
    environment: str
    hook: str
    target: str
    plugin: str
    epoch: int
    executor: str
    incarnation: str
    hostname: str
    boot: str
    pid_namespace: str
    lock_file: str
    handed_out_at: datetime
    lease_until: datetime | None
    ended_at: datetime | None
    result: str | None
    died: bool | None
    resolved: str | None
    error: Mapping[str, Any] | None
    outputs: Mapping[str, Any] | None


_CARRIED = (
    "state",
    "failures",
    "outputs",
    "error",
    "started_at",
    "next_try_at",
    "ended_at",
    "carried_from",
)
_STEP = tuple(field.name for field in fields(StepRow))
_ATTEMPT = tuple(field.name for field in fields(Attempt))


@cache
def _steps(tables: Tables) -> sa.Select[Any]:
    return sa.select(*(tables.steps.c[name] for name in _STEP))


@cache
def _attempts(tables: Tables) -> sa.Select[Any]:
    return sa.select(*(tables.attempts.c[name] for name in _ATTEMPT))


def write_steps(
    tx: Transaction,
    deploy: Deploy,
    steps: Iterable[Step],
    *,
    carried: Mapping[str, StepRow] = MappingProxyType({}),
) -> list[StepRow]:
    """Record the steps of a pass that are not yet recorded; every one it now has, in no order.

    Args:
        tx: The transaction that holds the deploy's row.
        deploy: Whose pass.
        steps: The plan, or the part of it to record.
        carried: By name, steps of another pass whose end this one takes over.
    """
    found = read_steps(tx, deploy.id, pass_number=deploy.pass_number)
    known = {step.name for step in found}
    rows = [
        {
            "deploy": deploy.id,
            "pass_number": deploy.pass_number,
            "name": step.name,
            "position": step.position,
            "hook": step.hook,
            "target": step.target,
            "wave": step.wave,
            **_end_of(carried.get(step.name), deploy),
        }
        for step in steps
        if step.name not in known
    ]
    if rows:
        found += [StepRow(*row) for row in tx.connection.execute(_steps_written(tx.tables), rows)]
    return found


@cache
def _steps_written(tables: Tables) -> sa.Insert:
    """All of them by one statement."""
    return into(tables.steps).returning(*(tables.steps.c[name] for name in _STEP))


def _end_of(carried: StepRow | None, deploy: Deploy) -> dict[str, Any]:
    """How a new row begins: waiting, or as the row that is carried over ended."""
    if carried is None:
        nothing = dict.fromkeys(_CARRIED)
        return nothing | {"state": "waiting", "failures": 0}
    taken = {name: getattr(carried, name) for name in _CARRIED}
    is_own = (carried.deploy, carried.pass_number) == (deploy.id, deploy.pass_number)
    return taken | {"carried_from": None if is_own else carried.carried_from or carried.deploy}


def forget_steps(tx: Transaction, deploy: Deploy) -> None:
    """Forget the steps of a pass in which nothing was handed out."""
    s = tx.tables.steps
    tx.connection.execute(
        sa.delete(s).where(s.c.deploy == deploy.id, s.c.pass_number == deploy.pass_number)
    )


def read_steps(tx: Transaction, deploy: str, *, pass_number: int | None = None) -> list[StepRow]:
    """The steps of a deploy, or of one pass of it, in order."""
    query, values = _steps_of(tx.tables), {"deploy": deploy, "pass_number": pass_number}
    if pass_number is None:
        query, values = _all_steps_of(tx.tables), {"deploy": deploy}
    return [StepRow(*row) for row in tx.connection.execute(query, values)]


@cache
def _all_steps_of(tables: Tables) -> sa.Select[Any]:
    s = tables.steps
    query = _steps(tables).order_by(s.c.pass_number, s.c.position)
    return query.where(s.c.deploy == sa.bindparam("deploy"))


@cache
def _steps_of(tables: Tables) -> sa.Select[Any]:
    return _all_steps_of(tables).where(tables.steps.c.pass_number == sa.bindparam("pass_number"))


def open_steps(tx: Transaction, deploys: Iterable[str]) -> list[StepRow]:
    """Steps of several deploys that have not ended, in order."""
    s = tx.tables.steps
    query = _steps(tx.tables).where(s.c.deploy.in_(list(deploys)), s.c.ended_at.is_(None))
    query = query.order_by(s.c.deploy, s.c.pass_number, s.c.position)
    return [StepRow(*row) for row in tx.connection.execute(query)]


@cache
def _step_by_name(tables: Tables) -> sa.Select[Any]:
    s, given = tables.steps, sa.bindparam
    return _steps(tables).where(
        s.c.deploy == given("deploy"),
        s.c.pass_number == given("pass_number"),
        s.c.name == given("name"),
    )


def read_step(tx: Transaction, deploy: str, pass_number: int, name: str) -> StepRow | None:
    """One step of a pass."""
    values = {"deploy": deploy, "pass_number": pass_number, "name": name}
    row = tx.connection.execute(_step_by_name(tx.tables), values).one_or_none()
    return StepRow(*row) if row else None


def update_step(
    tx: Transaction, deploy: str, pass_number: int, name: str, **values: Any
) -> StepRow | None:
    """Change a step that has not ended; a finished step keeps its outcome.

    Returns:
        The step as it now stands, or None if it has ended or is not there.
    """
    which = {"of_deploy": deploy, "of_pass": pass_number, "of_name": name}
    row = tx.connection.execute(_step_changed(tx.tables), clean(values) | which).one_or_none()
    return StepRow(*row) if row else None


@cache
def _step_changed(tables: Tables) -> sa.UpdateBase:
    """The columns are those of the values it is executed with."""
    s, given = tables.steps, sa.bindparam
    is_it = (
        s.c.deploy == given("of_deploy"),
        s.c.pass_number == given("of_pass"),
        s.c.name == given("of_name"),
        s.c.ended_at.is_(None),
    )
    return sa.update(s).where(*is_it).returning(*(s.c[name] for name in _STEP))


def insert_attempt(tx: Transaction, values: Mapping[str, Any]) -> None:
    """Hand an attempt out."""
    tx.connection.execute(into(tx.tables.attempts), clean(values))


def update_attempt(tx: Transaction, attempt: str, **values: Any) -> bool:
    """Change an open attempt; False if it has ended already."""
    done = tx.connection.execute(
        _attempt_changed(tx.tables), clean(values) | {"of_attempt": attempt}
    )
    return done.rowcount == 1


@cache
def _attempt_changed(tables: Tables) -> sa.Update:
    """The columns are those of the values it is executed with."""
    a = tables.attempts
    return sa.update(a).where(a.c.id == sa.bindparam("of_attempt"), a.c.ended_at.is_(None))


def end_lost(
    tx: Transaction, attempt: str, *, died: bool, message: str, is_begun: bool = True
) -> bool:
    """End an open attempt whose worker will not say how it ended.

    Args:
        tx: The transaction that takes it from its worker.
        attempt: Its id.
        died: Its worker died without a recorded stop: a death of the step it ran.
        message: Why it is taken as ended.
        is_begun: False where its hook is known not to have begun.

    Returns:
        False if it had ended already.
    """
    result = "interrupted" if is_begun else "not_started"
    error = {"code": result, "message": message}
    a = tx.tables.attempts
    # A worker that lives to say so was not dead, whoever took it for that.
    known = sa.func.coalesce(a.c.died, died and is_begun)
    values = {"ended_at": tx.now(), "result": result, "error": error, "of_attempt": attempt}
    ended = tx.connection.execute(_attempt_changed(tx.tables).values(died=known), values)
    return ended.rowcount == 1


def end_all_lost(tx: Transaction, attempts: Iterable[str], *, died: bool, message: str) -> None:
    """End open attempts that began, all for one reason; `end_lost` says more."""
    a = tx.tables.attempts
    values = {
        "ended_at": tx.now(),
        "result": "interrupted",
        "error": clean({"code": "interrupted", "message": message}),
        "died": sa.func.coalesce(a.c.died, died),
    }
    wanted = (a.c.id.in_(list(attempts)), a.c.ended_at.is_(None))
    tx.connection.execute(sa.update(a).where(*wanted).values(values))


def read_attempts(tx: Transaction, deploy: str) -> list[Attempt]:
    """Every attempt of a deploy in the order of hand-out."""
    found = tx.connection.execute(_attempts_of(tx.tables), {"deploy": deploy})
    return [Attempt(*row) for row in found]


@cache
def _attempts_of(tables: Tables) -> sa.Select[Any]:
    a = tables.attempts
    query = _attempts(tables).where(a.c.deploy == sa.bindparam("deploy"))
    return query.order_by(a.c.handed_out_at, a.c.id)


def read_attempt(tx: Transaction, attempt: str) -> Attempt | None:
    """One attempt."""
    row = tx.connection.execute(
        _attempts(tx.tables).where(tx.tables.attempts.c.id == attempt)
    ).one_or_none()
    return Attempt(*row) if row else None


@cache
def _around(tables: Tables) -> sa.Select[Any]:
    a, given = tables.attempts, sa.bindparam
    of_step = sa.and_(
        a.c.deploy == given("deploy"),
        a.c.pass_number == given("pass_number"),
        a.c.step == given("step"),
    )
    open_there = sa.and_(
        a.c.ended_at.is_(None),
        a.c.environment == given("environment"),
        a.c.application == given("application"),
    )
    return _attempts(tables).where(sa.or_(of_step, open_there))


def attempts_around(tx: Transaction, deploy: Deploy, step: str) -> list[Attempt]:
    """Every attempt of a step in the deploy's pass, and every open one of that place."""
    values = {
        "deploy": deploy.id,
        "pass_number": deploy.pass_number,
        "step": step,
        "environment": deploy.environment,
        "application": deploy.application,
    }
    return [Attempt(*row) for row in tx.connection.execute(_around(tx.tables), values)]


def open_attempts(
    tx: Transaction,
    *,
    executor: str | None = None,
    place: tuple[str, str] | None = None,
) -> list[Attempt]:
    """Attempts that have not ended: of an executor, or of one (environment, application)."""
    a = tx.tables.attempts
    query = _attempts(tx.tables).where(a.c.ended_at.is_(None)).order_by(a.c.handed_out_at)
    if executor is not None:
        query = query.where(a.c.executor == executor)
    if place is not None:
        query = query.where(a.c.environment == place[0], a.c.application == place[1])
    return [Attempt(*row) for row in tx.connection.execute(query)]


def oldest_attempts(tx: Transaction) -> dict[str, datetime]:
    """When each executor began the oldest attempt that it has not ended."""
    a = tx.tables.attempts
    query = (
        sa.select(a.c.executor, sa.func.min(a.c.handed_out_at).label("oldest"))
        .where(a.c.ended_at.is_(None))
        .group_by(a.c.executor)
    )
    return {row.executor: row.oldest for row in tx.connection.execute(query)}


def in_the_way(tx: Transaction, deploy: Deploy, *, at: datetime) -> list[Attempt]:
    """Attempts there of other deploys or epochs that may still be at work."""
    place = (deploy.environment, deploy.application)
    earlier = others(open_attempts(tx, place=place), deploy)
    return [attempt for attempt in earlier if may_act(attempt, at=at)]


def others(
    attempts: Iterable[Attempt], deploy: Deploy, *, target: str | None = None
) -> list[Attempt]:
    """The open ones in the deploy's place of other deploys or epochs, or of this very target."""
    place = (deploy.environment, deploy.application)
    return [
        attempt
        for attempt in attempts
        if attempt.ended_at is None
        and (attempt.environment, attempt.application) == place
        and (
            (attempt.deploy, attempt.epoch) != (deploy.id, deploy.epoch) or attempt.target == target
        )
    ]


def may_act(attempt: Attempt, *, at: datetime) -> bool:
    """Whether processes of the attempt may be at work: no end is recorded, its lease goes on."""
    goes_on = attempt.lease_until is None or attempt.lease_until > at
    return attempt.ended_at is None and goes_on


def lock_attempts(tx: Transaction, ids: Sequence[str]) -> list[Attempt]:
    """Those of the attempts whose row nobody else holds, locked, in the order of their ids."""
    a = tx.tables.attempts
    query = _attempts(tx.tables).where(a.c.id.in_(ids)).order_by(a.c.id)
    query = query.with_for_update(skip_locked=True)
    return [Attempt(*row) for row in tx.connection.execute(query)]
