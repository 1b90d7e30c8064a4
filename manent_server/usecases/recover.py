"""Recover: take over what a lost executor left, and put it back for others to go on with.

A claim is one transaction, made here and nowhere else: whoever claims, a person or a worker,
writes `recovered_by`, raises the epoch of the deploys and dispatches them anew. It is never
done: what turns up later under a claimed incarnation is put back by the reconciler.
"""

import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from manent_server.domain import access
from manent_server.domain.access import Caller
from manent_server.domain.deploy import Phase
from manent_server.domain.errors import Conflict
from manent_server.store import deploys, records, work, workers
from manent_server.store.deploys import Deploy
from manent_server.store.records import Deed
from manent_server.store.transaction import Transaction
from manent_server.store.work import Attempt, StepRow
from manent_server.store.workers import Executor
from manent_server.usecases import executors, once, put_back, view, vouch
from manent_server.usecases.desk import Desk
from manent_server.usecases.executors import Holding
from manent_server.usecases.requests import IdempotencyKey, RecoverRequest

_log = logging.getLogger(__name__)
_SHOWN = 20
BUSY = "somebody holds its row now; the next round takes it"
_FORCE = "--force skips this check: use it only after making sure that it is really down"


@dataclass(frozen=True)
class Claim:
    """Who takes over from which executor.

    `id` is made outside of the transaction: by it a repeated one finds that it was done.
    `demand` raises where the executor, as it stands under its lock, must not be claimed.
    """

    id: str
    executor: str
    by: str
    actor: Caller | str
    demand: Callable[[Transaction, Executor | None], None]
    reason: str | None = None
    is_forced: bool = False
    is_dry: bool = False

    @property
    def is_word(self) -> bool:
        """Whether a person vouches for the end of what the executor ran."""
        return vouch.is_word(self.by)


def claimant(caller: Caller) -> str:
    """A person as `recovered_by` names it."""
    return caller.name if caller.name.startswith("local:") else f"user:{caller.name}"


def recover(
    desk: Desk, request: RecoverRequest, *, caller: Caller, key: IdempotencyKey | None = None
) -> dict[str, Any]:
    """Take over from a lost executor on a person's request.

    Raises:
        Conflict: It is alive, unknown or recovered already, and `force` was not given.
    """
    caller.demand(access.ADMINISTER)
    claim = Claim(
        id=secrets.token_hex(16),
        executor=request.executor,
        by=claimant(caller),
        actor=caller,
        demand=_unforced(desk) if not request.force else _anything,
        reason=request.reason,
        is_forced=request.force,
        is_dry=request.dry_run,
    )
    taken = [held for held in executors.holdings(desk) if held.executor == claim.executor]
    if request.dry_run:
        with desk.store.read() as tx:
            claim.demand(tx, workers.read(tx, claim.executor))
            return _survey(tx, desk, claim, taken).answer()

    def work_on(tx: Transaction) -> str:
        known = once.remembered(tx, caller, key)
        if known is not None:
            return known
        take(tx, desk, claim, taken)
        once.remember(tx, caller, key, claim.id)
        return claim.id

    done = once.run(desk.store, work_on)
    with desk.store.read() as tx:
        answer = records.read_detail(tx, done) or {}
    if done == claim.id:
        report(desk, answer)
    return answer


def _anything(tx: Transaction, row: Executor | None) -> None:
    """Force: whoever asks has looked."""


def _unforced(desk: Desk) -> Callable[[Transaction, Executor | None], None]:
    def demand(tx: Transaction, row: Executor | None) -> None:
        if row is None:
            raise Conflict(
                "the registry does not know this executor", code="executor_unknown", next=_FORCE
            )
        if executors.is_alive(desk, row, tx):
            refusal = executors.alive(row)
            raise Conflict(refusal.detail, code=refusal.code, next=f"{refusal.next}; {_FORCE}")
        if row.recovered_by is not None:
            raise _recovered(row)

    return demand


def _recovered(row: Executor) -> Conflict:
    return Conflict(
        f"{row.id} was recovered already by {row.recovered_by or 'somebody else'}",
        code="already_recovered",
        next=f"what still turns up under it is put back by itself; {_FORCE}",
    )


