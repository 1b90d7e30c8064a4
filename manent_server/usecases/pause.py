"""Pause, resume and delete a schedule: none of them ever fires anything."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from manent_server.domain import access
from manent_server.domain import schedule as scheduling
from manent_server.domain.access import Caller
from manent_server.domain.errors import Conflict
from manent_server.domain.schedule import Rules
from manent_server.store import records, schedules
from manent_server.store.records import Deed
from manent_server.store.schedules import Schedule
from manent_server.store.transaction import Transaction
from manent_server.usecases import fire, once, timetable
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import IdempotencyKey

_CHANGES = {
    "schedule.paused": {"is_paused": True},
    "schedule.resumed": {"is_paused": False},
    "schedule.deleted": {"is_deleted": True},
}
Change = Callable[[Transaction, Schedule, datetime], bool]


def pause(
    desk: Desk,
    address: str,
    *,
    reason: str | None = None,
    caller: Caller,
    key: IdempotencyKey | None = None,
) -> dict[str, Any]:
    """Let no further instant fire; deploys it asked for go on."""

    def change(tx: Transaction, row: Schedule, at: datetime) -> bool:
        if row.paused_at is not None or row.deleted_at is not None:
            return False
        _end(tx, row, at=at)
        schedules.update(
            tx, row.id, next_at=None, paused_at=at, paused_by=caller.name, pause_reason=reason
        )
        _audit(tx, row, "schedule.paused", caller, reason, at=at)
        return True

    return _change(desk, address, change, caller=caller, key=key)


def resume(
    desk: Desk, address: str, *, caller: Caller, key: IdempotencyKey | None = None
) -> dict[str, Any]:
    """Let it fire again, from its next instant on: none of those in between."""

    def change(tx: Transaction, row: Schedule, at: datetime) -> bool:
        if row.paused_at is None or row.deleted_at is not None:
            return False
        every = scheduling.recurrence(row.cron, row.timezone)
        last = schedules.runs(tx, row.id, limit=1)
        # A clock that was set back must not bring an instant a second time.
        since = max(at, last[0].at) if last else at
        schedules.update(
            tx,
            row.id,
            next_at=every.after(since),
            paused_at=None,
            paused_by=None,
            pause_reason=None,
        )
        _audit(tx, row, "schedule.resumed", caller, None, at=at)
        return True

    return _change(desk, address, change, caller=caller, key=key)


def delete(desk: Desk, address: str, *, caller: Caller) -> dict[str, Any]:
    """Let it never fire again and give its name away; deploys it asked for go on."""

    def change(tx: Transaction, row: Schedule, at: datetime) -> bool:
        if row.deleted_at is not None:
            return False
        _end(tx, row, at=at)
        schedules.update(
            tx, row.id, next_at=None, unique_name=None, deleted_at=at, deleted_by=caller.name
        )
        _audit(tx, row, "schedule.deleted", caller, None, at=at)
        return True

    return _change(desk, address, change, caller=caller, key=None)


def _change(
    desk: Desk, address: str, change: Change, *, caller: Caller, key: IdempotencyKey | None
) -> dict[str, Any]:
    caller.demand_somewhere(access.SCHEDULE)
    desk = desk.seen_by(caller)
    # Its id, found once: when the answer to a COMMIT was lost the name may be given away.
    with desk.store.read() as tx:
        known = once.remembered(tx, caller, key)
        found = timetable.find(tx, desk, known or address)
        caller.demand(access.SCHEDULE, found.application, found.environment)
        schedule = found.id

    def work(tx: Transaction) -> str:
        if once.remembered(tx, caller, key) is None:
            row = schedules.lock(tx, schedule)
            if row is not None:
                change(tx, row, tx.now())
            once.remember(tx, caller, key, schedule)
        return schedule

    return timetable.one(desk, once.run(desk.store, work))


def _end(tx: Transaction, row: Schedule, *, at: datetime) -> None:
    """Instants that have come and nobody has decided of yet are listed before it stops.

    Raises:
        Conflict: They are too many for one transaction.
    """
    if row.next_at is None or row.next_at > at:
        return
    found = scheduling.due(row.next_at, row.every, Rules(timedelta(0)), at=at, most=fire.MOST)
    come = [*found.missed, *([found.fires] if found.fires is not None else [])]
    if found.next_at is not None and found.next_at <= at:
        raise Conflict(
            f"schedule {row.name} still lists what it missed in an outage",
            code="schedule_behind",
            next="try again in a moment",
        )
    fire.miss(tx, row, come, at=at, reason="stopped")


def _audit(  # noqa: PLR0913 - who did what to which schedule, why and when
    tx: Transaction,
    row: Schedule,
    action: str,
    caller: Caller,
    reason: str | None,
    *,
    at: datetime,
) -> None:
    detail = {"schedule": row.name} | ({"reason": reason} if reason else {})
    before = {"is_paused": row.paused_at is not None, "is_deleted": row.deleted_at is not None}
    deed = Deed(
        caller,
        action,
        None,
        row.application,
        row.environment,
        detail,
        before=before,
        after=before | _CHANGES[action],
    )
    records.write_audit(tx, deed, at=at)
