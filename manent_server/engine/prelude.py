"""The prelude: may this dispatch run, and if so, whose is the deploy now."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from manent_server.domain import gates, suspicion
from manent_server.domain.awaiting import Stage
from manent_server.domain.deploy import Outcome, Phase, State
from manent_server.domain.events import STARTED
from manent_server.domain.gates import Asked, ClosedGate, Judgement
from manent_server.domain.order import SHAPE
from manent_server.engine import asking_again, closing, sending_back
from manent_server.engine.closing import Ending
from manent_server.engine.dispatch import Dispatcher
from manent_server.engine.identity import Identity
from manent_server.engine.version import WORKFLOW_VERSION
from manent_server.store import (
    aftermath,
    approvals,
    deploys,
    facts,
    installation,
    queue,
    records,
    workers,
)
from manent_server.store.deploys import Deploy
from manent_server.store.records import Deed
from manent_server.store.transaction import Transaction

ELSEWHERE = timedelta(seconds=10)
_AGAIN = timedelta(seconds=1)


class Verdict(StrEnum):
    """What a prelude found: only `RUN` runs."""

    RUN = "run"
    STALE = "stale"
    FOREIGN = "foreign"
    CLOSED = "closed"
    FENCED = "fenced"


@dataclass(frozen=True)
class Start:
    """The answer of a prelude; `deploy` is the row as it now stands where it runs.

    `is_trial`: it may be what kills its workers, and no other such deploy runs here; `is_overdue`:
    its deadline had passed by then.
    """

    verdict: Verdict
    deploy: Deploy | None
    is_trial: bool = False
    is_overdue: bool = False


def _always() -> bool:
    return True


@dataclass(frozen=True)
class Claim:
    """Which dispatch asks, for which start of which worker.

    `may_try` keeps the worker's one place for a suspect: whether it is this deploy's;
    `max_recoveries` is how many deaths of its worker end a deploy.
    """

    deploy: str
    number: int
    identity: Identity
    is_draining: bool
    plugins: frozenset[str]
    may_try: Callable[[], bool] = _always
    max_recoveries: int = 3
    version: str = WORKFLOW_VERSION


def begin(tx: Transaction, claim: Claim, dispatcher: Dispatcher) -> Start:
    """Decide in one transaction; repeated with the same claim it answers the same."""
    deploy = deploys.lock(tx, claim.deploy)
    if deploy is None or not _is_current(tx, deploy, claim):
        return Start(Verdict.STALE, None)
    mine = workers.is_mine(tx, claim.identity.executor, claim.identity.incarnation)
    if not mine and installation.is_closed(tx):
        # Nobody takes it now; once a person has decided the reconciler dispatches it anew.
        return Start(Verdict.FENCED, None)
    if not mine or (claim.is_draining and deploy.incarnation is None):
        dispatcher.dispatch(tx, deploy.id, state=_resting(deploy), phase=_waiting(deploy))
        return Start(Verdict.FOREIGN, None)
    if not _can_run(deploy, claim):
        return _put_back(tx, deploy, "plugin")
    return _go_on(tx, deploy, claim) if deploy.handed_out_at else _begin(tx, deploy, claim)


def _begin(tx: Transaction, deploy: Deploy, claim: Claim) -> Start:
    """A deploy that has not acted yet: its gates may have closed meanwhile."""
    if _gates_closed(tx, deploy):
        return Start(Verdict.CLOSED, deploy)
    return _run(tx, deploy, claim, is_trial=False)


def _run(tx: Transaction, deploy: Deploy, claim: Claim, *, is_trial: bool) -> Start:
    # One that begins now is given its deadline now.
    is_overdue = deploy.deadline_at is not None and deploy.deadline_at <= tx.now()
    return Start(Verdict.RUN, _take(tx, deploy, claim.identity), is_trial, is_overdue)


def _go_on(tx: Transaction, deploy: Deploy, claim: Claim) -> Start:
    """A deploy that has handed out an attempt: it may be what kills its workers."""
    deaths = _deaths(tx, deploy)
    step = max(deaths, key=lambda name: deaths[name], default=None)
    worst = deaths[step] if step is not None else 0
    if step is not None and suspicion.is_poisoned(worst, limit=claim.max_recoveries):
        return _poison(tx, _take(tx, deploy, claim.identity), step, worst)
    is_trial = suspicion.is_suspect(worst)
    if is_trial and not claim.may_try():
        return _put_back(tx, deploy, "suspect")
    return _run(tx, deploy, claim, is_trial=is_trial)


def _deaths(tx: Transaction, deploy: Deploy) -> dict[str, int]:
    """Deaths under the steps that may run again: of a cancelled deploy those of its undoing."""
    found = aftermath.deaths(tx, deploy)
    if deploy.cancel_requested_at is None:
        return found
    return {step: count for step, count in found.items() if step.startswith("rollback:")}


def _poison(tx: Transaction, deploy: Deploy, step: str, deaths: int) -> Start:
    """End it without another attempt: whoever ran this step next would die too."""
    message = f"{deaths} workers died under {step}, the last one in a trial of its own"
    error = {"code": "poisoned", "step": step, "message": message}
    ending = Ending(deploy.id, deploy.epoch, Outcome.POISONED, error=error)
    if not closing.close(tx, ending):
        return _put_back(tx, deploy, "occupied", after=_AGAIN)
    return Start(Verdict.CLOSED, deploy)


def _is_current(tx: Transaction, deploy: Deploy, claim: Claim) -> bool:
    # Without a slot its place was given back, by an earlier run of this transaction perhaps.
    is_newest = deploy.is_live and deploy.dispatch == claim.number
    return is_newest and queue.has_slot(tx, deploy.id)


def _can_run(deploy: Deploy, claim: Claim) -> bool:
    """Whether this worker has what the order needs."""
    is_mine = deploy.workflow_version == claim.version and deploy.order_shape <= SHAPE
    return is_mine and deploy.order_body["plugin"] in claim.plugins


def _put_back(
    tx: Transaction, deploy: Deploy, reason: str, *, after: timedelta = ELSEWHERE
) -> Start:
    """Another worker of the pool may have it: dispatched anew a little later, at no cost."""
    deploys.update(
        tx,
        deploy.id,
        state=_resting(deploy),
        phase=_waiting(deploy),
        executor=None,
        incarnation=None,
    )
    records.wake(tx, deploy.id, tx.now() + after, reason)
    return Start(Verdict.FOREIGN, None)


def _resting(deploy: Deploy) -> State:
    return State.PENDING if deploy.state == State.PENDING else State.ENQUEUED


def _waiting(deploy: Deploy) -> Phase:
    return Phase.DISPATCHED if deploy.started_at is None else Phase.INTERRUPTED


def _gates_closed(tx: Transaction, deploy: Deploy) -> bool:
    """Before anything was handed out: a gate that closed meanwhile frees the slot."""
    at = tx.now()
    if gates.is_expired(deploy.asked, at=at):
        return closing.close(tx, Ending(deploy.id, None, Outcome.EXPIRED))
    # Whoever has approved may by now be somebody who must not, or may not any more.
    asked = approvals.counted(tx, deploy)
    judgement = gates.judge(asked, facts.read(tx, deploy.environment, [asked]))
    closed = judgement.closed
    if not closed:
        _record_passed(tx, deploy, judgement)
        return False
    sending_back.send_back(tx, deploy, closed[0].phase)
    _lapse(tx, deploy, asked)
    looks_at = gates.looks_at(closed)
    if looks_at is not None:
        records.wake(tx, deploy.id, looks_at, "gate")
    detail = {"gates": [gate.detail for gate in closed]}
    deed = Deed(
        "manent",
        "deploy.delayed",
        deploy.id,
        deploy.application,
        deploy.environment,
        detail,
        before=deploy.standing,
        after={"state": State.DELAYED, "phase": closed[0].phase},
    )
    records.write_audit(tx, deed, at=at)
    return True


def _lapse(tx: Transaction, deploy: Deploy, asked: Asked) -> None:
    """What was given is given no more: those rules are asked again that are not met."""
    standing = asked.approval
    if deploy.approval != Stage.GIVEN or standing is None or standing.stage != Stage.ASKED:
        return
    asking_again.reopen(tx, deploy, standing)


def _record_passed(tx: Transaction, deploy: Deploy, judgement: Judgement) -> None:
    """Each closed gate it is let through stands in the record before it begins."""
    at = tx.now()
    deeds = [
        Deed(
            deploy.requested_by,
            "gate.passed",
            deploy.id,
            deploy.application,
            deploy.environment,
            {"gate": gate.gate, "detail": _passed(gate), "reason": deploy.reason},
        )
        for gate in judgement.passed
    ]
    records.write_audits(tx, deeds, at=at)


def _passed(gate: ClosedGate) -> str:
    return "nobody had to approve it" if gate.gate == gates.APPROVAL else gate.detail


def _phase(deploy: Deploy) -> Phase:
    """What it goes on with, as far as the row says; the next hand-out says it exactly."""
    if deploy.handed_out_at is None:
        return Phase.PREPARING
    kept = (Phase.SOAKING, Phase.ROLLING_BACK, Phase.CANCELLING)
    return Phase(deploy.phase) if deploy.phase in kept else Phase.DEPLOYING


def _take(tx: Transaction, deploy: Deploy, identity: Identity) -> Deploy:
    if deploy.incarnation != identity.incarnation:
        at = tx.now()
        if deploy.started_at is None:
            _tell_start(tx, deploy, identity, at)
        limit = timedelta(seconds=deploy.order_body["limits"]["deadline"])
        values: dict[str, Any] = {
            "state": State.PENDING,
            "phase": _phase(deploy),
            "epoch": deploys.next_epoch(tx),
            "executor": identity.executor,
            "incarnation": identity.incarnation,
            "started_at": deploy.started_at or at,
            "deadline_at": deploy.deadline_at or at + limit,
        }
        deploys.update(tx, deploy.id, **values)
        records.unwake(tx, deploy.id)
        return replace(deploy, **values, revision=deploy.revision + 1)
    return deploy


def _tell_start(tx: Transaction, deploy: Deploy, identity: Identity, at: datetime) -> None:
    detail = {
        "number": deploy.number,
        "version": deploy.version,
        "kind": deploy.kind,
        "executor": identity.executor,
    }
    deed = Deed(
        "manent",
        STARTED,
        deploy.id,
        deploy.application,
        deploy.environment,
        detail,
        before=deploy.standing,
        after={"state": State.PENDING, "phase": _phase(deploy)},
    )
    records.write_audit(tx, deed, at=at)
