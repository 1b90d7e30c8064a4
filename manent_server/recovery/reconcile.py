"""The standing query: no live deploy stays where nobody will ever look at it again.

Every finding is checked again under the deploy's lock, by its dispatch number, before it is
repaired by a new dispatch, which itself refuses an ended deploy.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from manent_server.domain.deploy import State
from manent_server.domain.errors import Unavailable
from manent_server.engine import inspection
from manent_server.engine import version as versions
from manent_server.engine.dispatch import workflow_id
from manent_server.engine.identity import Identity
from manent_server.engine.inspection import Delivery
from manent_server.observability.metrics import Metrics
from manent_server.plugins import lockfile
from manent_server.recovery.start import has_stopped
from manent_server.store import deploys, queue, records, work, workers
from manent_server.store.deploys import Deploy
from manent_server.store.transaction import Transaction
from manent_server.store.work import Attempt
from manent_server.store.workers import Executor, LeaseLost
from manent_server.usecases import cancel, executors, put_back, vouch
from manent_server.usecases.desk import Desk
from manent_server.usecases.wake import OFFERED_AGAIN

_log = logging.getLogger(__name__)
_BEATS = 2


@dataclass(frozen=True)
class Finding:
    """A deploy nobody works on, as it stood, and why."""

    deploy: Deploy
    reason: str


@dataclass
class _Unnamed:
    """A deploy its live worker did not name: since which heartbeat, and how many since then."""

    epoch: int
    since: datetime
    last: datetime
    beats: int = 0


@dataclass
class Reconciler:
    """Rounds of the standing query; keeps what must be seen twice between them."""

    desk: Desk
    metrics: Metrics
    here: Identity
    heartbeat_interval: timedelta
    stale_after: timedelta
    _unnamed: dict[str, _Unnamed] = field(default_factory=dict)
    _reported: set[tuple[str, str]] = field(default_factory=set)

    def round(self) -> Sequence[Finding]:
        """Find and repair; what was repaired."""
        found = self.findings()
        repaired = [finding for finding in found if self._try(self._repair, finding)]
        for finding in repaired:
            self.metrics.engine_repair(finding.reason)
            _log.warning("deploy %s is dispatched anew: %s", finding.deploy.id, finding.reason)
        self._conclude_cancelled()
        return repaired

    def _try(self, act: Callable[[Finding], bool], finding: Finding) -> bool:
        """One deploy; what is wrong with it keeps no other from being looked after."""
        try:
            return act(finding)
        except LeaseLost:
            raise
        except Unavailable as error:
            # Somebody holds one of its rows perhaps: the next round tries again.
            _log.warning("deploy %s is not put right now: %s", finding.deploy.id, error.detail)
            return False
        except Exception:  # noqa: BLE001 - logged whole; the others are looked after
            _log.exception("deploy %s could not be put right", finding.deploy.id)
            return False

    def findings(self) -> list[Finding]:
        """Every live deploy without anybody to go on with it."""
        with self.desk.store.read() as tx:
            rows = deploys.placed(tx)
            crew = {worker.id: worker for worker in workers.everyone(tx)}
            slots = {slot.deploy for slot in queue.slots(tx)}
            # What asks a person is gone on with by the answer alone.
            rows = [row for row in rows if not self._is_asking(row)]
            waiting = [row for row in rows if row.executor is None and row.id in slots]
            wakes = {row.id: _goes_on(row, records.wake_of(tx, row.id)) for row in waiting}
            stranded = self._stranded(tx, [row for row in waiting if not wakes[row.id]])
            silent = {
                worker.id: worker.incarnation
                for worker in crew.values()
                if worker.stopped_at is None and not executors.is_alive(self.desk, worker, tx)
            }
        held = [row for row in rows if row.id in slots]
        deliveries = self._deliveries(held)
        found = []
        for row in held:
            reason = self._reason(row, crew, deliveries, has_wake=wakes.get(row.id, False))
            delivery = deliveries.get(workflow_id(row.id, row.dispatch))
            if reason is None and row.id in stranded and delivery and not delivery.is_taken:
                reason = "its version has no worker left"
            if reason is not None:
                found.append(Finding(row, reason))
            elif row.executor and silent.get(row.executor) == row.incarnation:
                # With automatic recovery the watcher has it.
                self._left_alone(row, "", f"waits for {row.executor}, which sends no heartbeat")
        self._unnamed = {k: v for k, v in self._unnamed.items() if k in {r.id for r in held}}
        return found

    def _is_asking(self, row: Deploy) -> bool:
        try:
            return row.open_question is not None
        except (AttributeError, LookupError, TypeError, ValueError):
            self._say_once(row, "has a question that cannot be read: it is left alone")
            return True

    def _stranded(self, tx: Transaction, rows: Sequence[Deploy]) -> set[str]:
        """Deploys that never ran and wait for a version nobody runs any more, though others could.

        A newer build was tried for a while and taken back.
        """
        crews: dict[str, list[Executor]] = {}
        found = set()
        for row in rows:
            if row.started_at is not None:
                continue
            if row.pool not in crews:
                crews[row.pool] = workers.offering(
                    tx, pool=row.pool, stale_after=self.stale_after, at=tx.now()
                )
            crew, plugin = crews[row.pool], row.order_body.get("plugin", "")
            able = versions.newest(crew, shape=row.order_shape, plugin=plugin)
            if able is not None and not versions.can_resume(row.workflow_version, crew):
                found.add(row.id)
        return found

    def _deliveries(self, rows: Sequence[Deploy]) -> Mapping[str, Delivery]:
        wanted = [workflow_id(row.id, row.dispatch) for row in rows if row.executor is None]
        return inspection.deliveries(self.desk.dispatcher.client, wanted)

    def _reason(
        self,
        row: Deploy,
        crew: Mapping[str, Executor],
        deliveries: Mapping[str, Delivery],
        *,
        has_wake: bool,
    ) -> str | None:
        if row.executor is not None:
            return self._reason_of_owner(row, crew.get(row.executor))
        if has_wake:
            return None
        delivery = deliveries.get(workflow_id(row.id, row.dispatch))
        reason = _reason_of_delivery(delivery, crew)
        owner = _owner(delivery, crew)
        if owner is not None and owner.stopped_at is not None:
            words = f"waits for {owner.id}, which took it from the queue and has stopped"
            return self._left_alone(row, "dispatch taken by a stopped worker", words)
        return reason or (self._reason_of_silence(row, owner) if owner else None)

    def _reason_of_owner(self, row: Deploy, owner: Executor | None) -> str | None:
        reason = self._reason_of_loss(row, owner)
        if owner is None or reason is not None:
            return reason
        if row.id in (owner.running or ()) or owner.stopped_at is not None:
            self._unnamed.pop(row.id, None)
            return None
        return self._reason_of_silence(row, owner)

    def _reason_of_loss(self, row: Deploy, owner: Executor | None) -> str | None:
        """Why its owner will not go on; without automatic recovery some is left to a person."""
        if owner is None:
            words = f"waits for {row.executor}, which the registry does not know"
            return self._left_alone(row, "executor unknown", words)
        if owner.incarnation != row.incarnation:
            return "incarnation replaced"
        if owner.recovered_by is not None:
            return "incarnation claimed"
        if owner.stopped_at is not None:
            words = f"waits for {owner.id}, which has stopped"
            return self._left_alone(row, "incarnation stopped", words)
        return None

    def _left_alone(self, row: Deploy, reason: str, words: str) -> str | None:
        """The reason where automatic recovery is on; else it is said once and left alone."""
        if self._is_automatic:
            return reason
        self._say_once(row, words)
        return None

    def _say_once(self, row: Deploy, words: str) -> None:
        if (row.id, words) not in self._reported:
            self._reported.add((row.id, words))
            _log.warning("deploy %s %s", row.id, words)

    @property
    def _is_automatic(self) -> bool:
        return bool(self.desk.settings().recovery.auto_recover_after)

    def _reason_of_silence(self, row: Deploy, owner: Executor) -> str | None:
        """Its worker beats but does not name it: two whole heartbeats must say so."""
        seen = self._unnamed.get(row.id)
        if seen is None or seen.epoch != row.epoch:
            self._unnamed[row.id] = _Unnamed(row.epoch, owner.heartbeat_at, owner.heartbeat_at)
            return None
        # A worker lists what it runs before it waits for the database: one late beat may hold
        # a list from before the deploy began, and be two intervals younger than the last.
        seen.beats += owner.heartbeat_at != seen.last
        seen.last = owner.heartbeat_at
        is_silent = seen.beats >= _BEATS and seen.last - seen.since >= self.heartbeat_interval * 2
        return "not named by its worker" if is_silent else None

    def _repair(self, finding: Finding) -> bool:
        def repair(tx: Transaction) -> bool:
            # A row that somebody holds is the next round's: it must keep no other waiting.
            row = next(iter(deploys.lock_free(tx, [finding.deploy.id])), None)
            if row is None or not put_back.is_still(row, finding.deploy):
                return False
            if row.executor is not None and not self._is_free(tx, row):
                return False
            words = f"dispatched anew: {finding.reason}"
            return not put_back.put_back(tx, self.desk, [row], words=words)

        return self.desk.store.once(repair)

    def _is_free(self, tx: Transaction, row: Deploy) -> bool:
        """Whether a live worker can go on; a person's claim ends what no lease ends."""
        if not put_back.is_resumable(tx, self.desk, row):
            self._say_once(row, f"waits for a worker of version {row.workflow_version}")
            return False
        owner = workers.read(tx, row.executor or "")
        if owner is not None and vouch.is_word(owner.recovered_by):
            vouch.end_left(tx, self.desk, row, by=str(owner.recovered_by))
        return True

    def _conclude_cancelled(self) -> None:
        """Cancelled deploys that no living worker runs end here."""
        with self.desk.store.read() as tx:
            rows = deploys.cancelled(tx)
            crew = {worker.id: worker for worker in workers.everyone(tx)}
            left = [row for row in rows if self._is_left(tx, crew, row)]
        for row in left:
            self._try(self._conclude, Finding(row, "cancelled"))

    def _is_left(self, tx: Transaction, crew: Mapping[str, Executor], row: Deploy) -> bool:
        """Whether no living worker runs it."""
        owner = crew.get(row.executor) if row.executor else None
        if owner is None or owner.incarnation != row.incarnation:
            return True
        return owner.recovered_by is not None or not executors.is_alive(self.desk, owner, tx)

    def _end_attempts(self, tx: Transaction, row: Deploy) -> bool:
        """End the attempts a lost worker left that are over; False if one may live.

        The processes of an attempt hold its lock file: who gets it on the same host knows.
        """
        place = (row.environment, row.application)
        mine = [a.id for a in work.open_attempts(tx, place=place) if a.deploy == row.id]
        # Read again under their locks: a heartbeat may be about to move a lease.
        taken = work.lock_attempts(tx, mine)
        left = [attempt for attempt in taken if attempt.ended_at is None]
        at = tx.now()
        if len(taken) < len(mine) or not all(self._is_over(attempt, at) for attempt in left):
            return False
        for attempt in left:
            died = not has_stopped(workers.read(tx, attempt.executor), attempt)
            message = f"{attempt.executor} was lost; cancelled"
            work.end_lost(tx, attempt.id, died=died, message=message)
        return True

    def _is_over(self, attempt: Attempt, at: datetime) -> bool:
        """Whether its lease has passed, or its processes are known dead."""
        if attempt.lease_until is not None and attempt.lease_until <= at:
            return True
        here = self.here.boot, self.here.pid_namespace
        file = Path(attempt.lock_file)
        is_here = (attempt.boot, attempt.pid_namespace) == here
        return is_here and file.exists() and lockfile.is_free(file)

    def _conclude(self, finding: Finding) -> bool:
        found = finding.deploy

        def conclude(tx: Transaction) -> bool:
            row = next(iter(deploys.lock_free(tx, [found.id])), None)
            if row is None or not row.is_live or row.epoch != found.epoch:
                return False
            if row.executor is None and row.cancel_rollback:
                return False
            if row.executor is not None:
                if not self._end_attempts(tx, row):
                    return False
                deploys.update(tx, row.id, executor=None, incarnation=None)
            return cancel.conclude(tx, self.desk, row.id, actor=row.cancel_by or "manent")

        is_done = self.desk.store.once(conclude)
        if is_done:
            _log.warning("deploy %s was cancelled while nobody ran it", found.id)
            self.desk.admission(found.environment)
        return is_done


