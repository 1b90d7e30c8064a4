"""What each target of a deploy would go back to, decided while its place is held."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from manent_server.domain.deploy import Kind, Outcome, State
from manent_server.domain.inventory import Knowledge
from manent_server.domain.order import Order
from manent_server.store import deploys, records, work
from manent_server.store.deploys import Deploy
from manent_server.store.records import Stock
from manent_server.store.transaction import Transaction


@dataclass(frozen=True)
class Past:
    """Per target what ran there, with the digest and configuration to go back to it.

    `replaces` is the deploy that is good there now.
    """

    targets: Mapping[str, Mapping[str, Any]]
    replaces: str | None
    warnings: Sequence[str]


def fix(tx: Transaction, deploy: Deploy, order: Order) -> Past:
    """Read it from the inventory, and where that does not know, from the last good deploy."""
    good = deploys.last_good(tx, deploy.application, deploy.environment)
    stock = {
        row.target: row
        for row in records.inventory(
            tx, application=deploy.application, environment=deploy.environment
        )
    }
    # Where the inventory does not know, a deploy that left targets out says nothing.
    is_partial = good is not None and good.outcome == Outcome.PARTIAL
    whole = good
    if is_partial:
        whole = deploys.last_good(tx, deploy.application, deploy.environment, is_whole=True)
    reader = _Reader(tx, deploy, whole)
    found: dict[str, Mapping[str, Any]] = {}
    warnings: list[str] = []
    for target in order.targets:
        past = reader.of(target, stock.get(target))
        if past is None:
            continue
        found[target] = past
        if order.artifact is not None and past["artifact"] is None:
            warnings.append(
                f"{target}: no artifact is recorded for going back to {past['version']}"
            )
    return Past(found, good.id if good else None, warnings)


class _Reader:
    """Reads each deploy it meets once."""

    def __init__(self, tx: Transaction, deploy: Deploy, good: Deploy | None) -> None:
        self._tx = tx
        self._deploy = deploy
        self._good = good
        self._known: dict[str, Deploy | None] = {good.id: good} if good else {}

    def of(self, target: str, row: Stock | None) -> Mapping[str, Any] | None:
        """What one target would go back to; None when there is nothing."""
        before = self._read(row.deploy) if row is not None and self._deploy.rerun_of else None
        if before is not None and self._is_unfinished_kin(before):
            # What that pass left here is to be finished: one goes back to what was before it.
            older: Mapping[str, Any] | None = (before.prepared or {}).get("past", {}).get(target)
            return older
        known = row if row is not None and row.state == Knowledge.KNOWN else None
        source = self._read(known.deploy) if known else self._good
        return self._one(source, target, known) if source else None

    def _is_unfinished_kin(self, before: Deploy) -> bool:
        return before.root == self._deploy.root and before.state != State.SUCCESS

    def _read(self, deploy: str) -> Deploy | None:
        if deploy not in self._known:
            self._known[deploy] = deploys.read(self._tx, deploy)
        return self._known[deploy]

    def _one(self, source: Deploy, target: str, known: Stock | None) -> Mapping[str, Any]:
        prepared = source.prepared or {}
        older = prepared.get("past", {}).get(target)
        outputs = known.outputs if known else None
        if known is not None and older is not None and self._was_undone(source, target):
            # What runs is what the deploy before had found there.
            return {**older, "outputs": outputs}
        return {
            "deploy": source.id,
            "version": source.version,
            "artifact": prepared.get("artifacts", {}).get(target),
            "configuration": prepared.get("configuration", {}),
            "configuration_digest": prepared.get("configuration_digest"),
            "outputs": outputs,
        }

    def _was_undone(self, source: Deploy, target: str) -> bool:
        if source.kind == Kind.ROLLBACK:
            return False
        step = work.read_step(self._tx, source.id, source.pass_number, f"rollback:{target}")
        return step is not None and step.state == "succeeded"
