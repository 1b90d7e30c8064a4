"""Restore: what is to become of the live deploys of a database that went back in time.

Each was waiting or running when the dump was made, and may have ended since on its targets. A
person says of each whether it may go on, how it ended, or that it is not wanted; then opens.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from manent_server.domain import access
from manent_server.domain.access import Caller
from manent_server.domain.deploy import Outcome
from manent_server.domain.errors import Conflict, Invalid
from manent_server.domain.inventory import Standing
from manent_server.engine import closing
from manent_server.engine.closing import Ending
from manent_server.store import deploys, installation, records
from manent_server.store.deploys import Deploy
from manent_server.store.installation import Installation, Resumed
from manent_server.store.records import Deed
from manent_server.store.transaction import Transaction
from manent_server.usecases import lost, once, reopen
from manent_server.usecases.desk import Desk
from manent_server.usecases.lost import Told
from manent_server.usecases.reopen import Words
from manent_server.usecases.requests import IdempotencyKey, OpenRequest, RestoreRequest

DECIDED: Final = "restore.decided"
OUTCOMES: Final[Mapping[str, Standing]] = {
    Outcome.DEPLOYED: Standing.REACHED,
    Outcome.ROLLED_BACK: Standing.RETURNED,
    Outcome.FAILED: Standing.TOUCHED,
    Outcome.ROLLBACK_FAILED: Standing.TOUCHED,
}
"""How a deploy that already ran may have ended, and what that says of each of its targets."""
_MOST: Final = 100_000
_NAMED: Final = 5


def decide(
    desk: Desk, request: RestoreRequest, *, caller: Caller, key: IdempotencyKey | None = None
) -> dict[str, Any]:
    """Say of deploys what is to become of them; all or none.

    Raises:
        Conflict: Nothing is fenced, or one has ended or was cancelled.
        Invalid: No deploy is named, or no outcome where one is needed.
    """
    caller.demand(access.ADMINISTER)
    act = _act(request)
    if bool(request.deploys) == request.is_all:
        raise Invalid("name deploys, or all", next="give ids as admin restore list shows, or --all")
    name = secrets.token_hex(16)
    done: list[str] = []

    def work(tx: Transaction) -> str:
        row = installation.lock(tx)
        known = once.remembered(tx, caller, key)
        if known is not None:
            return known
        if records.read_detail(tx, name) is None:  # else its commit was not answered
            _demand_fenced(row)
            done[:] = _decide(tx, desk, request, _Act(act, caller, name))
            once.remember(tx, caller, key, " ".join(done))
        return " ".join(done)

    decided = once.run(desk.store, work).split()
    with desk.store.read() as tx:
        left = len(installation.undecided(tx, limit=_MOST))
    return {"decision": request.decision, "deploys": decided, "undecided": left}


_Deed = Callable[[Transaction, Deploy, Caller], None]


@dataclass(frozen=True)
class _Act:
    """What is done with each deploy, by whom, and the id of its first record."""

    deed: _Deed
    caller: Caller
    name: str


def _act(request: RestoreRequest) -> _Deed:
    if request.decision == "resume":
        return partial(_resume, reason=request.reason)
    if request.decision == "cancel":
        return partial(_cancel, reason=request.reason)
    if request.outcome is None or request.outcome not in OUTCOMES:
        raise Invalid(
            f"{request.outcome} is no outcome of a deploy that already ran",
            code="outcome_invalid",
            next=f"one of: {', '.join(OUTCOMES)}",
        )
    return partial(_close, outcome=Outcome(request.outcome))


def _decide(tx: Transaction, desk: Desk, request: RestoreRequest, act: _Act) -> list[str]:
    caller = act.caller
    if request.is_all:
        wanted = sorted(installation.undecided(tx, limit=_MOST))
    else:
        found = (desk.deploy_for(tx, name, caller, access.ADMINISTER) for name in request.deploys)
        wanted = sorted({one.id for one in found})
    for number, name in enumerate(wanted):
        row = deploys.lock(tx, name)
        if row is None or not row.is_live:
            raise Conflict(
                f"the deploy {name} has ended",
                code="deploy_ended",
                next="manent-server admin restore list shows what is live",
            )
        act.deed(tx, row, caller)
        detail = {"decision": request.decision, "reason": request.reason}
        detail |= {"outcome": request.outcome} if request.decision == "close" else {}
        place = (row.id, row.application, row.environment)
        of = None if number else act.name
        deed = Deed(caller, DECIDED, *place, detail, before=row.standing, id=of)
        records.write_audit(tx, deed, at=tx.now())
    return wanted


def _resume(tx: Transaction, row: Deploy, caller: Caller, *, reason: str | None) -> None:
    if row.cancel_requested_at is not None:
        raise Conflict(
            f"the deploy {row.id} was cancelled",
            code="deploy_cancelled",
            next="it ends when the database is opened",
        )
    installation.resume(tx, Resumed(row.id, caller.name, tx.now(), reason))


def _cancel(tx: Transaction, row: Deploy, caller: Caller, *, reason: str | None) -> None:
    at = row.cancel_requested_at or tx.now()
    by = row.cancel_by or caller.name
    why = reason or row.cancel_reason
    deploys.update(tx, row.id, cancel_requested_at=at, cancel_by=by, cancel_reason=why)
    # A rollback that was cut short is never hidden behind the cancel.
    outcome = Outcome.ROLLBACK_FAILED if closing.is_half_undone(tx, row) else Outcome.CANCELLED
    closing.close(tx, Ending(row.id, None, outcome, actor=caller, is_on_word=True))


def _close(tx: Transaction, row: Deploy, caller: Caller, *, outcome: Outcome) -> None:
    vouched = OUTCOMES[outcome]
    error = None
    if outcome != Outcome.DEPLOYED:
        words = f"ended {outcome} after the point the database was restored to, says {caller.name}"
        error = {"code": "restored", "message": words}
    ending = Ending(
        row.id, None, outcome, actor=caller, error=error, is_on_word=True, vouched=vouched
    )
    closing.close(tx, ending)


def _demand_fenced(row: Installation | None) -> Installation:
    if row is None or not row.is_fenced:
        raise Conflict(
            "nothing is fenced: the database has not gone back in time",
            code="not_fenced",
            next="manent list shows what runs and waits",
        )
    return row


def open_up(
    desk: Desk, request: OpenRequest, *, caller: Caller, key: IdempotencyKey | None = None
) -> dict[str, Any]:
    """Take the fence away: every process goes on, with what may go on.

    Raises:
        Conflict: Nothing is fenced, or something is undecided.
        Invalid: It is forced without a reason.
    """
    caller.demand(access.ADMINISTER)
    if request.force and not request.reason:
        raise Invalid("--force wants a reason", next="give --reason TEXT, for the record")
    name = secrets.token_hex(16)

    def work(tx: Transaction) -> str:
        row = installation.lock(tx)
        known = once.remembered(tx, caller, key)
        if known is not None:
            return known
        if records.read_detail(tx, name) is None:  # else its commit was not answered
            _open(tx, desk, _demand_fenced(row), request, Words(caller, request.reason, name))
            once.remember(tx, caller, key, name)
        return name

    record = once.run(desk.store, work)
    with desk.store.read() as tx:
        said = records.read_detail(tx, record) or {}
    return {
        "fenced": False,
        "epoch": said["epoch"],
        "missing": {"first": said["first"], "last": said["known"]},
        "goes_on_at": said["last"] + 1,
        "resumed": said["resumed"],
        "undecided": said["undecided"],
    }


def _open(
    tx: Transaction, desk: Desk, row: Installation, request: OpenRequest, words: Words
) -> None:
    left = installation.undecided(tx, limit=_MOST)
    if left and not request.force:
        named = ", ".join(left[:_NAMED]) + (" and more" if len(left) > _NAMED else "")
        raise Conflict(
            f"{len(left)} deploys are undecided: {named}",
            code="undecided",
            next="admin restore resume, close or cancel each; or open --force --reason TEXT",
        )
    told: Told = lost.read(tx, desk.settings().audit.file, row.lost)
    known = row.known.with_number(told.last)
    resumed = sorted(installation.resumed(tx, is_live=True))
    detail = {"forced": request.force, "undecided": left, "resumed": resumed}
    reopen.reopen(tx, row, known, replace(words, detail=detail))