def _goes_on(row: Deploy, wake: tuple[datetime, str] | None) -> bool:
    """Whether its wake goes on with it; of one in the queue it may only be the last instant."""
    return wake is not None and (row.state == State.PENDING or wake[1] in OFFERED_AGAIN)


def _reason_of_delivery(delivery: Delivery | None, crew: Mapping[str, Executor]) -> str | None:
    if delivery is None:
        return "dispatch missing in the engine"
    if delivery.is_over:
        return "dispatch over in the engine"
    if not delivery.is_taken or delivery.owner is None:
        return None
    taken_before = "dispatch taken by an earlier start of its worker"
    return None if _owner(delivery, crew) else taken_before


def _owner(delivery: Delivery | None, crew: Mapping[str, Executor]) -> Executor | None:
    """The start of a worker that took the dispatch, if it is the row's and unclaimed."""
    if delivery is None or not delivery.is_taken or delivery.owner is None:
        return None
    executor, _, incarnation = delivery.owner.rpartition(":")
    owner = crew.get(executor)
    is_current = owner is not None and owner.incarnation == incarnation
    return owner if is_current and owner and owner.recovered_by is None else None


@dataclass
class Disposal:
    """Rounds that cancel the engine's copies of dispatches that are no longer current.

    At leisure: one that has only just ended may still be on its way out of its worker, which would
    find it cancelled. What is old in two rounds is not on its way.
    """

    desk: Desk
    _seen: frozenset[str] = frozenset()

    def round(self) -> int:
        """Cancel what was old in the round before already; how many."""
        client = self.desk.dispatcher.client
        waiting = inspection.unfinished(client)
        current = set()
        with self.desk.store.read() as tx:
            for row in deploys.placed(tx):  # without a place no dispatch of it may run
                current.add(workflow_id(row.id, row.dispatch))
        # Read after the engine was asked: a dispatch made meanwhile is in neither list.
        old = frozenset(waiting) - current
        gone, self._seen = old & self._seen, old - self._seen
        with (
            self.desk.store.write()
        ):  # the engine writes for itself: what its holder must hold is asked here
            pass
        return inspection.dispose(client, sorted(gone))
