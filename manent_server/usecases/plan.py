"""Plan: what a deploy would do and meet, now or at another time; nothing is created."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from manent_server.domain import approval, difference, gates
from manent_server.domain import order as orders
from manent_server.domain.access import Caller
from manent_server.domain.errors import Refused
from manent_server.domain.gates import Facts, Judgement
from manent_server.domain.inventory import Knowledge
from manent_server.store import deploys, facts, finding, queue, records
from manent_server.store.deploys import Deploy
from manent_server.store.records import Stock
from manent_server.store.transaction import Transaction
from manent_server.usecases import busy, explain, submit, view
from manent_server.usecases.accept import Draft, asked_of, demand_newer, pinned
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import DeployRequest


def plan(
    desk: Desk, request: DeployRequest, *, caller: Caller, at: datetime | None = None
) -> dict[str, Any]:
    """What a deploy would do.

    Args:
        desk: The collaborators.
        request: As it would be asked for.
        caller: Who would ask.
        at: The instant whose gates are told, as far as they are known now; None: now.

    Raises:
        ManentError: It names something unknown or is not allowed. What policy would refuse is
            told in `refusal` instead.
    """
    desk = desk.seen_by(caller)
    draft = submit.drafted(desk, request, caller)
    with desk.store.read() as tx:
        ready = draft if draft.version else submit.as_live(tx, draft)
        now = facts.read(tx, ready.environment.name, [asked_of(ready, tx.now())])
        then = replace(now, at=at or now.at)
        ready = pinned(ready, then)
        view_of = _Prospect(tx, desk, ready, then)
        return view_of.shown(is_partial=request.targets is not None)


@dataclass(frozen=True)
class _Prospect:
    """A draft, and what is true where it would go."""

    tx: Transaction
    desk: Desk
    draft: Draft
    facts: Facts

    def shown(self, *, is_partial: bool) -> dict[str, Any]:
        draft, tx = self.draft, self.tx
        live = deploys.last_good(tx, draft.application, draft.environment.name)
        changed = _changed(live, draft, is_partial=is_partial)
        targets = self._targets()
        judged = self._judged()
        moves = [one for one in targets if one["from"] != draft.version]
        return {
            "application": draft.application,
            "environment": draft.environment.name,
            "kind": draft.kind,
            "at": view.instant(self.facts.at),
            "version": {"from": live.version if live else None, "to": draft.version},
            "sha256": draft.sha256,
            "configuration": [{"key": one.key, "change": one.change} for one in changed],
            "waves": [list(wave) for wave in draft.order.waves],
            "targets": targets,
            "gates": [view.gate(gate) for gate in judged.closed],
            "passed": [gate.gate for gate in judged.passed],
            "approvals": self._approvals(judged),
            "refusal": self._refusal(judged),
            "queue": self._queue(),
            "changes": bool(moves or changed),
        }

    def _judged(self) -> Judgement:
        return gates.judge(asked_of(self.draft, self.facts.at), self.facts)

    def _approvals(self, judged: Judgement) -> list[str]:
        """Who would have to agree, in words; nobody where that gate is passed."""
        if any(gate.gate == gates.APPROVAL for gate in judged.passed):
            return []
        return [approval.told(rule) for rule in self.draft.order.approvals]

    def _targets(self) -> list[dict[str, Any]]:
        draft = self.draft
        place = {"application": draft.application, "environment": draft.environment.name}
        stock = {row.target: row for row in records.inventory(self.tx, **place)}
        names = [name for wave in draft.order.waves for name in wave]
        return [_target(name, stock.get(name), draft.version) for name in names]

    def _refusal(self, judged: Judgement) -> dict[str, Any] | None:
        """Why it would not be accepted, as the refusal would say it."""
        try:
            demand_newer(self.tx, self.draft)
            busy.demand_free(self.tx, self.desk, self.draft)
        except Refused as refused:
            return {"code": refused.code, "detail": refused.detail, "next": refused.next}
        final = gates.refusing(
            judged.closed, if_blocked=self.draft.if_blocked or self.facts.rules.if_blocked
        )
        if not final:
            return None
        first = final[0]
        code = first.gate if first.is_final else "gate_closed"
        return {"code": code, "detail": first.detail, "next": first.command or "ask again later"}

    def _queue(self) -> dict[str, Any]:
        """Its place if it joined the queue now, and who has the place it needs."""
        draft, tx = self.draft, self.tx
        environment = draft.environment.name
        ahead = queue.ahead_of(tx, environment, draft.priority)
        seen = finding.of_sight(tx, ahead, self.desk.sight)
        slots = queue.slots(tx, environment)
        mine = [slot for slot in slots if slot.application == draft.application]
        is_full = len(slots) >= draft.environment.concurrency
        holder = next(iter(mine or (slots if is_full else ())), None)
        is_seen = holder is not None and self.desk.sight.covers(holder.application, environment)
        row = deploys.read(tx, holder.deploy) if holder is not None and is_seen else None
        blocker = explain.named(tx, self.desk, row.id, row.executor) if row is not None else None
        return {"position": len(ahead) + 1, "ahead": seen, "blocked_by": blocker}


def _target(name: str, stock: Stock | None, version: str) -> dict[str, Any]:
    known = stock is not None and stock.state == Knowledge.KNOWN
    return {
        "target": name,
        "from": stock.version if stock is not None and known else None,
        "to": version,
        "state": stock.state if stock is not None else "new",
    }


def _changed(live: Deploy | None, draft: Draft, *, is_partial: bool) -> Sequence[difference.Change]:
    """What differs from the order that was carried out last; of some targets, only theirs."""
    found = difference.changes(live.order_body if live else None, orders.dump(draft.order))
    if not is_partial:
        return found
    return [one for one in found if one.key != "waves" and one.change != "removed"]