def take(tx: Transaction, desk: Desk, claim: Claim, taken: Sequence[Holding]) -> Mapping[str, Any]:
    """Claim and put back, in the caller's transaction.

    Args:
        tx: The transaction.
        desk: Collaborators.
        claim: Who takes over from whom.
        taken: What the executor had when it was looked at; looked at again under the locks.

    Returns:
        The report.

    Raises:
        Conflict: Somebody else was faster.
    """
    done = records.read_detail(tx, claim.id)
    if done is not None:
        return done  # the answer to an earlier COMMIT was lost
    row = workers.lock(tx, claim.executor)
    claim.demand(tx, row)
    again = claim.is_forced
    if row and not workers.claim(tx, row.id, row.incarnation, by=claim.by, again=again):
        raise _recovered(row)
    survey = _survey(tx, desk, claim, taken)
    _end_attempts(tx, claim, row, survey)
    free = [found.deploy for found in survey.found if found.is_free and found.why is None]
    survey = survey.but(put_back.put_back(tx, desk, free, words=survey.words))
    answer = survey.answer()
    at = tx.now()
    before = {"recovered_by": row.recovered_by if row is not None else None}
    after = {"recovered_by": claim.by}
    recovered = Deed(
        claim.actor, "executor.recovered", detail=answer, id=claim.id, before=before, after=after
    )
    deeds = [recovered]
    deeds += [_deed(claim, found) for found in survey.found if found.is_free]
    records.write_audits(tx, deeds, at=at)
    return answer


def _deed(claim: Claim, found: "_Found") -> Deed:
    row = found.deploy
    detail = {"executor": claim.executor, "by": claim.by, "from_step": found.from_step}
    return Deed(
        claim.actor,
        "deploy.taken_over",
        row.id,
        row.application,
        row.environment,
        detail,
        before={**row.standing, "executor": row.executor},
    )


@dataclass(frozen=True)
class _Found:
    """One deploy of the executor. `why`: what keeps it from being resumed now."""

    deploy: Deploy
    from_step: str
    why: str | None
    is_free: bool

    def view(self) -> dict[str, Any]:
        row = self.deploy
        return {
            "id": row.id,
            "application": row.application,
            "environment": row.environment,
            "version": row.version,
            "workflow_version": row.workflow_version,
            "state": row.state,
            "from_step": self.from_step,
            "resumable": self.why is None,
            "why": self.why,
        }


@dataclass(frozen=True)
class _Survey:
    """What a claim found, and in which words it is reported."""

    claim: Claim
    found: Sequence[_Found]
    silent_for: timedelta | None
    is_stopped: bool
    attempts: Sequence[Attempt]
    at: datetime
    recovered_by: str | None

    @property
    def words(self) -> str:
        """Why its deploys begin again elsewhere."""
        silence = _silence(self.silent_for, is_stopped=self.is_stopped)
        return f"taken over from {self.claim.executor}, {silence}, by {self.claim.by}"

    def but(self, failed: Mapping[str, str]) -> "_Survey":
        """The same, with what keeps some from being resumed after all: the reconciler has them."""
        found = [
            replace(one, why=failed[one.deploy.id], is_free=False)
            if one.deploy.id in failed
            else one
            for one in self.found
        ]
        return replace(self, found=found) if failed else self

    def answer(self) -> dict[str, Any]:
        """What the person is told, and what the record keeps."""
        claim = self.claim
        return {
            "executor": claim.executor,
            "dry_run": claim.is_dry,
            "recovered_by": self.recovered_by,
            "workflows": [found.view() for found in self.found],
            "unowned_seconds": _seconds(self.silent_for),
            "forced": claim.is_forced,
            "reason": claim.reason,
            "rests_on": self._rests_on(),
        }

    def _rests_on(self) -> str | None:
        claim = self.claim
        ended = sum(_ends(claim, attempt) for attempt in self.attempts)
        if claim.is_word and (ended or claim.is_forced):
            return (
                f"the word of {claim.by} that {claim.executor} is down: {ended} open attempt(s) "
                "of it count as ended, and a hook still at work there could meet its successor"
            )
        rest = [attempt.lease_until for attempt in self.attempts if not _ends(claim, attempt)]
        leases = [end for end in rest if end is not None and end > self.at]
        if leases:
            until = view.instant(max(leases))
            return f"the leases of {len(leases)} attempt(s): successors wait, at most to {until}"
        return None


