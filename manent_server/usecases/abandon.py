"""Abandon: end a cancelled deploy on a person's word, although its work may go on."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from manent_server.domain import access
from manent_server.domain.access import Caller
from manent_server.domain.deploy import Outcome
from manent_server.domain.errors import Conflict
from manent_server.engine import closing
from manent_server.engine.closing import Ending
from manent_server.store import deploys, records, work, workers
from manent_server.store.deploys import Deploy
from manent_server.store.records import Deed
from manent_server.store.transaction import Transaction
from manent_server.store.work import Attempt
from manent_server.usecases import inspect, once, view, vouch
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import AbandonRequest, IdempotencyKey

PATIENCE = timedelta(minutes=1)


def abandon(
    desk: Desk,
    address: str,
    request: AbandonRequest,
    *,
    caller: Caller,
    key: IdempotencyKey | None = None,
) -> dict[str, Any]:
    """End a deploy that was cancelled and does not end; its application is locked there.

    Raises:
        Conflict: It was not cancelled, or less than a minute ago, or has ended otherwise.
    """
    desk = desk.seen_by(caller)
    environments: list[str] = []

    def work_on(tx: Transaction) -> str:
        found = desk.deploy_for(tx, address, caller, access.CANCEL)
        row = deploys.lock(tx, found.id) or found
        known = once.remembered(tx, caller, key)
        if known is not None:
            return known
        if request.force:
            # What still works there then meets the next deploy: not for whoever only deploys.
            caller.demand(access.ADMINISTER, row.application, row.environment)
        if row.is_live:
            _abandon(tx, desk, row, request, caller)
        else:
            _release(tx, row, request, caller)
        environments[:] = [row.environment]
        once.remember(tx, caller, key, row.id)
        return row.id

    deploy = once.run(desk.store, work_on)
    for environment in environments:
        desk.admission(environment)
    return inspect.deploy(desk, deploy)


def _abandon(
    tx: Transaction, desk: Desk, row: Deploy, request: AbandonRequest, caller: Caller
) -> None:
    _demand_patience(tx, row)
    left = _open(tx, row)
    ended = (
        _end(tx, left, caller) if request.force else vouch.end_left(tx, desk, row, by=caller.name)
    )
    over = {attempt.id for attempt in ended}
    words = _words(row, caller, ended, [attempt for attempt in left if attempt.id not in over])
    deploys.update(tx, row.id, warnings=[*(row.warnings or ()), *words])
    _record(tx, row, request, caller, words)
    error = {"code": "abandoned", "message": f"given up by {caller.name}: {request.reason}"}
    ending = Ending(row.id, None, Outcome.ABANDONED, actor=caller, error=error, is_on_word=True)
    closing.close(tx, ending)


def _demand_patience(tx: Transaction, row: Deploy) -> None:
    """The ordinary way first: a cancel, and a minute for it."""
    if row.cancel_requested_at is None:
        raise Conflict(
            "a deploy is given up only after a cancel, and this one has none",
            code="not_cancelled",
            next=f"manent cancel {row.id}; it is possible a minute later",
        )
    due = row.cancel_requested_at + PATIENCE
    if tx.now() < due:
        raise Conflict(
            "it was cancelled less than a minute ago and may still end by itself",
            code="abandon_too_early",
            next=f"wait for its end; it can be given up from {view.instant(due)} on",
        )


def _release(tx: Transaction, row: Deploy, request: AbandonRequest, caller: Caller) -> None:
    """Given up before: with force, what it left keeps nobody waiting any longer."""
    if row.outcome != Outcome.ABANDONED:
        raise Conflict(
            f"the deploy has ended: {row.state}, {row.outcome}",
            code="deploy_ended",
            next="there is nothing to give up",
        )
    ended = _end(tx, _open(tx, row), caller) if request.force else []
    if ended:
        _record(tx, row, request, caller, _words(row, caller, ended, ()))


def _open(tx: Transaction, row: Deploy) -> list[Attempt]:
    place = (row.environment, row.application)
    return [one for one in work.open_attempts(tx, place=place) if one.deploy == row.id]


def _end(tx: Transaction, attempts: Sequence[Attempt], caller: Caller) -> list[Attempt]:
    for attempt in attempts:
        owner = workers.read(tx, attempt.executor)
        vouch.end_on_word(tx, [attempt], owner, by=caller.name)
    return list(attempts)


def _words(
    row: Deploy, caller: Caller, ended: Sequence[Attempt], left: Sequence[Attempt]
) -> list[str]:
    """What the end rests on, and what may go on."""
    said = []
    if ended or left:
        steps = ", ".join(sorted({attempt.step for attempt in (*ended, *left)}))
        said.append(f"given up on the word of {caller.name}: {steps} may still be at work")
    else:
        said.append(f"given up on the word of {caller.name}; no attempt of it was open")
    if ended:
        said.append(
            f"{len(ended)} attempt(s) count as ended on that word: a hook still at work there "
            "could meet the next deploy"
        )
    said += [_waits_for(attempt) for attempt in left]
    unlock = f"manent unlock {row.environment} --application {row.application}"
    said.append(f"{row.application} is locked in {row.environment}; look first, then: {unlock}")
    return said


def _waits_for(attempt: Attempt) -> str:
    until = view.instant(attempt.lease_until)
    limit = f"its lease ends at {until}" if until else f"{attempt.executor} says that it has ended"
    return f"the next deploy begins no hook until {limit} ({attempt.step}); --force ends that wait"


def _record(
    tx: Transaction, row: Deploy, request: AbandonRequest, caller: Caller, words: Sequence[str]
) -> None:
    detail = {"reason": request.reason, "forced": request.force, "rests_on": list(words)}
    deed = Deed(
        caller,
        "deploy.abandoned",
        row.id,
        row.application,
        row.environment,
        detail,
        before=row.standing,
    )
    records.write_audit(tx, deed, at=tx.now())
