"""Explain: why a deploy is not running, what it does, or why it ended so."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from manent_server.domain import gates
from manent_server.domain.deploy import State
from manent_server.engine import version as versions
from manent_server.store import approvals, deploys, facts, finding, queue, records, work, workers
from manent_server.store.deploys import Deploy
from manent_server.store.transaction import Transaction
from manent_server.store.work import Attempt, StepRow
from manent_server.store.workers import Executor
from manent_server.usecases import answer, executors, inspect, view
from manent_server.usecases.desk import Desk
from manent_server.usecases.wake import GATE

# Ends of an attempt that count against no policy.
_FREE = ("not_started", "interrupted")


def explain(desk: Desk, address: str) -> dict[str, Any]:
    """Closed gates, place in the queue, who is in the way, which workers there are."""
    with desk.store.read() as tx:
        row = desk.deploy(tx, address)
        closed = _closed(tx, row)
        place = finding.place_in_queue(tx, row) if row.state == State.ENQUEUED else None
        blocker = _blocker(tx, desk, row) if row.is_live else None
        crew = _workers(tx, desk, row) if row.is_live else None
        summary = _summary(tx, desk, row, _Why(closed, place, blocker, crew))
        ahead = finding.of_sight(tx, place[1], desk.sight) if place else []
    return {
        "id": row.id,
        "state": row.state,
        "phase": row.phase,
        "summary": summary,
        "gates": [view.gate(gate) for gate in closed] + _asked(row),
        "position": place[0] if place else None,
        "ahead": ahead,
        "blocked_by": blocker,
        "workers": crew,
    }


def _asked(row: Deploy) -> list[dict[str, Any]]:
    """What a person has to answer, shown as the gate it is."""
    question = row.open_question
    if question is None:
        return []
    flags = "|".join(f"--{one}" for one in answer.offers(row, question))
    return [
        {
            "gate": "question",
            "closed_since": view.instant(question.asked_at),
            "opens_at": None,
            "opened_by": "an answer",
            "command": f"manent resolve {row.id} {flags}",
            "detail": question.detail,
        }
    ]


def _closed(tx: Transaction, row: Deploy) -> tuple[gates.ClosedGate, ...]:
    """What keeps it from starting, or from its next wave."""
    if row.blocked is not None:
        return ()  # nobody can say
    if _may_wait(row):
        asked = approvals.counted(tx, row)
        return gates.closed(asked, facts.read(tx, row.environment, [asked]))
    wake = records.wake_of(tx, row.id) if row.state == State.PENDING else None
    if wake is None or wake[1] != GATE or row.cancel_requested_at is not None:
        return ()
    return gates.stopping(row.asked, facts.read(tx, row.environment))


def _may_wait(row: Deploy) -> bool:
    return row.state in (State.DELAYED, State.ENQUEUED) and row.handed_out_at is None


def _blocker(tx: Transaction, desk: Desk, row: Deploy) -> dict[str, Any] | None:
    """Who holds the place this deploy waits for, or the attempt that must end first."""
    if row.state == State.PENDING:
        return _occupier(tx, desk, row)
    slots = queue.slots(tx, row.environment)
    if row.state != State.ENQUEUED:
        return None
    if any(slot.deploy == row.id for slot in slots):
        return _lost_taker(tx, desk, row)
    same = [slot for slot in slots if slot.application == row.application]
    for slot in [*same, *slots]:
        if not desk.sight.covers(slot.application, row.environment):
            continue
        holder = deploys.read(tx, slot.deploy)
        if holder is not None:
            return named(tx, desk, holder.id, holder.executor)
    return None


def _lost_taker(tx: Transaction, desk: Desk, row: Deploy) -> dict[str, Any] | None:
    """A worker that was given the deploy and is lost: nobody else is offered it meanwhile."""
    for held in executors.taken(desk, [row]) if row.executor is None else ():
        found = named(tx, desk, row.id, held.executor)
        return found if found["alive"] is False else None
    return None


def _occupier(tx: Transaction, desk: Desk, row: Deploy) -> dict[str, Any] | None:
    for attempt in work.in_the_way(tx, row, at=tx.now()):
        return named(tx, desk, attempt.deploy, attempt.executor)
    return None


def named(tx: Transaction, desk: Desk, deploy: str, executor: str | None) -> dict[str, Any]:
    """A deploy in the way, its worker, and whether that is alive."""
    worker = workers.read(tx, executor) if executor else None
    alive = None if executor is None else worker is not None and inspect.is_alive(desk, worker, tx)
    return {"id": deploy, "executor": executor, "alive": alive}


def _workers(tx: Transaction, desk: Desk, row: Deploy) -> dict[str, Any]:
    found = workers.offering(
        tx, pool=row.pool, stale_after=desk.settings().recovery.stale_after, at=tx.now()
    )
    return {
        "pool": row.pool,
        "alive": [worker.id for worker in found],
        "lacking": _missing(row, found),
    }


def _missing(row: Deploy, found: Sequence[Executor]) -> list[str]:
    """What no live worker of its pool has that the deploy needs."""
    if not found:
        return ["a live worker"]
    plugin = row.order_body.get("plugin")
    if plugin is None:
        return ["an order that can be read"]
    able = [worker for worker in found if plugin in worker.plugins]
    if not able:
        return [f"plugin {plugin}"]
    # One that ran keeps the version it began with; another is begun with what there is.
    kept = row.workflow_version if row.started_at is not None else None
    if not versions.can_resume(kept, able):
        return [f"workflow version {kept}"]
    readers = [w for w in able if versions.knows_shape(w.version, row.order_shape)]
    return [] if readers else [f"order shape {row.order_shape}"]


@dataclass(frozen=True)
class _Why:
    """What was found out about a deploy that does not run."""

    closed: tuple[gates.ClosedGate, ...]
    place: tuple[int, list[str]] | None
    blocker: dict[str, Any] | None
    crew: dict[str, Any] | None


def _summary(tx: Transaction, desk: Desk, row: Deploy, why: _Why) -> str:
    if not row.is_live:
        return _ended(row)
    if why.closed:
        return "; ".join(gate.detail for gate in why.closed)
    if row.state == State.PENDING:
        return _running(tx, desk, row, why.blocker)
    if row.blocked is not None:
        return f"its gates cannot be judged ({row.blocked}); the server's log says more"
    lacking = _lacking(row, why.crew) or _put_off(tx, row)
    taker = why.blocker if why.blocker and why.blocker["id"] == row.id else None
    return _left(taker) if taker else _waiting(why.place, why.blocker, lacking)


def _left(taker: dict[str, Any]) -> str:
    """It was taken, not begun, and its worker is lost."""
    executor = taker["executor"]
    free = _freed_by(executor, taker["id"])
    return f"taken by {executor}, a worker that sends no heartbeat, and not begun{free}"


def _put_off(tx: Transaction, row: Deploy) -> str | None:
    """Why a worker that took it has given it back."""
    wake = records.wake_of(tx, row.id)
    if wake is None or wake[1] != "suspect":
        return None
    return (
        "workers died under it: it is tried alone, as soon as one is free of other suspects; "
        f"offered again at {view.instant(wake[0])}"
    )


def _lacking(row: Deploy, crew: dict[str, Any] | None) -> str | None:
    if crew is None or not crew["lacking"]:
        return None
    if not crew["alive"]:
        return f"no worker of pool {row.pool} is alive"
    return f"no live worker of pool {row.pool} offers {crew['lacking'][0]}"


def _ended(row: Deploy) -> str:
    words = f"ended {view.instant(row.ended_at)}: {row.outcome}"
    error = row.error or {}
    if error.get("message"):
        where = f" in {error['step']}" if error.get("step") else ""
        words += f"{where}: {error['message']}"
    if row.cancel_by and row.state == State.CANCELLED:
        words += f", cancelled by {row.cancel_by}"
    if row.superseded_by and not error:
        words += f", after {row.superseded_by} had succeeded"
    return words


def _running(tx: Transaction, desk: Desk, row: Deploy, blocker: dict[str, Any] | None) -> str:
    if blocker is not None:
        alive = "" if blocker["alive"] else ", which sends no heartbeat,"
        free = _freed_by(blocker["executor"], blocker["id"]) if blocker["alive"] is False else ""
        return (
            f"waits until {blocker['executor']}{alive} has ended an attempt of deploy "
            f"{blocker['id']}{free}"
        )
    question = row.open_question
    if question is not None:
        return f"{row.phase}: waits for an answer: {question.detail}"
    doing = "; ".join(_steps(tx, row))
    wake = records.wake_of(tx, row.id)
    if wake is not None:
        why = f": {doing}" if doing else ""
        return f"{row.phase}: waits ({wake[1]}) until {view.instant(wake[0])}{why}"
    worker = workers.read(tx, row.executor) if row.executor else None
    place = f" on {row.executor}" if worker else ""
    free = ""
    if worker is not None and not inspect.is_alive(desk, worker, tx):
        seen = view.instant(worker.heartbeat_at)
        has_stopped = worker.stopped_at is not None
        place += ", a worker that has stopped," if has_stopped else f", silent since {seen},"
        free = _freed_by(worker.id, row.id)
    elif worker is not None and not doing:
        doing = _lacks_place(tx, desk, row, worker)
    return f"{row.phase}{place}" + (f": {doing}" if doing else "") + free


def _steps(tx: Transaction, row: Deploy) -> Iterator[str]:
    """What it is at, and what it tries again later and why."""
    at = tx.now()
    steps = work.read_steps(tx, row.id, pass_number=row.pass_number)
    waiting = {step.name for step in steps if _is_tried_again(step, at)}
    # Once for all of them: they may be many, and have many attempts each.
    tried = work.read_attempts(tx, row.id) if waiting else []
    last = {one.step: one for one in tried if one.pass_number == row.pass_number}
    for step in steps:
        if step.state == "running":
            yield f"{step.name} since {view.instant(step.started_at)}"
        elif step.name in waiting:
            why = (_cause(step, last.get(step.name)) or {}).get("message")
            again = f"{step.name} is tried again at {view.instant(step.next_try_at)}"
            yield f"{again}: {why}" if why else again


def _is_tried_again(step: StepRow, at: datetime) -> bool:
    is_open = step.ended_at is None and step.state != "running"
    return is_open and step.next_try_at is not None and step.next_try_at > at


def _cause(step: StepRow, last: Attempt | None) -> Mapping[str, Any] | None:
    """Why its last attempt did not do it; a step itself keeps only what counts as a failure."""
    return last.error if last is not None and last.result in _FREE else step.error


def _lacks_place(tx: Transaction, desk: Desk, row: Deploy, worker: Executor) -> str:
    """Its next hook waits for one of its worker's hook processes, as far as the rows say."""
    places = desk.settings().worker.hook_processes
    at_work = work.open_attempts(tx, executor=worker.id)
    if len(at_work) < places or any(attempt.deploy == row.id for attempt in at_work):
        return ""
    return f"waits for a hook place: all {places} (worker.hook_processes) are busy"


def _freed_by(executor: str | None, deploy: str) -> str:
    """What frees the place a lost worker holds, besides its own return."""
    ways = [f"manent-server admin recover --executor {executor}"] if executor else []
    ways.append(f"manent cancel {deploy}")
    back = f"{executor} starts again or by" if executor else "by"
    return f"; free when {back}: {', or '.join(ways)}"


def _waiting(
    place: tuple[int, list[str]] | None, blocker: dict[str, Any] | None, lacking: str | None
) -> str:
    parts = []
    if place is not None:
        parts.append(f"position {place[0]} in the queue")
    if blocker is not None:
        on = f" on {blocker['executor']}" if blocker["executor"] else ""
        is_lost = blocker["alive"] is False
        lost = ", a worker that sends no heartbeat" if is_lost else ""
        parts.append(f"behind deploy {blocker['id']}{on}{lost}")
    if lacking:
        parts.append(lacking)
    free = ""
    if blocker is not None and blocker["alive"] is False:
        free = _freed_by(blocker["executor"], blocker["id"])
    return (", ".join(parts) or "waits for a worker to take it") + free
