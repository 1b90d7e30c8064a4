"""Carrying over: the steps of an ended deploy that its rerun takes as done."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from manent_server.domain import order as orders
from manent_server.domain import plan as plans
from manent_server.domain import rerun as reruns
from manent_server.domain.deploy import Kind
from manent_server.domain.errors import Conflict, ManentError
from manent_server.domain.plan import PREPARE, Plan, Step
from manent_server.domain.rerun import Split
from manent_server.engine import past as pasts
from manent_server.store import deploys, records, work
from manent_server.store.deploys import Deploy
from manent_server.store.transaction import Transaction
from manent_server.store.work import StepRow


@dataclass(frozen=True)
class Source:
    """An ended deploy, its plan, and how the steps of its last pass ended."""

    deploy: Deploy
    plan: Plan
    rows: Mapping[str, StepRow]

    @property
    def kept(self) -> frozenset[str]:
        """The steps whose result still stands."""
        undone = [
            row.target
            for row in self.rows.values()
            if row.started_at is not None
            and row.name == f"rollback:{row.target}"
            and self.deploy.kind != Kind.ROLLBACK
        ]
        succeeded = [row.name for row in self.rows.values() if row.state == "succeeded"]
        return reruns.kept(
            self.plan, succeeded=succeeded, undone=[target for target in undone if target]
        )


def read(tx: Transaction, deploy: Deploy) -> Source:
    """What an ended deploy leaves to a rerun.

    Raises:
        Conflict: This build cannot read its order.
    """
    try:
        order = orders.load(deploy.order_body)
    except ValueError as error:
        raise unreadable(deploy, error) from error
    rows = work.read_steps(tx, deploy.id, pass_number=deploy.pass_number)
    plan = plans.build(order, Kind(deploy.kind))
    return Source(deploy, plan, {row.name: row for row in rows})


def unreadable(deploy: Deploy, error: Exception) -> Conflict:
    """The refusal of a deploy whose order is of a shape this build does not know."""
    return Conflict(
        f"the order of deploy {deploy.id} cannot be read: {error}",
        code="order_shape_unknown",
        next="ask a server of the build that accepted it, or deploy anew",
    )


def demand_unchanged(tx: Transaction, source: Source, carried: Iterable[Step]) -> None:
    """Refuse to carry over what something else has changed since.

    A deploy writes every target it touched or carried into the inventory when it ends: as long
    as the row is its own, nobody has been there after it.

    Raises:
        Conflict: Naming the first such target.
    """
    deploy = source.deploy
    stock = {
        row.target: row
        for row in records.inventory(
            tx, application=deploy.application, environment=deploy.environment
        )
    }
    for step in carried:
        row = stock.get(step.target) if step.target else None
        if step.target is None or (row is not None and row.deploy == deploy.id):
            continue
        by = f"deploy {row.deploy} has changed it since" if row else "nothing is known of it"
        raise Conflict(
            f"{step.name} cannot be carried over to target {step.target}: {by}",
            code="carried_changed",
            next=f"begin at {step.name} or before it",
            facts={"step": step.name},
        )


def carry(tx: Transaction, row: Deploy, plan: Plan) -> dict[str, StepRow]:
    """The steps to record as done, by name; the snapshot of `prepare` is taken over with them.

    The place is held: what each target would go back to is fixed anew. Where a result no
    longer stands, `prepare` is returned as failed, so that nothing is touched.
    """
    source = deploys.read(tx, row.rerun_of) if row.rerun_of and row.rerun_from else None
    if source is None or row.rerun_from is None or row.rerun_from == PREPARE:
        return {}
    try:
        found = read(tx, source)
        parts = reruns.split(plan, row.rerun_from, found.kept)
        demand_unchanged(tx, found, parts.carried)
    except ManentError as error:
        return {PREPARE: _failed(tx, row, plan.prepare, error)}
    _take_over(tx, row, found, parts)
    return {step.name: found.rows[step.name] for step in parts.carried}


def _failed(tx: Transaction, row: Deploy, step: Step, error: ManentError) -> StepRow:
    at = tx.now()
    return StepRow(
        deploy=row.id,
        pass_number=row.pass_number,
        name=step.name,
        position=step.position,
        hook=step.hook,
        target=None,
        wave=None,
        state="failed",
        failures=1,
        outputs=None,
        error={"code": error.code, "message": error.detail, "next": error.next},
        checkpoint=None,
        started_at=at,
        next_try_at=None,
        ended_at=at,
        carried_from=None,
    )


def _take_over(tx: Transaction, row: Deploy, source: Source, parts: Split) -> None:
    before = dict(source.deploy.prepared or {})
    past = pasts.fix(tx, row, orders.load(row.order_body))
    before["past"] = dict(past.targets)
    acting = {step.target for step in parts.carried if step.target is not None}
    # A target that ran just this before is not among those a failure would bring back.
    before["carried"] = sorted(
        target for target in acting if not _is_same(before, row, target, past.targets.get(target))
    )
    deploys.update(
        tx,
        row.id,
        prepared=before,
        replaces=past.replaces,
        warnings=list(dict.fromkeys([*(row.warnings or []), *past.warnings])) or None,
    )


def _is_same(
    prepared: Mapping[str, Any], row: Deploy, target: str, past: Mapping[str, Any] | None
) -> bool:
    """Whether what the target would go back to is what was brought there."""
    if past is None:
        return False
    brought = prepared.get("artifacts", {}).get(target), prepared.get("configuration_digest")
    before = past["artifact"], past["configuration_digest"]
    return past["version"] == row.version and before == brought
