"""Mark and lift: keep deploys from starting, and let them start again.

Locks, freezes, holds, vetoes and stops are set and lifted alike; what each keeps back is said in
`domain/gates.py`.
"""

import secrets
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from manent_server.domain import access, names
from manent_server.domain.access import Caller
from manent_server.domain.errors import Invalid, NotFound
from manent_server.domain.marks import Mark, Sort
from manent_server.store import marks, queue, records
from manent_server.store.transaction import Transaction
from manent_server.usecases import inspect, once, view
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import IdempotencyKey, MarkRequest

SETTING: Mapping[Sort, str] = {
    Sort.LOCK: access.LOCK,
    Sort.FREEZE: access.LOCK,
    Sort.HOLD: access.LOCK,
    Sort.VETO: access.LOCK,
    Sort.STOP: access.STOP,
}
LIFTING: Mapping[Sort, str] = {**SETTING, Sort.STOP: access.RESUME}
"""The right to lift; whoever may stop everything need not be who lets it go on."""


def put(
    desk: Desk, request: MarkRequest, *, caller: Caller, key: IdempotencyKey | None = None
) -> dict[str, Any]:
    """Set a mark; deploys that run finish their wave.

    Raises:
        ManentError: It names something unknown, gives no reason or an instant that has passed.
    """
    drafted = _draft(desk.seen_by(caller), request, caller)
    caller.demand(SETTING[request.sort], drafted["application"], drafted["environment"])

    def work(tx: Transaction) -> str:
        known = once.remembered(tx, caller, key)
        if known is not None:
            return known
        at = tx.now()
        _check_instants(request, at)
        if marks.read(tx, drafted["id"]) is None:
            mark = Mark(**drafted, created_at=at)
            marks.insert(tx, mark)
            marks.record(tx, mark, "set", by=caller, at=at)
        once.remember(tx, caller, key, drafted["id"])
        return str(drafted["id"])

    return _one(desk, once.run(desk.store, work))


def _draft(desk: Desk, request: MarkRequest, caller: Caller) -> dict[str, Any]:
    if not request.reason.strip():
        raise Invalid(f"a {request.sort} needs a reason", next="say why, for whoever meets it")
    if request.sort == Sort.VETO and request.version is None:
        raise Invalid("a veto needs a version", next="name the version that is to stay out")
    return {
        "id": secrets.token_hex(8),
        "sort": request.sort,
        "application": desk.application(request.application).name
        if request.application is not None
        else None,
        "environment": desk.environment(request.environment).name
        if request.environment is not None
        else None,
        "version": names.version(request.version) if request.version is not None else None,
        "reason": request.reason,
        "owner": caller.name,
        "starts_at": request.starts_at,
        "expires_at": request.expires_at,
        "automatic": False,
    }


def _check_instants(request: MarkRequest, at: datetime) -> None:
    ends = request.expires_at
    if ends is not None and ends <= at:
        raise _wrong_instant("expires_at", "lies in the past")
    if ends is not None and request.starts_at is not None and ends <= request.starts_at:
        raise _wrong_instant("expires_at", "is not after starts_at")


def _wrong_instant(path: str, message: str) -> Invalid:
    return Invalid(
        f"{path} {message}",
        code="instant_past",
        next="give a later instant",
        errors=[{"path": path, "message": message}],
    )


def lift(desk: Desk, sort: Sort, mark: str, *, caller: Caller) -> dict[str, Any]:
    """Lift a mark; what it held back is admitted at once.

    Raises:
        NotFound: No such mark is in force.
    """
    caller.demand_somewhere(LIFTING[sort])
    desk = desk.seen_by(caller)
    lifted: list[Mark] = []

    def work(tx: Transaction) -> list[str]:
        at = tx.now()
        standing = marks.standing(tx, at=at, sort=sort)
        lifted[:] = [held for held in standing if held.id == mark] or lifted
        lifted[:] = [held for held in lifted if is_seen(desk, held)]
        if not lifted:
            raise NotFound(
                f"there is no {sort} {mark[:40]!r}",
                next=f"GET /api/v1/{PATHS[sort]} lists them",
            )
        held = lifted[0]
        caller.demand(LIFTING[sort], held.application, held.environment)
        # Without one that stands the answer to an earlier COMMIT was lost.
        if any(one.id == mark for one in standing):
            marks.lift(tx, [mark], by=caller.name, at=at)
            marks.record(tx, held, "lifted", by=caller, at=at)
        records.wake_waiting(tx, held.environment, held.application, at=at)
        return [environment.name for environment in queue.environments(tx)]

    for environment in desk.store.once(work):
        if lifted[0].environment in (None, environment):
            desk.admission(environment)
    return view.mark(lifted[0])


PATHS: Mapping[Sort, str] = {
    Sort.LOCK: "locks",
    Sort.FREEZE: "freezes",
    Sort.HOLD: "holds",
    Sort.VETO: "vetoes",
    Sort.STOP: "stops",
}


def standing(
    desk: Desk, *sorts: Sort, application: str | None = None, environment: str | None = None
) -> dict[str, Any]:
    """Marks that bind now or will.

    Args:
        desk: The collaborators.
        sorts: Only of these; none given: all.
        application: Only those that speak of it.
        environment: Only those that speak of it.

    Raises:
        NotFound: There is no such application or environment.
    """
    with desk.store.read() as tx:
        place = inspect.place(tx, desk, application, environment)
        found = marks.standing(tx, at=tx.now())
    spoken = [
        mark
        for mark in found
        if (not sorts or mark.sort in sorts)
        and is_seen(desk, mark)
        and all(name is None or getattr(mark, of) in (None, name) for of, name in place.items())
    ]
    return {"items": [view.mark(mark) for mark in spoken]}


def is_seen(desk: Desk, mark: Mark) -> bool:
    """Whether the mark is about something that can be seen here."""
    return desk.sight.touches(mark.application, mark.environment)


def _one(desk: Desk, mark: str) -> dict[str, Any]:
    with desk.store.read() as tx:
        found = marks.read(tx, mark)
    if found is None:
        raise NotFound(f"the mark {mark} is gone", next="set a new one")
    return view.mark(found)
