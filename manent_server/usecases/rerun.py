"""Rerun: an ended deploy again from one of its steps, as a new deploy of the same root."""

from dataclasses import dataclass, replace
from typing import Any

from manent_server.domain import access
from manent_server.domain import order as orders
from manent_server.domain import rerun as reruns
from manent_server.domain.access import Caller
from manent_server.domain.deploy import Kind
from manent_server.domain.errors import Conflict
from manent_server.domain.rerun import Split
from manent_server.engine import carrying
from manent_server.engine.carrying import Source
from manent_server.settings.values import Environment
from manent_server.store import deploys
from manent_server.store.deploys import Deploy
from manent_server.store.transaction import Transaction
from manent_server.usecases import busy, inspect, once
from manent_server.usecases.accept import (
    DEFAULT_PRIORITY,
    Draft,
    Lineage,
    accept,
    demand_environment,
    demand_newer,
    demand_override,
    demand_right,
)
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import IdempotencyKey, RerunRequest


@dataclass(frozen=True)
class _Cut:
    """An ended deploy, and where its rerun begins."""

    source: Source
    parts: Split

    @property
    def begin(self) -> str:
        return self.parts.again[0].name


def rerun(
    desk: Desk,
    address: str,
    request: RerunRequest,
    *,
    caller: Caller,
    key: IdempotencyKey | None = None,
) -> dict[str, Any]:
    """Accept a deploy that takes over what came before a step and does the rest again.

    Raises:
        Conflict: It has not ended, or what came before the step does not stand any more.
        NotFound: Its plan has no such step.
    """
    desk = desk.seen_by(caller)
    with desk.store.read() as tx:
        old = desk.deploy_for(tx, address, caller, access.DEPLOY)
    draft = _draft(desk, old, request, caller)
    demand_right(draft)
    demand_override(draft)

    def work(tx: Transaction) -> str:
        demand_environment(tx, draft)
        known = once.remembered(tx, caller, key)
        if known is not None:
            return known
        if deploys.read(tx, draft.id) is not None:
            return draft.id  # the answer to an earlier COMMIT was lost
        if deploys.lock(tx, old.id) is None:
            # Retention took it since; from here on the lock keeps it from that.
            desk.deploy(tx, old.id)
        cut = _cut(tx, old.id, request.begin)
        number = deploys.next_pass(tx, old.root)
        lineage = Lineage(old.root, old.id, cut.begin, number)
        ready = replace(draft, lineage=lineage)
        demand_newer(tx, ready)
        busy.demand_free(tx, desk, ready)
        accept(tx, ready, desk.admission)
        once.remember(tx, caller, key, draft.id)
        return draft.id

    return inspect.deploy(desk, once.run(desk.store, work))


def plan(desk: Desk, address: str, *, begin: str | None = None) -> dict[str, Any]:
    """What a rerun from a step would carry over and what it would do again.

    Args:
        desk: The collaborators.
        address: The ended deploy.
        begin: The step; None for the first one that did not succeed, as a retry does.

    Raises:
        Conflict: As `rerun`.
        NotFound: As `rerun`.
    """
    with desk.store.read() as tx:
        old = desk.deploy(tx, address)
        cut = _cut(tx, old.id, begin)
        number = deploys.next_pass(tx, old.root)
    return {
        "of": old.id,
        "root": old.root,
        "pass": number,
        "application": old.application,
        "environment": old.environment,
        "version": old.version,
        "kind": old.kind,
        "from": cut.begin,
        "carried": [step.name for step in cut.parts.carried],
        "again": [step.name for step in cut.parts.again],
    }


def _cut(tx: Transaction, deploy: str, begin: str | None) -> _Cut:
    row = deploys.read(tx, deploy)
    if row is None or row.is_live:
        raise Conflict(
            f"deploy {deploy} has not ended",
            code="deploy_live",
            next="wait for its end, or cancel it first",
        )
    source = carrying.read(tx, row)
    name = begin if begin is not None else _first_open(source)
    parts = reruns.split(source.plan, name, source.kept)
    carrying.demand_unchanged(tx, source, parts.carried)
    return _Cut(source, parts)


def _first_open(source: Source) -> str:
    step = reruns.first_open(source.plan, source.kept)
    if step is None:
        raise Conflict(
            f"every step of deploy {source.deploy.id} succeeded: there is nothing to retry",
            code="nothing_to_retry",
            next="manent rerun ID --from STEP does steps again that succeeded",
        )
    return step.name


def _draft(desk: Desk, old: Deploy, request: RerunRequest, caller: Caller) -> Draft:
    """What was asked for then, with the order as it was frozen."""
    try:
        order = orders.load(old.order_body)
    except ValueError as error:
        raise carrying.unreadable(old, error) from error
    environment = _environment(desk, old)
    return Draft(
        application=old.application,
        environment=environment,
        kind=Kind(old.kind),
        version=old.version,
        # Its version was found when its turn came: the rerun brings that one. Who has to agree
        # is a rule of today, else what was accepted long ago would pass it.
        order=replace(order, follows_live=False, approvals=environment.rules.approvals),
        caller=caller,
        sha256=old.sha256,
        reason=request.reason or old.reason,
        priority=_priority(old, caller),
        sequence=old.sequence,
        override=tuple(request.override),
        rollback_to=old.rollback_to,
        promoted_from=old.promoted_from,
        links=old.links,
        changes=old.changes,
    )


def _priority(old: Deploy, caller: Caller) -> int:
    """Whoever may not choose a place in the queue reruns in the usual one."""
    is_chosen = old.kind != Kind.ROLLBACK and old.priority != DEFAULT_PRIORITY
    may_choose = caller.may(access.PRIORITISE, old.application, old.environment)
    return DEFAULT_PRIORITY if is_chosen and not may_choose else old.priority


def _environment(desk: Desk, old: Deploy) -> Environment:
    settings = desk.settings()
    application = settings.applications.get(old.application)
    if application is None or old.environment not in application.environments:
        raise Conflict(
            f"{old.application} has no targets in {old.environment} any more",
            code="place_gone",
            next="put it back into manent.yml first",
        )
    return settings.environments[old.environment]
