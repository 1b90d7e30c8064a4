"""Inspect: everything one can read."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from manent_server.domain import gates, names
from manent_server.domain.access import Scope
from manent_server.domain.deploy import Outcome, Phase, State
from manent_server.domain.errors import Invalid, NotFound
from manent_server.domain.gates import Facts
from manent_server.domain.liveness import is_lost
from manent_server.domain.marks import Sort
from manent_server.store import deploys as rows_of
from manent_server.store import (
    facts,
    finding,
    logs,
    policy,
    queue,
    records,
    schedules,
    work,
    workers,
)
from manent_server.store.deploys import Deploy
from manent_server.store.finding import Page
from manent_server.store.transaction import Transaction
from manent_server.store.workers import Executor
from manent_server.usecases import view
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import DeployFilter

LONGEST_PAGE = 500
LONGEST_QUEUE = 100
_LOG_CHARACTERS = 512 * 1024


def deploys(desk: Desk, wanted: DeployFilter) -> dict[str, Any]:
    """Deploys, the newest first."""
    if not 1 <= wanted.limit <= LONGEST_PAGE:
        raise Invalid(f"limit is {wanted.limit}", next=f"use 1 to {LONGEST_PAGE}")
    version = names.version(wanted.version) if wanted.version is not None else None
    page = Page(
        application=wanted.application,
        environment=wanted.environment,
        version=version,
        states=[_word(state.upper(), list(State), "state") for state in wanted.states],
        outcome=_word(wanted.outcome, list(Outcome), "outcome")
        if wanted.outcome is not None
        else None,
        before=wanted.before,
        limit=wanted.limit,
        sight=desk.sight,
    )
    with desk.store.read() as tx:
        where = place(tx, desk, wanted.application, wanted.environment)
        rows, after = finding.page(tx, replace(page, **where, seen=_only_seen(tx, desk)))
        return view.page(_all_shown(tx, desk, rows), after)


def place(
    tx: Transaction, desk: Desk, application: str | None, environment: str | None
) -> dict[str, Any]:
    """Both as they are stored, each known here, now or from before."""
    applications, environments = _seen(tx, desk)
    return {
        "application": _known(application, "application", applications),
        "environment": _known(environment, "environment", environments),
    }


def _only_seen(tx: Transaction, desk: Desk) -> tuple[list[str], list[str]] | None:
    """None for who sees everything."""
    return None if desk.sight.is_everywhere else _seen(tx, desk)


def _seen(tx: Transaction, desk: Desk) -> tuple[list[str], list[str]]:
    """The applications and the environments in sight, now or from before."""
    sees = desk.sight.touches
    return (
        [name for name in policy.applications(tx) if sees(name, None)],
        [row.name for row in queue.environments(tx) if sees(None, row.name)],
    )


def _known(text: str | None, what: str, known: Sequence[str]) -> str | None:
    if text is None:
        return None
    name = names.name(text, what, known=known)
    if name not in known:
        like = names.nearest(name, known)
        words = ", ".join(sorted(known)[:30]) or "none"
        raise NotFound(
            f"there is no {what} {name}",
            next=f"did you mean {like}?" if like else f"known: {words}",
        )
    return name


def _word(text: str, known: list[Any], what: str) -> str:
    if text not in known:
        words = ", ".join(known)
        raise Invalid(f"there is no {what} {text[:40]!r}", next=f"known: {words}")
    return text


def deploy(desk: Desk, address: str) -> dict[str, Any]:
    """One deploy."""
    with desk.store.read() as tx:
        return _shown(tx, desk, desk.deploy(tx, address))


def _shown(tx: Transaction, desk: Desk, row: Deploy) -> dict[str, Any]:
    return _all_shown(tx, desk, [row])[0]


def _all_shown(tx: Transaction, desk: Desk, rows: Sequence[Deploy]) -> list[dict[str, Any]]:
    """Deploys with what stands in other rows, each asked for once."""
    queued = {row.environment for row in rows if _has_place_in_queue(row)}
    positions: dict[str, int] = {}
    for environment in queued:
        ids = finding.queued(tx, environment)
        positions |= {deploy: place for place, deploy in enumerate(ids, start=1)}
    versions = rows_of.versions(tx, [row.rollback_to for row in rows if row.rollback_to])
    asked = [row.id for row in rows if row.origin == schedules.ORIGIN]
    scheduled = schedules.of_deploys(tx, asked)
    pushed_out = rows_of.superseded(tx, [row.id for row in rows])
    sources = [row.promoted_from for row in rows if row.promoted_from]
    known_sources = set(finding.of_sight(tx, sources, desk.sight))
    return [
        view.deploy(
            row,
            url=desk.url,
            beside=view.Beside(
                positions.get(row.id),
                versions.get(row.rollback_to or ""),
                pushed_out.get(row.id, ()),
            ),
        )
        | {
            "schedule": _schedule(scheduled.get(row.id)),
            "promoted_from": row.promoted_from if row.promoted_from in known_sources else None,
        }
        for row in rows
    ]


def _has_place_in_queue(row: Deploy) -> bool:
    """Whether it may have one: what is dispatched has left the queue."""
    return row.state == State.ENQUEUED and row.phase != Phase.DISPATCHED


def _schedule(asked: tuple[str, datetime] | None) -> dict[str, Any] | None:
    """The schedule that asked for a deploy, and for which instant."""
    return {"name": asked[0], "at": view.instant(asked[1])} if asked else None


def steps(desk: Desk, address: str) -> dict[str, Any]:
    """The steps of a deploy in their order."""
    with desk.store.read() as tx:
        row = desk.deploy(tx, address)
        counts: dict[tuple[int, str], int] = {}
        for attempt in work.read_attempts(tx, row.id):
            place = (attempt.pass_number, attempt.step)
            counts[place] = counts.get(place, 0) + 1
        items = [
            view.step(step, attempts=counts.get((step.pass_number, step.name), 0))
            for step in work.read_steps(tx, row.id)
        ]
    return {"items": items}


def attempts(desk: Desk, address: str) -> dict[str, Any]:
    """The attempts of a deploy in the order of their hand-out."""
    with desk.store.read() as tx:
        row = desk.deploy(tx, address)
        return {"items": [view.attempt(attempt) for attempt in work.read_attempts(tx, row.id)]}


def log(
    desk: Desk, address: str, *, after: int = 0, limit: int = 1000, tail: int | None = None
) -> dict[str, Any]:
    """Lines after a number; `next` is what to ask after, `ended` that none will follow.

    Args:
        desk: The collaborators.
        address: The deploy.
        after: Only lines with a higher number.
        limit: At most so many.
        tail: Begin so many lines before the end there is now.
    """
    with desk.store.read() as tx:
        row = desk.deploy(tx, address)
        if tail is not None:
            after = max(after, row.log_next - 1 - tail)
        lines = logs.read(tx, row.id, after=after, limit=limit, size=_LOG_CHARACTERS)
    last = lines[-1].sequence if lines else after
    return {
        "items": [view.line(line) for line in lines],
        "next": last,
        "ended": not row.is_live and last + 1 >= row.log_next,
    }


def inventory(
    desk: Desk, *, application: str | None = None, environment: str | None = None
) -> dict[str, Any]:
    """What runs where."""
    with desk.store.read() as tx:
        rows = records.inventory(tx, **place(tx, desk, application, environment))
    sees = desk.sight.covers
    return {"items": [view.stock(row) for row in rows if sees(row.application, row.environment)]}


def environments(desk: Desk) -> dict[str, Any]:
    """Every environment that is configured."""
    with desk.store.read() as tx:
        rows = queue.environments(tx)
    sees = desk.sight.touches
    return {
        "items": [
            view.environment(row) for row in rows if row.is_configured and sees(None, row.name)
        ]
    }


def environment(desk: Desk, name: str) -> dict[str, Any]:
    """One environment: who runs there, who waits, what is locked, who could work."""
    with desk.store.read() as tx:
        sight = desk.sight
        found = {row.name: row for row in queue.environments(tx) if sight.touches(None, row.name)}
        wanted = _known(name, "environment", list(found)) or name
        row = found[wanted]
        waiting = queue.waiting(tx, wanted, limit=LONGEST_QUEUE, sight=sight)
        left = LONGEST_QUEUE - len(waiting)
        waiting += rows_of.delayed(tx, wanted, limit=left, sight=sight)
        place = seen(facts.read(tx, wanted), sight)
        standing = [mark for mark in place.marks if mark.environment in (None, wanted)]
        everyone = [worker for worker in workers.everyone(tx) if row.pool in worker.pools]
        return view.environment(row) | {
            "slots": [
                _slot(tx, slot)
                for slot in queue.slots(tx, wanted)
                if sight.covers(slot.application, wanted)
            ],
            "queue": _all_shown(tx, desk, waiting),
            "locks": [view.mark(mark) for mark in standing if mark.sort == Sort.LOCK],
            "gates": [view.gate(gate) for gate in gates.of_environment(wanted, place)],
            "planned": [view.mark(mark) for mark in standing if mark.since > place.at],
            "last": _last(tx, desk, wanted),
            "workers": [
                view.worker(worker, is_alive=is_alive(desk, worker, tx)) for worker in everyone
            ],
        }


def seen(place: Facts, sight: Scope) -> Facts:
    """What is true of a place, without marks on what cannot be seen."""
    if sight.is_everywhere:
        return place
    marks = [mark for mark in place.marks if sight.touches(mark.application, mark.environment)]
    return replace(place, marks=tuple(marks))


def _slot(tx: Transaction, slot: queue.Slot) -> dict[str, Any]:
    holder = rows_of.read(tx, slot.deploy)
    running = [s for s in work.read_steps(tx, slot.deploy) if s.state == "running"]
    return {
        "application": slot.application,
        "deploy": slot.deploy,
        "number": holder.number if holder else None,
        "version": holder.version if holder else None,
        "phase": holder.phase if holder else None,
        "steps": [step.name for step in running],
        "worker": holder.executor if holder else None,
        "since": view.instant(slot.taken_at),
    }


def _last(tx: Transaction, desk: Desk, environment: str) -> dict[str, Any] | None:
    wanted = Page(
        application=None,
        environment=environment,
        version=None,
        states=(State.SUCCESS, State.ERROR, State.CANCELLED),
        outcome=None,
        before=None,
        limit=1,
        sight=desk.sight,
        seen=_only_seen(tx, desk),
    )
    rows, _ = finding.page(tx, wanted)
    return _shown(tx, desk, rows[0]) if rows else None


def is_alive(desk: Desk, worker: Executor, tx: Transaction) -> bool:
    """Whether a worker is alive by the database's clock."""
    return not is_lost(
        heartbeat_at=worker.heartbeat_at,
        stopped_at=worker.stopped_at,
        at=tx.now(),
        stale_after=desk.settings().recovery.stale_after,
    )


def applications(desk: Desk) -> dict[str, Any]:
    """Every configured application and the environments it has targets in."""
    known = desk.settings().applications
    return {
        "items": [
            {"name": name, "environments": desk.places(application)}
            for name, application in sorted(known.items())
            if desk.sight.touches(name, None)
        ]
    }
