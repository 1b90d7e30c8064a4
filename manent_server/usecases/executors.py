"""Executors: the registry as operators see it, and who holds what."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from manent_server.domain import access
from manent_server.domain.access import Caller
from manent_server.domain.errors import Conflict, NotFound
from manent_server.domain.liveness import is_lost
from manent_server.engine import inspection
from manent_server.engine.dispatch import workflow_id
from manent_server.engine.version import WORKFLOW_VERSION
from manent_server.store import deploys, records, work, workers
from manent_server.store.deploys import Deploy
from manent_server.store.records import Deed
from manent_server.store.transaction import Transaction
from manent_server.store.workers import Executor
from manent_server.usecases import view
from manent_server.usecases.desk import Desk


@dataclass(frozen=True)
class Holding:
    """A deploy an executor has: by its row, or by a dispatch it took and never began."""

    deploy: Deploy
    executor: str
    incarnation: str


def holdings(desk: Desk) -> list[Holding]:
    """What every executor has, registered or not, as it stands now."""
    with desk.store.read() as tx:
        rows = deploys.placed(tx)
    held = [Holding(row, row.executor, row.incarnation or "") for row in rows if row.executor]
    return held + taken(desk, [row for row in rows if row.executor is None])


def taken(desk: Desk, rows: Sequence[Deploy]) -> list[Holding]:
    """Dispatches the engine has given to a worker whose prelude has not been."""
    current = {workflow_id(row.id, row.dispatch): row for row in rows}
    found = []
    for name, delivery in inspection.deliveries(desk.dispatcher.client, list(current)).items():
        executor, _, incarnation = (delivery.owner or "").rpartition(":")
        if delivery.is_taken and executor:
            found.append(Holding(current[name], executor, incarnation))
    return found


def executors(desk: Desk, *, caller: Caller) -> dict[str, Any]:
    """Every executor of the registry, and those that are missing from it but hold deploys."""
    caller.demand(access.READ)
    pending: dict[str, Counter[str]] = {}
    for holding in holdings(desk):
        version = holding.deploy.workflow_version or WORKFLOW_VERSION
        pending.setdefault(holding.executor, Counter())[version] += 1
    with desk.store.read() as tx:
        at = tx.now()
        rows = workers.everyone(tx)
        oldest = work.oldest_attempts(tx)
    stale_after = desk.settings().recovery.stale_after
    items = [
        view.executor(
            row,
            is_alive=not is_lost(
                heartbeat_at=row.heartbeat_at,
                stopped_at=row.stopped_at,
                at=at,
                stale_after=stale_after,
            ),
            pending=pending.get(row.id, {}),
            oldest=oldest.get(row.id),
        )
        for row in rows
    ]
    strangers = sorted(pending.keys() - {row.id for row in rows})
    items += [view.stranger(name, pending=pending[name]) for name in strangers]
    return {"version": WORKFLOW_VERSION, "executors": items}


def forget(desk: Desk, executor: str, *, caller: Caller) -> dict[str, Any]:
    """Take a lost executor that holds nothing out of the registry.

    Raises:
        NotFound: The registry does not know it.
        Conflict: It is alive or still holds deploys.
    """
    caller.demand(access.ADMINISTER)
    held = [holding for holding in holdings(desk) if holding.executor == executor]
    seen: list[Executor] = []

    def work_on(tx: Transaction) -> None:
        row = workers.lock(tx, executor)
        if row is None and seen:
            return  # the answer to an earlier COMMIT was lost
        if row is None:
            raise NotFound(
                f"the registry knows no executor {executor[:40]!r}",
                code="executor_unknown",
                next="manent-server admin executors lists them",
            )
        if is_alive(desk, row, tx):
            raise alive(row)
        _demand_empty(tx, row, held)
        seen[:] = [row]
        workers.forget(tx, row.id, row.incarnation)
        deed = Deed(caller, "executor.forgotten", detail={"executor": executor}, before=_stood(row))
        records.write_audit(tx, deed, at=tx.now())

    desk.store.once(work_on)
    return {"id": executor, "forgotten": True}


def _stood(row: Executor) -> dict[str, Any]:
    names = ("id", "hostname", "version", "build", "recovered_by")
    return {name: getattr(row, name) for name in names}


def _demand_empty(tx: Transaction, row: Executor, held: Sequence[Holding]) -> None:
    owned = {deploy.id for deploy in deploys.owned(tx, row.id)}
    pending = sorted(owned | {holding.deploy.id for holding in held})
    left = [attempt.deploy for attempt in work.open_attempts(tx, executor=row.id)]
    if pending or left:
        raise Conflict(
            f"{row.id} still holds deploys: {', '.join(sorted({*pending, *left}))}",
            code="executor_pending",
            next=f"first: manent-server admin recover --executor {row.id}",
        )


def is_abandoned(tx: Transaction, desk: Desk, row: Deploy) -> bool:
    """Whether a deploy names an executor that runs it no more."""
    return is_gone(tx, desk, row.executor or "", row.incarnation or "")


def is_gone(tx: Transaction, desk: Desk, executor: str, incarnation: str) -> bool:
    """Whether this start of an executor is over: lost, claimed or followed by another."""
    owner = workers.read(tx, executor)
    if owner is None or owner.incarnation != incarnation:
        return True
    return owner.recovered_by is not None or not is_alive(desk, owner, tx)


def is_alive(desk: Desk, row: Executor, tx: Transaction) -> bool:
    """Whether it is not lost: nothing may be taken from it.

    Time in which the database did not answer does not count: no heartbeat can have come then, and
    its hooks are at work perhaps.
    """
    at = tx.now()
    return not is_lost(
        heartbeat_at=row.heartbeat_at,
        stopped_at=row.stopped_at,
        at=at - desk.store.unanswered(at - row.heartbeat_at),
        stale_after=desk.settings().recovery.stale_after,
    )


def alive(row: Executor) -> Conflict:
    """The refusal of what wants a lost executor."""
    seen = view.instant(row.heartbeat_at)
    return Conflict(
        f"{row.id} is alive: its last heartbeat was at {seen}",
        code="executor_alive",
        next=(
            "wait until it counts as lost (recovery.stale_after; while the database did not "
            "answer does not count), or stop it"
        ),
    )


def versions(crew: Sequence[Executor]) -> Mapping[str, frozenset[str]]:
    """By pool, the workflow versions that these workers run."""
    pools: dict[str, set[str]] = {}
    for worker in crew:
        for pool in worker.pools:
            pools.setdefault(pool, set()).add(worker.version)
    return {pool: frozenset(found) for pool, found in pools.items()}


def forget_old(desk: Desk) -> list[str]:
    """Take out what stopped or was recovered long ago and holds nothing."""
    kept = desk.settings().recovery.forget_after
    with desk.store.read() as tx:
        at = tx.now()
        old = [
            row
            for row in workers.everyone(tx)
            if (row.stopped_at or row.recovered_by)
            and at - max(row.heartbeat_at, row.stopped_at or row.heartbeat_at) > kept
        ]
    gone = []
    for row in old:
        try:
            forget(desk, row.id, caller=access.MANENT)
        except (Conflict, NotFound):
            continue  # it holds something, or started again
        gone.append(row.id)
    return gone
