"""Roll back: accept a deploy that brings back what ran before."""

import secrets
from dataclasses import dataclass, field, replace
from typing import Any

from manent_server.domain import access, names
from manent_server.domain import order as orders
from manent_server.domain import rollback as rollbacks
from manent_server.domain.access import Caller
from manent_server.domain.deploy import Kind, State
from manent_server.domain.errors import Conflict
from manent_server.domain.inventory import Knowledge
from manent_server.domain.marks import Mark, Sort
from manent_server.domain.rollback import Good
from manent_server.store import deploys, finding, history, marks, records
from manent_server.store.deploys import Deploy
from manent_server.store.finding import Page
from manent_server.store.transaction import Transaction
from manent_server.usecases import inspect, once
from manent_server.usecases.accept import (
    HEAD_PRIORITY,
    Draft,
    accept,
    demand_environment,
    demand_right,
    order_for,
)
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import IdempotencyKey, RollbackRequest


@dataclass(frozen=True)
class _Asked:
    desk: Desk
    request: RollbackRequest
    draft: Draft
    hold: str = field(default_factory=lambda: secrets.token_hex(8))
    veto: str = field(default_factory=lambda: secrets.token_hex(8))


def roll_back(
    desk: Desk, request: RollbackRequest, *, caller: Caller, key: IdempotencyKey | None = None
) -> dict[str, Any]:
    """Accept a rollback: at the head of the queue, with a hold on automation.

    Raises:
        Conflict: There is nothing to go back to.
    """
    desk = desk.seen_by(caller)
    asked = _Asked(desk, request, _draft(desk, request, caller))
    demand_right(asked.draft)
    if request.veto:
        caller.demand(access.LOCK, *_place(asked.draft))

    def work(tx: Transaction) -> str:
        draft = asked.draft
        demand_environment(tx, draft)
        known = once.remembered(tx, caller, key)
        if known is not None:
            return known
        if deploys.read(tx, draft.id) is not None:
            return draft.id
        ready = _held(tx, asked)
        if request.veto:
            _veto(tx, asked)
        accept(tx, ready, desk.admission)
        _hold(tx, asked)
        once.remember(tx, caller, key, draft.id)
        return draft.id

    return inspect.deploy(desk, once.run(desk.store, work))


def _draft(desk: Desk, request: RollbackRequest, caller: Caller) -> Draft:
    application = desk.application(request.application)
    environment = desk.environment(request.environment)
    order = order_for(desk, application, environment)
    return Draft(
        application=application.name,
        environment=environment,
        kind=Kind.ROLLBACK,
        version=names.version(request.to) if request.to is not None else "",
        order=replace(
            order,
            current_configuration=request.current_configuration,
            returns=request.to is None,
        ),
        caller=caller,
        reason=request.reason,
        priority=HEAD_PRIORITY,
    )


def _held(tx: Transaction, asked: _Asked) -> Draft:
    """With its target, whose lock keeps retention from it until the rollback names it."""
    ready = _aimed(tx, asked)
    while deploys.lock(tx, ready.rollback_to or "") is None:
        ready = _aimed(tx, asked)  # that one was taken a moment ago
    return ready


def _aimed(tx: Transaction, asked: _Asked) -> Draft:
    draft = asked.draft
    live = deploys.last_good(tx, draft.application, draft.environment.name)
    if live is None:
        raise _nothing(draft)
    if draft.version:
        target = _named(tx, draft)
        return replace(draft, version=target.version, rollback_to=target.id)
    target = _before(tx, draft, live)
    # A deploy to some targets is taken back on those: the others never left what they run.
    touched = [name for name in live.order_body["targets"] if name in draft.order.targets]
    order = orders.only(draft.order, touched) if touched else draft.order
    return replace(draft, version=target.version, rollback_to=target.id, order=order)


def _named(tx: Transaction, draft: Draft) -> Good:
    """The last time the named version was deployed there with success.

    Raises:
        Conflict: It never was, or it was rolled back from since.
    """
    given_up = history.rolled_back_from(tx, *_place(draft), draft.version)
    if given_up is not None:
        raise Conflict(
            f"{draft.version} was rolled back from in {draft.environment.name} by {given_up}",
            code="rolled_back_from",
            next="a deploy brings it again, on purpose",
            facts={"deploy": given_up},
        )
    wanted = Page(
        application=draft.application,
        environment=draft.environment.name,
        version=draft.version,
        states=(State.SUCCESS,),
        outcome=None,
        before=None,
        limit=1,
    )
    rows, _ = finding.page(tx, wanted)
    if not rows:
        raise Conflict(
            f"{draft.version} was never deployed to {draft.environment.name} with success",
            code="nothing_to_roll_back_to",
            next=f"manent history {draft.application} {draft.environment.name} shows what was",
        )
    return _good(rows[0])


def _before(tx: Transaction, draft: Draft, live: Deploy) -> Good:
    stock = records.inventory(tx, application=draft.application, environment=draft.environment.name)
    mine = [row for row in stock if row.target in live.order_body["targets"]]
    is_intact = all(row.state == Knowledge.KNOWN and row.version == live.version for row in mine)

    def find(deploy: str) -> Good | None:
        row = deploys.read(tx, deploy)
        return _good(row) if row else None

    standing = marks.standing(tx, at=tx.now(), sort=Sort.VETO)

    def is_banned(version: str) -> bool:
        return any(
            mark.covers(*_place(draft)) and mark.bans(version) and mark.binds(at=tx.now())
            for mark in standing
        )

    target = rollbacks.target(_good(live), is_intact=is_intact, find=find, is_banned=is_banned)
    if target is None:
        raise _nothing(draft)
    return target


def _place(draft: Draft) -> tuple[str, str]:
    return draft.application, draft.environment.name


def _good(row: Deploy) -> Good:
    return Good(row.id, row.version, row.replaces, row.rollback_to)


def _nothing(draft: Draft) -> Conflict:
    place = f"{draft.application} in {draft.environment.name}"
    return Conflict(
        f"{place} has nothing to roll back to",
        code="nothing_to_roll_back_to",
        next="deploy a good version instead",
    )


def _hold(tx: Transaction, asked: _Asked) -> None:
    """Automation does not bring back what a person takes away."""
    _mark(tx, asked, asked.hold, Sort.HOLD, None)


def _veto(tx: Transaction, asked: _Asked) -> None:
    """What is live now is kept out of there, until somebody lifts the veto."""
    live = deploys.last_good(tx, *_place(asked.draft))
    if live is not None:
        _mark(tx, asked, asked.veto, Sort.VETO, live.version)


def _mark(tx: Transaction, asked: _Asked, mark: str, sort: Sort, version: str | None) -> None:
    draft, at = asked.draft, tx.now()
    made = Mark(
        id=mark,
        sort=sort,
        application=draft.application,
        environment=draft.environment.name,
        version=version,
        reason=draft.reason or "rolled back",
        owner=draft.caller.name,
        created_at=at,
        starts_at=None,
        expires_at=None,
        automatic=sort == Sort.HOLD,
        # A veto stands before the rollback it belongs to, which is accepted under it.
        deploy=draft.id if sort == Sort.HOLD else None,
    )
    marks.insert(tx, made)
    marks.record(tx, made, "set", by=made.owner, at=at)
