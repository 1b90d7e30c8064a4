"""Schedule: deploy again and again, at the instants of a cron expression."""

import secrets
from collections.abc import Mapping
from typing import Any

from manent_server.domain import access, duration, names
from manent_server.domain import schedule as scheduling
from manent_server.domain.access import Caller
from manent_server.domain.errors import Conflict, Invalid
from manent_server.domain.schedule import Overlap, Source
from manent_server.store import records, schedules
from manent_server.store.records import Deed
from manent_server.store.transaction import Transaction
from manent_server.usecases import identify, once, timetable
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import IdempotencyKey, ScheduleRequest


def schedule(
    desk: Desk, request: ScheduleRequest, *, caller: Caller, key: IdempotencyKey | None = None
) -> dict[str, Any]:
    """Make a schedule; it fires at its first instant that is still to come.

    Raises:
        Conflict: Another schedule has that name.
        Refused: A program makes it, and a rule there wants to know for whom.
    """
    desk = desk.seen_by(caller)
    values = _values(desk, request, caller)
    for right in (access.SCHEDULE, access.DEPLOY):
        caller.demand(right, values["application"], values["environment"])
    rules = desk.environment(values["environment"]).rules
    identify.demand_known(rules.approvals, identify.requester(caller), override=())
    every = scheduling.recurrence(values["cron"], values["timezone"])

    def work(tx: Transaction) -> str:
        known = once.remembered(tx, caller, key)
        if known is not None:
            return known
        at = tx.now()
        made = values | {"created_at": at, "next_at": every.after(at)}
        if schedules.insert(tx, made):
            detail = {"schedule": values["name"], **timetable.told(request)}
            where = (values["application"], values["environment"])
            deed = Deed(caller, "schedule.created", None, *where, detail, after=_stands(values))
            records.write_audit(tx, deed, at=at)
        elif schedules.lock(tx, values["id"]) is None:
            # Whoever has the name may have made it with this very key, at the same moment.
            known = once.remembered(tx, caller, key)
            if known is not None:
                return known
            raise Conflict(
                f"there is a schedule {values['name']} already",
                code="schedule_exists",
                next="take another name, or delete that one first",
            )
        once.remember(tx, caller, key, values["id"])
        return str(values["id"])

    return timetable.one(desk, once.run(desk.store, work))


def _stands(values: Mapping[str, Any]) -> dict[str, Any]:
    names = ("cron", "timezone", "source", "version", "source_environment", "overlap", "catch_up")
    return {name: values[name] for name in names if values.get(name) is not None}


def _values(desk: Desk, request: ScheduleRequest, caller: Caller) -> dict[str, Any]:
    application = desk.application(request.application)
    environment = desk.environment(request.environment)
    desk.placement(application, environment)
    every = scheduling.recurrence(request.cron, request.timezone)
    source = _source(request)
    origin = desk.environment(request.source).name if request.source is not None else None
    if origin == environment.name:
        raise _invalid("from", "is the environment it deploys to")
    if origin is not None:
        desk.placement(application, desk.environment(origin))
    return {
        "id": secrets.token_hex(8),
        "name": names.name(request.name, "schedule"),
        "application": application.name,
        "environment": environment.name,
        "cron": every.cron,
        "timezone": every.timezone,
        "source": source,
        "version": names.version(request.version) if request.version is not None else None,
        "source_environment": origin,
        "overlap": _overlap(request.overlap),
        "catch_up": _catch_up(request.catch_up),
        "reason": request.reason,
        "created_by": caller.name,
        "behind": caller.acts_for or caller.login,
    }


def _source(request: ScheduleRequest) -> Source:
    given = {
        Source.VERSION: request.version is not None,
        Source.NEWEST: request.newest,
        Source.ENVIRONMENT: request.source is not None,
    }
    asked = [source for source, is_given in given.items() if is_given]
    if len(asked) != 1:
        raise _invalid("version", "has to be given, or newest, or from: one of the three")
    return asked[0]


def _overlap(text: str) -> Overlap:
    if text not in tuple(Overlap):
        raise _invalid("overlap", f"is one of {', '.join(Overlap)}")
    return Overlap(text)


def _catch_up(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        window = duration.parse(text)
    except ValueError as error:
        raise _invalid("catch_up", str(error)) from error
    if not window:
        raise _invalid("catch_up", "is no time; leave it out to skip what was missed")
    return schedules.microseconds(window)


def _invalid(field: str, words: str) -> Invalid:
    return Invalid(
        f"{field} {words}",
        code="schedule_invalid",
        next="correct it and send it again",
        errors=[{"path": field, "message": words}],
    )
