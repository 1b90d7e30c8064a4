"""Acceptance: the row, its order, its number and its audit line, then admission."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from manent_server.domain import access, approval, awaiting, effects, gates, names, promotion
from manent_server.domain import order as orders
from manent_server.domain.access import Caller
from manent_server.domain.awaiting import Stage
from manent_server.domain.deploy import Kind, Phase, State
from manent_server.domain.errors import Conflict, Invalid, NotFound, Refused
from manent_server.domain.gates import Asked, ClosedGate, Facts, Judgement
from manent_server.domain.order import ArtifactOrder, Limits, Order, Retry
from manent_server.domain.promotion import Rule
from manent_server.domain.rules import Rules
from manent_server.observability import trace
from manent_server.settings.values import Application, Environment
from manent_server.store import deploys, facts, queue, records, succession
from manent_server.store.records import Deed
from manent_server.store.transaction import Transaction
from manent_server.usecases import collide, identify, view
from manent_server.usecases.admit import Admission
from manent_server.usecases.desk import Desk

DEFAULT_PRIORITY = 100
# Before the highest one may ask for.
HEAD_PRIORITY = -1


@dataclass(frozen=True)
class Lineage:
    """Of a rerun: the first deploy of its root, the one it takes over from, the step it begins at.

    `pass_number` counts over all deploys of the root.
    """

    root: str
    of: str
    begin: str
    pass_number: int


@dataclass(frozen=True)
class Draft:
    """A deploy that is about to be accepted; the id is made outside the transaction."""

    application: str
    environment: Environment
    kind: Kind
    version: str
    order: Order
    caller: Caller
    id: str = field(default_factory=lambda: secrets.token_hex(10))
    sha256: str | None = None
    reason: str | None = None
    not_before: datetime | None = None
    not_after: datetime | None = None
    priority: int = DEFAULT_PRIORITY
    sequence: int | None = None
    override: Sequence[str] = ()
    if_blocked: str | None = None
    origin: str = deploys.REQUEST
    rollback_to: str | None = None
    promoted_from: str | None = None
    links: Mapping[str, Any] | None = None
    changes: Sequence[Mapping[str, Any]] | None = None
    lineage: Lineage | None = None
    acts_for: str | None = None
    is_nobodys: bool = False


def order_for(desk: Desk, application: Application, environment: Environment) -> Order:
    """Today's settings and plugin, frozen."""
    placement = desk.placement(application, environment)
    plugin = desk.host.plugin(placement.plugin)
    source = placement.artifact
    retry = placement.retry
    return Order(
        plugin=plugin.name,
        plugin_build=plugin.build,
        hooks=frozenset(plugin.hooks),
        artifact=ArtifactOrder(source.url, source.sha256) if source else None,
        targets=placement.targets,
        waves=placement.waves,
        limits=Limits(
            timeout=placement.timeout,
            deadline=placement.deadline,
            soak=placement.soak,
            max_parallel=placement.max_parallel,
        ),
        retry=Retry(retry.attempts, retry.initial, retry.factor, retry.cap, retry.total),
        automatic_rollback=environment.rollback == "automatic",
        once=frozenset(
            target
            for target, options in placement.targets.items()
            if plugin.effects_of(options) == effects.ONCE
        ),
        pauses=environment.on_exhausted == "pause",
        collision=environment.rules.collision,
        promotion=_rule(application, environment),
        approvals=environment.rules.approvals,
    )


def _rule(application: Application, environment: Environment) -> Rule | None:
    """What its version has to show first, with the targets that have to show it."""
    rule = environment.rules.promotion
    if rule is None:
        return None
    places = application.environments
    targets = {name: tuple(places[name].targets) for name in rule.sources if name in places}
    return replace(rule, targets=targets)


def chosen(order: Order, targets: Sequence[str] | None) -> Order:
    """The order for the targets that were asked for.

    Raises:
        NotFound: One of them is not among the application's targets there.
    """
    if targets is None:
        return order
    if not targets:
        raise Invalid("targets is empty", next="leave it out to deploy to all of them")
    for target in targets:
        if target not in order.targets:
            like = names.nearest(target, order.targets)
            known = ", ".join(order.targets)
            advice = f"did you mean {like}?" if like else f"its targets: {known}"
            raise NotFound(f"there is no target {target!r} here", next=advice)
    return orders.only(order, targets)


def demand_environment(tx: Transaction, draft: Draft) -> None:
    """Lock the environment's row.

    Raises:
        Conflict: The policy in force does not know the environment, though this process does.
    """
    row = queue.lock_environment(tx, draft.environment.name)
    if row is None or not row.is_configured:
        raise Conflict(
            f"the configuration in force has no environment {draft.environment.name}",
            code="environment_not_in_force",
            next="let every server read the same manent.yml",
        )


