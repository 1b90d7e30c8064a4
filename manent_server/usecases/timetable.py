"""Timetable: what schedules there are, when they fire next, and what became of past instants."""

from datetime import datetime
from typing import Any

from manent_server.domain import duration
from manent_server.domain import schedule as scheduling
from manent_server.domain.errors import Invalid, NotFound
from manent_server.domain.schedule import Recurrence, Source
from manent_server.store import schedules
from manent_server.store.schedules import Run, Schedule
from manent_server.store.transaction import Transaction
from manent_server.usecases import inspect, view
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import ScheduleRequest

SHOWN = 5
MOST = 100


def every(
    desk: Desk, *, application: str | None = None, environment: str | None = None
) -> dict[str, Any]:
    """The schedules that are not deleted, by name."""
    with desk.store.read() as tx:
        rows = schedules.all_of(tx, **inspect.place(tx, desk, application, environment))
        sees = desk.sight.covers
        seen = [row for row in rows if sees(row.application, row.environment)]
        return {"items": [_shown(tx, row) for row in seen], "next": None}


def one(desk: Desk, address: str) -> dict[str, Any]:
    """One by its name, or by its id."""
    with desk.store.read() as tx:
        return _shown(tx, find(tx, desk, address))


def runs(
    desk: Desk, address: str, *, before: datetime | None = None, limit: int = 50
) -> dict[str, Any]:
    """What became of the instants of a schedule, the newest first.

    Args:
        desk: The collaborators.
        address: The schedule.
        before: Only instants before this one.
        limit: At most so many.
    """
    with desk.store.read() as tx:
        row = find(tx, desk, address)
        found = schedules.runs(tx, row.id, before=before, limit=limit + 1)
    items = [_run(run, row) for run in found[:limit]]
    return {"items": items, "next": items[-1]["at"] if len(found) > limit else None}


def preview(desk: Desk, address: str, *, count: int = SHOWN) -> dict[str, Any]:
    """The instants at which a schedule fires next; a paused one: if it were resumed now."""
    with desk.store.read() as tx:
        row = find(tx, desk, address)
        later = _upcoming(row, _count(count), at=tx.now() if row.deleted_at is None else None)
    return {"items": [_instant(row.every, instant) for instant in later]}


def draft(desk: Desk, cron: str, timezone: str, *, count: int = SHOWN) -> dict[str, Any]:
    """The instants at which a schedule would fire that nobody has made yet.

    Raises:
        Invalid: There can be no such schedule.
    """
    recurrence = scheduling.recurrence(cron, timezone)
    with desk.store.read() as tx:
        at = tx.now()
    later = recurrence.upcoming(at, _count(count))
    return {"items": [_instant(recurrence, instant) for instant in later]}


def _count(count: int) -> int:
    if not 1 <= count <= MOST:
        raise Invalid(f"count is {count}", next=f"use 1 to {MOST}")
    return count


def find(tx: Transaction, desk: Desk, address: str) -> Schedule:
    """One by its name, or by its id.

    Raises:
        NotFound: There is none.
    """
    row = schedules.find(tx, address)
    if row is None or not desk.sight.covers(row.application, row.environment):
        shown = address.encode("unicode_escape").decode("ascii")[:80]
        raise NotFound(f"there is no schedule {shown}", next="manent schedule list shows them")
    return row


def told(request: ScheduleRequest) -> dict[str, Any]:
    """What the record says of a new schedule."""
    asked = {
        "cron": request.cron,
        "timezone": request.timezone,
        "version": request.version,
        "newest": request.newest or None,
        "from": request.source,
        "overlap": request.overlap,
        "catch_up": request.catch_up,
        "reason": request.reason,
    }
    return {name: value for name, value in asked.items() if value is not None}


def _shown(tx: Transaction, row: Schedule) -> dict[str, Any]:
    last = schedules.runs(tx, row.id, limit=1)
    later = _upcoming(row, SHOWN)
    return _fields(row) | {
        "next": [_instant(row.every, instant) for instant in later],
        "last": _run(last[0], row) if last else None,
    }


def _upcoming(row: Schedule, count: int, *, at: datetime | None = None) -> list[datetime]:
    """Its next instants; of one that fires none: those it would have, resumed at `at`."""
    if row.next_at is not None:
        return [row.next_at, *row.every.upcoming(row.next_at, count - 1)]
    return row.every.upcoming(at, count) if at is not None else []


def _fields(row: Schedule) -> dict[str, Any]:
    return {
        "id": row.id,
        "name": row.name,
        "application": row.application,
        "environment": row.environment,
        "cron": row.cron,
        "timezone": row.timezone,
        "version": row.version,
        "newest": row.source == Source.NEWEST,
        "from": row.source_environment,
        "overlap": row.overlap,
        "catch_up": duration.show(row.window) if row.window is not None else None,
        "reason": row.reason,
        "created_by": row.created_by,
        "created_at": view.instant(row.created_at),
        "paused_at": view.instant(row.paused_at),
        "paused_by": row.paused_by,
        "pause_reason": row.pause_reason,
        "deleted_at": view.instant(row.deleted_at),
        "deleted_by": row.deleted_by,
        "next_at": view.instant(row.next_at),
    }


def _instant(every: Recurrence, instant: datetime) -> dict[str, Any]:
    return {"at": view.instant(instant), "local": every.local(instant).isoformat()}


def _run(run: Run, row: Schedule) -> dict[str, Any]:
    return {
        "schedule": row.name,
        "at": view.instant(run.at),
        "result": run.result,
        "reason": run.reason,
        "detail": run.detail,
        "deploy": run.deploy,
        "settled_at": view.instant(run.settled_at),
    }