def _seconds(time: timedelta | None) -> float | None:
    return None if time is None else round(time.total_seconds(), 3)


def _silence(silent_for: timedelta | None, *, is_stopped: bool) -> str:
    if silent_for is None:
        return "which the registry does not know"
    seconds = f"{silent_for.total_seconds():.1f} s"
    return f"stopped {seconds} ago" if is_stopped else f"silent for {seconds}"


def _survey(tx: Transaction, desk: Desk, claim: Claim, taken: Sequence[Holding]) -> _Survey:
    """Look at everything under the executor; outside of a dry run its rows are locked."""
    row = workers.read(tx, claim.executor)
    at = tx.now()
    owned = {deploy.id: deploy for deploy in deploys.owned(tx, claim.executor)}
    begun = {held.deploy.id: held.deploy for held in taken if held.deploy.id not in owned}
    wanted = owned | begun
    locked = wanted if claim.is_dry else _locked(tx, wanted)
    attempts = work.open_attempts(tx, executor=claim.executor)
    steps: dict[str, list[StepRow]] = {}
    for step in work.open_steps(tx, wanted):
        steps.setdefault(step.deploy, []).append(step)
    runs = put_back.running_versions(tx, desk, claim.executor, at)
    found = [
        _Found(
            deploy=locked.get(name, wanted[name]),
            from_step=_from_step(wanted[name], steps.get(name, ())),
            why=put_back.obstacle(wanted[name], runs) if name in locked else BUSY,
            is_free=name in locked,
        )
        for name in sorted(wanted)
        if name not in locked or put_back.is_still(locked[name], wanted[name])
    ]
    since = None if row is None else row.stopped_at or row.heartbeat_at
    return _Survey(
        claim=claim,
        found=found,
        silent_for=None if since is None else max(at - since, timedelta(0)),
        is_stopped=row is not None and row.stopped_at is not None,
        attempts=attempts,
        at=at,
        recovered_by=claim.by if not claim.is_dry else row.recovered_by if row else None,
    )


def _locked(tx: Transaction, wanted: Mapping[str, Deploy]) -> dict[str, Deploy]:
    return {row.id: row for row in deploys.lock_free(tx, sorted(wanted))}


def _from_step(row: Deploy, steps: Sequence[StepRow]) -> str:
    """The step that was running, else the one that comes next."""
    mine = [step for step in steps if step.pass_number == row.pass_number]
    running = [step for step in mine if step.started_at is not None]
    undo = [step for step in mine if step.hook == "rollback" and row.phase == Phase.ROLLING_BACK]
    chosen = running or undo or mine
    return chosen[0].name if chosen else "prepare"


def _ends(claim: Claim, attempt: Attempt) -> bool:
    """Whether the claim ends an attempt: a lease is waited for, its absence is a person's word."""
    return claim.is_word and (attempt.lease_until is None or claim.is_forced)


def _end_attempts(tx: Transaction, claim: Claim, row: Executor | None, survey: _Survey) -> None:
    busy = {found.deploy.id for found in survey.found if not found.is_free}
    ended = [a for a in survey.attempts if _ends(claim, a) and a.deploy not in busy]
    vouch.end_on_word(tx, ended, row, by=claim.by)


def report(desk: Desk, answer: Mapping[str, Any]) -> None:
    """Say what a takeover did: one line, and the counters."""
    resumed = [found for found in answer["workflows"] if found["resumable"]]
    kind = "manual" if vouch.is_word(answer["recovered_by"]) else "automatic"
    desk.metrics.takeover(kind, deploys=len(resumed))
    shown = ", ".join(f"{found['id']} from {found['from_step']}" for found in resumed[:_SHOWN])
    more = f" and {len(resumed) - _SHOWN} more" if len(resumed) > _SHOWN else ""
    seconds = answer["unowned_seconds"]
    _log.warning(
        "%s was taken over by %s after %s without an owner: %s",
        answer["executor"],
        answer["recovered_by"],
        f"{seconds} s" if seconds is not None else "an unknown time",
        (shown or "nothing") + more,
    )
    for found in answer["workflows"]:
        if not found["resumable"]:
            _log.warning("deploy %s is not resumed now: %s", found["id"], found["why"])
