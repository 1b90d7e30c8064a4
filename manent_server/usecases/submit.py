"""Submit: accept a request to bring a version somewhere."""

from dataclasses import replace
from typing import Any

from manent_server.domain import access, names, rules
from manent_server.domain.access import Caller
from manent_server.domain.deploy import Kind
from manent_server.domain.errors import Conflict, Invalid
from manent_server.domain.order import Order
from manent_server.settings.values import Application, Environment
from manent_server.store import deploys
from manent_server.store.transaction import Transaction
from manent_server.usecases import busy, inspect, once
from manent_server.usecases import live as lives
from manent_server.usecases.accept import (
    DEFAULT_PRIORITY,
    Draft,
    accept,
    chosen,
    demand_environment,
    demand_newer,
    demand_override,
    demand_right,
    order_for,
)
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import DeployRequest, IdempotencyKey

IF_BLOCKED = ("wait", "refuse")


def submit(
    desk: Desk, request: DeployRequest, *, caller: Caller, key: IdempotencyKey | None = None
) -> dict[str, Any]:
    """Accept a deploy; repeated with its key it answers with the same one.

    Raises:
        ManentError: The request names something unknown, is not allowed or refused; then
            nothing was created.
    """
    desk = desk.seen_by(caller)
    draft = drafted(desk, request, caller)
    demand_right(draft)

    def work(tx: Transaction) -> str:
        demand_environment(tx, draft)
        known = once.remembered(tx, caller, key)
        if known is not None:
            return known
        if deploys.read(tx, draft.id) is not None:
            return draft.id  # the answer to an earlier COMMIT was lost
        enter(tx, desk, draft)
        once.remember(tx, caller, key, draft.id)
        return draft.id

    return inspect.deploy(desk, once.run(desk.store, work))


def enter(tx: Transaction, desk: Desk, draft: Draft) -> None:
    """Accept a drafted deploy; the transaction holds its environment's row lock.

    Raises:
        ManentError: It is refused; whatever was written then has to be undone.
    """
    ready = draft if draft.version else as_live(tx, draft)
    demand_newer(tx, ready)
    busy.demand_free(tx, desk, ready)
    accept(tx, ready, desk.admission)


def drafted(desk: Desk, request: DeployRequest, caller: Caller) -> Draft:
    """What is asked for, checked against the configuration; nothing is written.

    Raises:
        ManentError: It names something unknown or is not allowed.
    """
    application = desk.application(request.application)
    environment = desk.environment(request.environment)
    placement = desk.placement(application, environment)
    kind = _kind(request)
    priority = request.priority if request.priority is not None else DEFAULT_PRIORITY
    _check(request)
    where = (application.name, environment.name)
    if priority != DEFAULT_PRIORITY:
        caller.demand(access.PRIORITISE, *where)
    if request.collision == rules.CANCEL_RUNNING:
        caller.demand(access.CANCEL, *where)
    sha256 = names.sha256(request.sha256) if request.sha256 else None
    if sha256 is not None and placement.artifact is None:
        raise Invalid(
            f"{application.name} has no artifact in {environment.name}: no digest can be checked",
            code="sha256_without_artifact",
            next="leave sha256 out, or name its artifact in manent.yml",
        )
    draft = Draft(
        application=application.name,
        environment=environment,
        kind=kind,
        version=names.version(request.version) if request.version is not None else "",
        order=_order(desk, request, application, environment),
        caller=caller,
        sha256=sha256,
        reason=request.reason,
        not_before=request.not_before,
        not_after=request.not_after,
        priority=priority,
        sequence=request.sequence,
        override=tuple(request.override),
        if_blocked=request.if_blocked,
        origin=request.origin,
        links=request.links,
        changes=request.changes,
    )
    demand_override(draft)
    return draft


def _order(
    desk: Desk, request: DeployRequest, application: Application, environment: Environment
) -> Order:
    order = chosen(order_for(desk, application, environment), request.targets)
    if request.collision is None:
        return order
    return replace(order, collision=request.collision)


def _kind(request: DeployRequest) -> Kind:
    if request.kind not in (Kind.DEPLOY, Kind.REDEPLOY):
        raise Invalid(
            f"{request.kind} is no kind of deploy one can ask for here",
            next="use deploy or redeploy; a rollback is asked for at /rollbacks",
        )
    if request.kind == Kind.DEPLOY and request.version is None:
        raise Invalid(
            "version is missing",
            code="version_missing",
            next="name the version to deploy",
            errors=[{"path": "version", "message": "is missing"}],
        )
    return Kind(request.kind)


def _check(request: DeployRequest) -> None:
    if request.if_blocked is not None and request.if_blocked not in IF_BLOCKED:
        raise Invalid(f"if_blocked {request.if_blocked!r} is not known", next="use wait or refuse")
    if request.collision is not None and request.collision not in rules.COLLISIONS:
        known = ", ".join(rules.COLLISIONS)
        raise Invalid(f"collision {request.collision!r} is not known", next=f"known: {known}")
    if request.not_before and request.not_after and request.not_after <= request.not_before:
        raise Invalid(
            "not_after is not after not_before",
            code="instants_reversed",
            next="exchange or move them",
            errors=[{"path": "not_after", "message": "is not after not_before"}],
        )


def as_live(tx: Transaction, draft: Draft) -> Draft:
    """A redeploy takes the version that is live, by the digest that was deployed.

    Shown is what is live now; what is live when its turn comes is brought, unless a digest pins
    it to this one.
    """
    live = lives.read(tx, draft.application, draft.environment.name)
    if live is None:
        raise Conflict(
            f"{draft.application} was never deployed to {draft.environment.name}",
            code="nothing_deployed",
            next="deploy a version first",
        )
    order = replace(draft.order, follows_live=draft.sha256 is None)
    return replace(
        draft,
        version=live.version,
        sha256=draft.sha256 or live.sha256,
        order=order,
        changes=live.changes if draft.changes is None else draft.changes,
    )
