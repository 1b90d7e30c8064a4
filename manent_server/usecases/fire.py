"""Fire: decide of every instant that has come, each in the transaction that records it."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final

from manent_server.domain import access, liveness
from manent_server.domain import schedule as scheduling
from manent_server.domain.errors import Invalid, ManentError, Unavailable
from manent_server.domain.schedule import Result, Rules
from manent_server.store import history, records, schedules
from manent_server.store.records import Deed
from manent_server.store.repeat import is_contention, is_transient
from manent_server.store.schedules import Run, Schedule
from manent_server.store.transaction import Transaction
from manent_server.usecases import candidate, submit
from manent_server.usecases.accept import demand_environment
from manent_server.usecases.candidate import Skipped
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import DeployRequest

_log = logging.getLogger(__name__)
MOST: Final = 1000
"""So many instants are decided of in one transaction; a long outage takes several."""


def fire_due(desk: Desk) -> int:
    """Decide of every instant that has come; of how many schedules that was."""
    with desk.store.read() as tx:
        due = schedules.due(tx, at=tx.now())
    stuck: set[str] = set()
    for schedule, environment in due:
        if environment not in stuck and not _try(desk, schedule):
            stuck.add(environment)
    return len(due)


def _try(desk: Desk, schedule: str) -> bool:
    """One schedule; False where its environment is held by somebody: the others go on.

    Raises:
        Unavailable: The database is away, or another process fires by now.
    """
    try:
        desk.store.once(partial(_settle, desk=desk, schedule=schedule))
    except Unavailable as error:
        if error.__cause__ is None or not is_contention(error.__cause__):
            raise
        _log.warning("schedule %s waits for a row that is held; it is tried again", schedule)
        return False
    except Exception:  # noqa: BLE001 - logged whole; the other schedules go on
        _log.exception("schedule %s could not be looked at; it is tried again", schedule)
    return True


def _settle(tx: Transaction, *, desk: Desk, schedule: str) -> None:
    row = schedules.lock(tx, schedule)
    at = tx.now()
    if row is None or row.next_at is None or row.next_at > at:
        return
    try:
        every = scheduling.recurrence(row.cron, row.timezone)
    except Invalid as error:
        _halt(tx, _Tick(row, row.next_at, at, is_late=False), error)
        return
    found = scheduling.due(row.next_at, every, _rules(desk, row), at=at, most=MOST)
    miss(tx, row, found.missed, at=at)
    if found.fires is not None:
        tick = _Tick(row, found.fires, at, is_late=found.is_late)
        _record(tx, row, _fire(tx, desk, tick))
    schedules.update(tx, row.id, next_at=found.next_at)


def _rules(desk: Desk, row: Schedule) -> Rules:
    recovery = desk.settings().recovery
    lease = liveness.loop_lease(recovery.heartbeat_interval, recovery.auto_recover_after)
    return Rules(scheduling.lateness(lease), row.window)


@dataclass(frozen=True)
class _Tick:
    """An instant that is to fire."""

    schedule: Schedule
    instant: datetime
    at: datetime
    is_late: bool

    def ends(
        self, result: Result, reason: str | None, detail: str | None, deploy: str | None = None
    ) -> Run:
        """What became of it."""
        return Run(self.schedule.id, self.instant, result, reason, detail, deploy, self.at)


def _fire(tx: Transaction, desk: Desk, tick: _Tick) -> Run:
    """Ask for the deploy; what goes wrong with it undoes nothing else and is written down."""
    try:
        with tx.savepoint():
            deploy = _deploy(tx, desk, tick)
    except Skipped as why:
        return tick.ends(Result.SKIPPED, why.code, why.detail)
    except Unavailable:
        raise
    except ManentError as error:
        return tick.ends(Result.REFUSED, error.code, error.detail)
    except Exception as error:
        if is_transient(error):
            raise
        _log.exception("schedule %s failed to fire", tick.schedule.name)
        return tick.ends(Result.FAILED, type(error).__name__, "the log of the server says more")
    return tick.ends(Result.FIRED, "caught_up" if tick.is_late else None, None, deploy)


def _deploy(tx: Transaction, desk: Desk, tick: _Tick) -> str:
    row = tick.schedule
    live = schedules.live(tx, row.id)
    if scheduling.overlaps(row.policy, [has_begun for _, has_begun in live]):
        raise Skipped("overlap", f"deploy {live[-1][0]} of this schedule has not ended")
    chosen = candidate.choose(tx, desk, row)
    request = DeployRequest(
        row.application,
        row.environment,
        chosen.version,
        sha256=chosen.sha256,
        reason=row.reason or f"schedule {row.name}",
        # Who wrote them has no say in it, though automation brings them.
        changes=history.changes_of(tx, row.application, chosen.version),
    )
    caller = access.schedule(row.name, row.application)
    drafted = submit.drafted(desk, request, caller)
    draft = replace(
        drafted,
        origin=schedules.ORIGIN,
        acts_for=row.behind or row.created_by,
        is_nobodys=row.behind is None,
    )
    demand_environment(tx, draft)
    candidate.demand_kept(tx, row, draft.version)
    submit.enter(tx, desk, draft)
    return draft.id


def _record(tx: Transaction, row: Schedule, run: Run) -> None:
    schedules.write_runs(tx, [run])
    detail = {"schedule": row.name, "instant": run.at.isoformat()}
    if run.reason is not None:
        detail["reason"] = run.reason
    if run.detail is not None:
        detail["detail"] = run.detail
    deed = _deed(row, f"schedule.{run.result}", detail, run.deploy)
    records.write_audit(tx, deed, at=run.settled_at)


def miss(
    tx: Transaction,
    row: Schedule,
    instants: Sequence[datetime],
    *,
    at: datetime,
    reason: str | None = None,
) -> None:
    """List instants as missed, and record that once for all of them."""
    if not instants:
        return
    runs = [
        Run(row.id, instant, Result.MISSED, reason, None, None, settled_at=at)
        for instant in instants
    ]
    schedules.write_runs(tx, runs)
    detail = {
        "schedule": row.name,
        "count": len(instants),
        "from": instants[0].isoformat(),
        "to": instants[-1].isoformat(),
    }
    records.write_audit(tx, _deed(row, "schedule.missed", detail), at=at)


def _halt(tx: Transaction, tick: _Tick, error: Invalid) -> None:
    """A recurrence this machine cannot read any more: paused, for a person to look at."""
    row, at = tick.schedule, tick.at
    words = f"{error.detail}: {row.cron!r} in {row.timezone}"
    _record(tx, row, tick.ends(Result.FAILED, error.code, words))
    schedules.update(tx, row.id, next_at=None, paused_at=at, paused_by="manent", pause_reason=words)


def _deed(
    row: Schedule, action: str, detail: Mapping[str, object], deploy: str | None = None
) -> Deed:
    actor = f"schedule:{row.name}"
    return Deed(actor, action, deploy, row.application, row.environment, detail)
