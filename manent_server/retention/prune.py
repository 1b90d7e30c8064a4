"""Prune: delete the history that is older than it is kept, and say why the rest stays.

One at a time, under the lease `retention`, in small batches of one transaction each: a prune
that is killed has deleted whole deploys only, and the next one goes on where it stood.
"""

import logging
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

from manent_server.domain import access, duration
from manent_server.domain.access import Caller
from manent_server.domain.errors import Conflict, Invalid, Unavailable
from manent_server.domain.retention import Kept, Policy
from manent_server.domain.tally import PRUNE_ENDED, PRUNED, Key
from manent_server.engine import inspection
from manent_server.engine.dispatch import workflow_id
from manent_server.retention.keeping import Keeping, survey
from manent_server.retention.tally import Tally
from manent_server.store import records, retention, tallies, workers
from manent_server.store.records import Deed
from manent_server.store.retention import Gone, Old, Place
from manent_server.store.transaction import Transaction
from manent_server.usecases import once
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import IdempotencyKey, PruneRequest
from manent_server.usecases.tenure import Tenure

LEASE: Final = "retention"
BATCH: Final = "retention.deleted"
"""What one transaction deleted; only on record, for there are thousands of them."""
_RESTING: Final = "retention:rest"
_log = logging.getLogger(__name__)
_PAGE: Final = 500
_LASTS: Final = timedelta(seconds=30)
# Seconds a batch is to take. It holds the one write lock of SQLite, for which heartbeats must not
# wait. On Postgres it holds nothing that anybody else wants, and its fixed costs are spread.
_GOAL: Final = {"sqlite": 0.05, "postgresql": 0.4}
# Where the machine is so busy that the fixed costs alone take as long, fewer would gain nothing.
_SMALLEST: Final = 20
_LARGEST: Final = 500
_BETWEEN: Final = 0.05
_PULSE: Final = 1.0
# Of the time a batch took, again by what it held: deploys get the database in between.
_REST: Final = {"sqlite": 0.25, "postgresql": 0.1}


def prune(
    desk: Desk, request: PruneRequest, *, caller: Caller, key: IdempotencyKey | None = None
) -> dict[str, Any]:
    """Delete old history on a person's request, or say what would be deleted.

    Raises:
        Invalid: Nothing says how old it may become.
        Conflict: Another prune is at work.
    """
    caller.demand(access.ADMINISTER)
    policy = _policy(desk, request)
    if request.dry_run:
        return (
            Pruner(desk, policy, caller=caller, is_dry=True).run().answer(explains=request.explain)
        )
    with desk.store.read() as tx:
        known = once.remembered(tx, caller, key)
        done = records.read_detail(tx, known) if known is not None else None
    if done is not None:
        return done
    holder = f"{caller.name}/{secrets.token_hex(4)}"
    tenure = Tenure(desk.store, LEASE, holder, lasts=_LASTS)
    if not tenure.take():
        raise Conflict(
            "another prune is at work",
            code="prune_running",
            next="wait until it has ended; it deletes by the same rules",
        )
    try:
        mine = desk.under(tenure.demand)
        tally = Pruner(mine, policy, caller=caller, stop=_draining(desk)).run()
    finally:
        tenure.give_up()
    _record(desk, tally, caller=caller, key=key)
    return tally.answer(explains=request.explain)


def _policy(desk: Desk, request: PruneRequest) -> Policy:
    known = desk.settings().retention
    max_age = known.max_age if request.max_age is None else request.max_age
    if max_age <= timedelta(0):
        raise Invalid(
            "retention is off: nothing says how old the history may become",
            code="retention_off",
            next="give --max-age, or set retention.max_age",
        )
    keep = known.keep_releases if request.keep_releases is None else request.keep_releases
    return Policy(max_age, keep)


def _draining(desk: Desk) -> Callable[[], bool]:
    return lambda: bool(desk.report().get("draining"))


def _record(desk: Desk, tally: Tally, *, caller: Caller, key: IdempotencyKey | None = None) -> None:
    """Put on record that it came to its end; each batch is on record already."""
    name = secrets.token_hex(16)

    def work(tx: Transaction) -> None:
        if records.read_detail(tx, name) is None:
            deed = Deed(caller, "history.pruned", detail=tally.answer(), id=name)
            records.write_audit(tx, deed, at=tx.now())
            tallies.put(tx, (PRUNE_ENDED, ""), int(tx.now().timestamp()))
            once.remember(tx, caller, key, name)

    desk.store.once(work)