def demand_right(draft: Draft) -> None:
    """Refuse a deploy, or a rollback, that its caller may not ask for there.

    Raises:
        NotAllowed: The caller may not.
    """
    right = access.ROLLBACK if draft.kind == Kind.ROLLBACK else access.DEPLOY
    draft.caller.demand(right, draft.application, draft.environment.name)


def demand_override(draft: Draft) -> None:
    """Refuse to pass a gate that cannot be passed, without the right or without a reason.

    Raises:
        Invalid: Naming the gate, or that the reason is missing.
        NotAllowed: The caller may not.
    """
    for gate in draft.override:
        if gate not in gates.OVERRIDABLE:
            known = ", ".join(gates.OVERRIDABLE)
            raise Invalid(f"{gate!r} cannot be overridden", next=f"known: {known}")
    if not set(draft.override) - {gates.OUTDATED}:
        return
    where = (draft.application, draft.environment.name)
    if set(draft.override) - {gates.OUTDATED, gates.APPROVAL}:
        draft.caller.demand(access.OVERRIDE, *where)
    if gates.APPROVAL in draft.override:
        draft.caller.demand(access.BYPASS, *where)
    if not (draft.reason or "").strip():
        raise Invalid(
            "an override needs a reason",
            code="reason_missing",
            next="say why, for whoever reads the record",
            errors=[{"path": "reason", "message": "is missing"}],
        )


def demand_newer(tx: Transaction, draft: Draft) -> None:
    """What was overtaken already is refused: nothing would ever open that gate.

    A sequence is outdated by a higher one, a rerun by what was asked for after its first deploy.

    Raises:
        Refused: Naming the deploy that overtook it.
    """
    if draft.kind == Kind.ROLLBACK or gates.OUTDATED in draft.override:
        return
    line = draft.lineage
    age = succession.Age(
        number=succession.number_of(tx, line.root) if line else None,
        sequence=draft.sequence,
        root=line.root if line else None,
    )
    place = (draft.application, draft.environment.name)
    later = succession.later_success(tx, place, age)
    if later is None:
        return
    mine = draft.version if draft.sequence is None else f"sequence {draft.sequence}"
    detail = f"{mine} is outdated: deploy {later.id} of {later.version} came later and succeeded"
    raise Refused(
        detail,
        code=gates.OUTDATED,
        next="deploy a newer version, or ask with override: [outdated]",
        facts=view.blocked(None, detail, ()) | {"superseded_by": later.id},
    )


def accept(tx: Transaction, draft: Draft, admission: Admission) -> str:
    """Write the deploy and admit; the caller holds the environment's row lock.

    Raises:
        NotAllowed: Whoever asks may not: every deploy is accepted here, whatever asks for it.
        Refused: A gate that nobody opens keeps it out.
    """
    demand_right(draft)
    at = tx.now()
    environment = draft.environment.name
    place = facts.read(tx, environment, [asked_of(draft, at)])
    draft = _with_changes(tx, pinned(draft, place))
    asks = identify.requester(draft.caller, acts_for=draft.acts_for, is_nobodys=draft.is_nobodys)
    identify.demand_known(draft.order.approvals, asks, override=draft.override)
    closed = _demand_openable(draft, gates.judge(asked_of(draft, at), place), place.rules).closed
    body = orders.dump(draft.order)
    deploys.insert(
        tx,
        {
            "id": draft.id,
            "environment": environment,
            "application": draft.application,
            "number": queue.next_number(tx, environment),
            "kind": draft.kind,
            "version": draft.version,
            "sha256": draft.sha256,
            "state": State.DELAYED if closed else State.ENQUEUED,
            "phase": closed[0].phase if closed else Phase.QUEUED,
            "reason": draft.reason,
            "requested_by": draft.caller.name,
            "origin": draft.origin,
            "requested_at": at,
            "order_body": body,
            "order_shape": draft.order.shape,
            "order_digest": orders.digest(body),
            "pool": draft.environment.pool,
            "priority": draft.priority,
            "sequence": draft.sequence,
            "ticket": None if closed else queue.next_ticket(tx, environment),
            "queued_at": None if closed else at,
            "trace": trace.current(),
            "not_before": draft.not_before,
            "not_after": draft.not_after,
            "override": list(draft.override),
            **_lineage(draft),
            "rollback_to": draft.rollback_to,
            "promoted_from": draft.promoted_from,
            "links": draft.links,
            "changes": draft.changes,
            "requester": approval.dump_requester(asks),
            "approval": _stage(draft),
        },
    )
    _wake(tx, draft, closed)
    _collide(tx, draft, closed, place)
    _record(tx, draft, closed, at)
    admission.within(tx, environment)
    return draft.id


