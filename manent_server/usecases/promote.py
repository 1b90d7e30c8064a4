"""Promote: bring to one environment what runs in another, by its very digest."""

from dataclasses import replace
from typing import Any

from manent_server.domain import names
from manent_server.domain.access import Caller
from manent_server.domain.errors import Conflict, Invalid
from manent_server.domain.inventory import Knowledge
from manent_server.store import deploys, records
from manent_server.store.records import Stock
from manent_server.store.transaction import Transaction
from manent_server.usecases import inspect, once, submit
from manent_server.usecases.accept import Draft, demand_environment, demand_right
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import DeployRequest, IdempotencyKey, PromotionRequest


def promote(
    desk: Desk, request: PromotionRequest, *, caller: Caller, key: IdempotencyKey | None = None
) -> dict[str, Any]:
    """Accept a deploy of what runs in the source; the target environment's rule binds it.

    Raises:
        Conflict: It does not run in the source, or not as one digest.
        Refused: Evidence is missing; the problem says which.
    """
    desk = desk.seen_by(caller)
    source = desk.environment(request.source).name
    if source == desk.environment(request.to).name:
        raise Invalid(f"{source} is promoted to itself", next="name two environments")
    if request.version is not None:
        names.version(request.version)
    # Which version is meant is only known in the transaction.
    wanted = DeployRequest(
        application=request.application,
        environment=request.to,
        version=request.version or "0",
        reason=request.reason,
        override=request.override,
    )
    draft = submit.drafted(desk, wanted, caller)
    desk.demand_seen(draft.application, source)
    demand_right(draft)

    def work(tx: Transaction) -> str:
        demand_environment(tx, draft)
        known = once.remembered(tx, caller, key)
        if known is not None:
            return known
        if deploys.read(tx, draft.id) is not None:
            return draft.id  # the answer to an earlier COMMIT was lost
        submit.enter(tx, desk, as_in(tx, draft, source, request.version))
        once.remember(tx, caller, key, draft.id)
        return draft.id

    return inspect.deploy(desk, once.run(desk.store, work))


def as_in(tx: Transaction, draft: Draft, source: str, version: str | None) -> Draft:
    """The draft with the version, digest and deploy that the source has.

    Raises:
        Conflict: It is not there, or not one thing.
    """
    stock = records.inventory(tx, application=draft.application, environment=source)
    known = [row for row in stock if row.state == Knowledge.KNOWN and row.version is not None]
    found = version or _newest(draft, source, known)
    mine = [row for row in known if row.version == found]
    if not mine:
        raise Conflict(
            f"{draft.application} {found} does not run in {source}",
            code="not_in_source",
            next=f"manent inventory {draft.application} {source} shows what does",
        )
    digests = {row.sha256 for row in mine}
    if len(digests) > 1:
        raise Conflict(
            f"{draft.application} {found} runs in {source} with {len(digests)} digests",
            code="digests_differ",
            next=f"deploy it to {source} again, then promote it",
        )
    newest = max(mine, key=lambda row: (row.since, row.deploy))
    has_artifact = draft.order.artifact is not None
    sha256 = newest.sha256 if has_artifact else None
    return replace(draft, version=found, sha256=sha256, promoted_from=newest.deploy)


def _newest(draft: Draft, source: str, known: list[Stock]) -> str:
    if not known:
        raise Conflict(
            f"nothing of {draft.application} is known to run in {source}",
            code="not_in_source",
            next=f"deploy it to {source} first",
        )
    return str(max(known, key=lambda row: (row.since, row.deploy)).version)