class Rounds:
    """Prunes by the configuration, for a leased loop that comes round more often than that.

    When the last one ended is kept as a lease of its own, which nobody prolongs: whoever
    restarts, or holds the lease next, does not begin anew.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def round(self) -> None:
        """One prune, if retention is on."""
        known = self._desk.settings().retention
        if known.max_age <= timedelta(0):
            return
        with self._desk.store.read() as tx:
            if _rests(tx, lasts=known.interval):
                return
        policy = Policy(known.max_age, known.keep_releases)
        pruner = Pruner(self._desk, policy, caller=access.MANENT, stop=_draining(self._desk))
        tally = pruner.run()
        if tally.deploys or tally.runs:
            _log.info("pruned %d deploys and %d runs of schedules", tally.deploys, tally.runs)
            _record(self._desk, tally, caller=access.MANENT)
        self._desk.store.once(partial(_end, lasts=known.interval))


def _rests(tx: Transaction, *, lasts: timedelta) -> bool:
    """Whether the next prune has time; an end further away than that was drawn by a wrong clock."""
    term, at = workers.term(tx, _RESTING), tx.now()
    return term is not None and at < term[1] <= at + lasts


def _end(tx: Transaction, *, lasts: timedelta) -> None:
    """A prune came to its end: the next one has time."""
    at, before = tx.now(), workers.term(tx, _RESTING)
    workers.take_lease(tx, _RESTING, secrets.token_hex(8), lasts=lasts, at=at, overdue=before)
    tallies.put(tx, (PRUNE_ENDED, ""), int(at.timestamp()))


class Pruner:
    """One prune.

    Args:
        desk: Its store asks in every transaction whether the lease is held.
        policy: How much stays.
        caller: Who has it done; each batch is put on record in its transaction.
        is_dry: Count only.
        stop: Asked between batches.
    """

    def __init__(
        self,
        desk: Desk,
        policy: Policy,
        *,
        caller: Caller,
        is_dry: bool = False,
        stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._desk = desk
        self._policy = policy
        self._caller = caller
        self._is_dry = is_dry
        self._stop = stop
        self._tally = Tally(policy, is_dry)
        self._size = _SMALLEST
        self._goal = min(_GOAL.values())
        self._rest = max(_REST.values())
        self._pulse_at = 0.0
        # Of those that would go in a dry run: whatever they refer to is not held by them.
        self._going: set[str] = set()
        # On record; the newest go first, so hardly any batch has a later one to note.
        self._holes: dict[Key, int] = {}

    def run(self) -> Tally:
        """Look at every old deploy, the newest first.

        Raises:
            Unavailable: The process is to end; the next prune goes on.
        """
        with self._desk.store.read() as tx:
            self._goal, self._rest = _GOAL[tx.dialect], _REST[tx.dialect]
            before = tx.now() - self._policy.max_age
            live = retention.count_live(tx)
        keeping = survey(
            self._desk.store,
            self._policy,
            before=before,
            promoting=self._promoting(),
            pulse=self._prolong,
        )
        if live:
            self._tally.kept[Kept.LIVE] = live
        unfinished = frozenset(
            workflow.rpartition(".")[0]
            for workflow in inspection.unfinished(self._desk.dispatcher.client)
        )
        for page in self._pages(before):
            self._judge(page, keeping, unfinished, before)
        self._runs(before)
        return self._tally

    def _prolong(self) -> None:
        """Keep the lease where long nothing is written; stop where that is wanted.

        Raises:
            Unavailable: The process is to end, or the lease is lost.
        """
        if self._is_dry or time.monotonic() < self._pulse_at:
            return
        self._halt()
        with self._desk.store.write():  # it asks for the lease, and prolongs it
            pass
        self._pulse_at = time.monotonic() + _PULSE

    def _halt(self) -> None:
        if self._stop():
            raise Unavailable("this process ends", next="the next prune goes on")

    def _promoting(self) -> frozenset[Place]:
        known = self._desk.settings()
        return frozenset(
            (application.name, environment)
            for application in known.applications.values()
            for environment in application.environments
            if known.environments[environment].rules.auto_promote
        )

    def _pages(self, before: datetime) -> Iterator[list[Old]]:
        after: Old | None = None
        while True:
            with self._desk.store.read() as tx:
                page = retention.old(tx, before=before, after=after, limit=_PAGE)
            if not page:
                return
            yield page
            after = page[-1]

    def _judge(
        self, page: list[Old], keeping: Keeping, unfinished: frozenset[str], before: datetime
    ) -> None:
        self._prolong()
        with self._desk.store.read() as tx:
            referrers = retention.referrers(tx, [row.id for row in page])
        free = []
        for row in page:
            reason = keeping.reasons.get(row.id)
            if reason is None and row.id in unfinished:
                reason = Kept.UNFINISHED
            if reason is None and referrers.get(row.id, set()) - self._going:
                reason = Kept.REFERRED
            if reason is not None:
                self._tally.keep(row, reason)
            else:
                free.append(row)
                if row.refers:
                    self._going.add(row.id)
        if self._is_dry:
            self._count(free)
        else:
            self._delete(free, before)
            self._going.clear()

    def _count(self, rows: Sequence[Old]) -> None:
        ids = [row.id for row in rows]
        self._tally.deploys += len(ids)
        with self._desk.store.read() as tx:
            self._tally.runs += retention.count_runs(tx, ids)
            self._tally.approvals += retention.count_approvals(tx, ids)

    def _delete(self, rows: Sequence[Old], before: datetime) -> None:
        begin = 0
        while begin < len(rows):
            self._halt()
            batch = rows[begin : begin + self._size]
            begin += len(batch)
            began = time.monotonic()
            gone = self._batch(batch, before)
            took = time.monotonic() - began
            self._tally.deploys += len(gone.deploys)
            self._tally.runs += gone.runs
            self._tally.approvals += gone.approvals
            for row in batch:
                if row.id not in gone.deploys:
                    self._tally.keep(row, Kept.REFERRED)
            fitting = int(self._size * min(2.0, self._goal / took))
            self._size = max(_SMALLEST, min(_LARGEST, fitting))
            time.sleep(took * self._rest)

    def _batch(self, batch: Sequence[Old], before: datetime) -> Gone:
        """The engine's copies go first: what is left of a killed batch is found again."""
        ids = [row.id for row in batch]
        copies = [workflow_id(row.id, n) for row in batch for n in range(1, row.dispatch + 1)]
        with self._desk.store.write():  # the engine writes for itself: the lease is asked here
            pass
        if copies:
            self._desk.dispatcher.client.delete_workflows(copies)
        times = [row.requested_at.isoformat() for row in batch]
        span = {"from": min(times), "to": max(times)}
        gone = self._recorded(
            lambda tx: retention.delete(tx, ids, before=before, holes=self._holes), span
        )
        self._holes.update(gone.holes)
        return gone

    def _recorded(self, delete: Callable[[Transaction], Gone], span: Mapping[str, str]) -> Gone:
        """Delete a batch and put it on record, in one transaction.

        A prune that is killed leaves no more deleted than is on record.
        """
        name = secrets.token_hex(16)
        done = Gone()

        def work(tx: Transaction) -> None:
            nonlocal done
            if records.read_detail(tx, name) is not None:
                return  # its commit was not answered: what it deleted is known already
            done = delete(tx)
            if done:
                deed = Deed(self._caller, BATCH, detail=self._detail(done, span), id=name)
                records.write_audit(tx, deed, at=tx.now())
                tallies.add(tx, {(PRUNED, ""): len(done.deploys)})

        self._desk.store.once(work)
        return done

    def _detail(self, gone: Gone, span: Mapping[str, str]) -> dict[str, Any]:
        return {
            "max_age": duration.show(self._policy.max_age),
            "keep_releases": self._policy.keep_releases,
            "deploys": len(gone.deploys),
            "approvals": gone.approvals,
            "schedule_runs": gone.runs,
            **span,
        }

    def _runs(self, before: datetime) -> None:
        """Instants of schedules at which nothing was deployed."""
        if self._is_dry:
            with self._desk.store.read() as tx:
                self._tally.runs += retention.count_empty_runs(tx, before=before)
            return
        while True:
            gone = self._recorded(
                lambda tx: Gone(runs=retention.delete_empty_runs(tx, before=before, limit=_PAGE)),
                {"to": before.isoformat()},
            )
            self._tally.runs += gone.runs
            if gone.runs < _PAGE:
                return
            time.sleep(_BETWEEN)