def _record(tx: Transaction, draft: Draft, closed: Sequence[ClosedGate], at: datetime) -> None:
    """Who asked for what, and what keeps it from being begun at once."""
    detail: dict[str, Any] = {"kind": draft.kind, "version": draft.version}
    detail["reason"] = draft.reason
    if draft.override:
        detail["override"] = list(draft.override)
    if draft.lineage is not None:
        detail |= {"rerun_of": draft.lineage.of, "from": draft.lineage.begin}
    place = (draft.id, draft.application, draft.environment.name)
    after = {"state": State.DELAYED if closed else State.ENQUEUED}
    deeds = [Deed(draft.caller, "deploy.requested", *place, detail, after=after)]
    if _stage(draft) is not None and gates.APPROVAL in draft.override:
        rules = [rule.name for rule in draft.order.approvals]
        bypass = {"rules": rules, "reason": draft.reason, "version": draft.version}
        deeds.append(Deed(draft.caller, "approval.bypassed", *place, bypass))
    if closed:
        why = {"gates": [gate.detail for gate in closed]}
        deeds.append(Deed("manent", "deploy.delayed", *place, why))
    records.write_audits(tx, deeds, at=at)


def _collide(tx: Transaction, draft: Draft, closed: Sequence[ClosedGate], place: Facts) -> None:
    if draft.order.collision not in collide.ACTING:
        return
    row = deploys.read(tx, draft.id)
    if row is not None:
        collide.make_room(tx, row, closed, place)


def pinned(draft: Draft, place: Facts) -> Draft:
    """What was proven is what is deployed: the digest that ran where the rule looks."""
    rule = draft.order.promotion
    is_free = draft.sha256 is not None or draft.order.artifact is None
    if rule is None or is_free or gates.PROMOTION in draft.override:
        return draft
    runs = place.runs.get(draft.application, ())
    found = promotion.judge(rule, runs, version=draft.version, sha256=None, at=place.at)
    return replace(draft, sha256=found.run.sha256) if found.run is not None else draft


def _with_changes(tx: Transaction, draft: Draft) -> Draft:
    """Who wrote what it brings has no say, also where whoever asks does not name them again.

    A promotion brings the changes of the deploy it comes from; any other those that were named with
    its version before, where somebody has to agree.
    """
    if draft.changes is not None:
        return draft
    source = deploys.read(tx, draft.promoted_from) if draft.promoted_from is not None else None
    found = source.changes if source is not None else None
    return replace(draft, changes=found or identify.named_before(tx, draft.order, of=draft))


def asked_of(draft: Draft, at: datetime) -> Asked:
    """What the gates need to know of what is about to be accepted."""
    return Asked(
        application=draft.application,
        environment=draft.environment.name,
        kind=draft.kind,
        version=draft.version,
        requested_at=at,
        not_before=draft.not_before,
        not_after=draft.not_after,
        is_automatic=draft.origin != deploys.REQUEST,
        is_return=draft.order.returns,
        override=frozenset(draft.override),
        sha256=draft.sha256,
        promotion=draft.order.promotion,
        approval=awaiting.standing(_stage(draft), None, since=at),
        id=draft.id,
    )


def _stage(draft: Draft) -> Stage | None:
    """What people agree to is found out first."""
    return Stage.RESOLVING if draft.order.approvals else None


def _demand_openable(draft: Draft, judgement: Judgement, rules: Rules) -> Judgement:
    """Refuse what nothing would ever open, or whatever is closed where that was asked for.

    Raises:
        Refused: With the closed gates as `explain` shows them.
    """
    if_blocked = draft.if_blocked or rules.if_blocked
    unwanted = gates.refusing(judgement.closed, if_blocked=if_blocked)
    if unwanted:
        first = unwanted[0]
        raise Refused(
            first.detail,
            code="gate_closed" if not first.is_final else first.gate,
            next=first.command or _advice(first),
            facts=view.blocked(None, first.detail, judgement.closed),
        )
    return judgement


def _advice(gate: gates.ClosedGate) -> str:
    when = f"ask again after {view.instant(gate.opens_at)}" if gate.opens_at else "ask again later"
    passing = f", or pass it with --override {gate.gate} and a --reason"
    return when + (passing if gate.gate in gates.OVERRIDABLE else "")


def _lineage(draft: Draft) -> dict[str, Any]:
    line = draft.lineage
    if line is None:
        return {"root": draft.id}
    return {
        "root": line.root,
        "rerun_of": line.of,
        "rerun_from": line.begin,
        "pass_number": line.pass_number,
    }


def _wake(tx: Transaction, draft: Draft, closed: Sequence[ClosedGate]) -> None:
    instants = [at for at in (gates.looks_at(closed), draft.not_after) if at is not None]
    if instants:
        records.wake(tx, draft.id, min(instants), "gate")
