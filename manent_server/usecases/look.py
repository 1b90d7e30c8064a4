"""Look: judge what waits for its gates, give tickets to what may go on, set the next alarm.

Whatever waits for an instant has a wake row at it, set anew by each look; the rest is looked at
when something happens. What many deploys have in common is judged once.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from manent_server.domain import awaiting, gates
from manent_server.domain.awaiting import Stage
from manent_server.domain.deploy import Outcome, Phase, State
from manent_server.domain.gates import ClosedGate, Facts
from manent_server.engine import closing
from manent_server.engine.closing import Ending
from manent_server.store import deploys, waiting
from manent_server.store import facts as facts_of
from manent_server.store.repeat import is_transient
from manent_server.store.transaction import Transaction
from manent_server.store.waiting import Likeness, Waiting
from manent_server.usecases import collide, remind

_log = logging.getLogger(__name__)
MOST = 2000
"""Deploys that are moved in one transaction, so that none is long."""
_ENDINGS = 200


@dataclass(frozen=True)
class Look:
    """One look at an environment whose row is locked."""

    tx: Transaction
    environment: str
    facts: Facts

    def over(self, parts: Iterable[Sequence[Waiting]]) -> bool:
        """Move those of the delayed deploys that can be, as many as one transaction should.

        Args:
            parts: Deploys that wait, in their order: held in memory one part at a time.

        Returns:
            Whether more would have moved.
        """
        left = MOST
        for rows in parts:
            moved, has_more = self._at(rows, most=left)
            left -= moved
            if has_more or left <= 0:
                return True
        return False

    def _at(self, rows: Sequence[Waiting], *, most: int) -> tuple[int, bool]:
        """How many of a part were moved, and whether more would have been."""
        lapsing = [row.id for row in rows if _is_lapsing(row, self.facts.at)]
        if lapsing:
            # Time has done something about their approval: all are looked at again after it.
            remind.see_to(self.tx, lapsing[:_ENDINGS])
            return len(lapsing), True
        common = self._judge(rows)
        late = [row for row in rows if _is_late(row, self.facts.at)]
        end_late(self.tx, [row.id for row in late[:_ENDINGS]])
        left = [row for row in rows if not _is_late(row, self.facts.at)]
        judged = [(row, self._closed(row, common[row.like])) for row in left]
        moving = [(row, closed) for row, closed in judged if _moves(row, closed)]
        self._move(moving[:most], common)
        return min(len(moving), most), len(late) > _ENDINGS or len(moving) > most

    def _judge(self, rows: Sequence[Waiting]) -> dict[Likeness, "_Verdict"]:
        bodies = waiting.orders(self.tx, rows)
        return {
            like: self._verdict(like, bodies[like.order_digest])
            for like in dict.fromkeys(row.like for row in rows)
        }

    def _verdict(self, like: Likeness, order: Mapping[str, Any]) -> "_Verdict":
        try:
            asked = waiting.asked(self.environment, like, order, self.facts.at)
            closed = gates.closed(asked, facts_of.proven(self.tx, self.facts, [asked]))
            passes = gates.APPROVAL in gates.let_through(asked, self.facts.rules)
        except Exception as error:
            if is_transient(error):
                raise
            _log.exception("deploys of %s %s cannot be judged", like.application, like.version)
            return _Verdict((), acts=False, fault=type(error).__name__)
        acts = order.get("collision") in collide.ACTING
        return _Verdict(closed, acts=acts, passes_approval=passes)

    def _closed(self, row: Waiting, verdict: "_Verdict") -> tuple[ClosedGate, ...] | None:
        """What keeps one back, what is its own first; None where that cannot be said."""
        if verdict.fault is not None:
            return None
        standing = awaiting.standing(row.approval, row.approval_at)
        asked = () if verdict.passes_approval else gates.unapproved(standing, row.id)
        return (*asked, *gates.timer(row.not_before, at=self.facts.at), *verdict.closed)

    def _move(
        self,
        moving: Sequence[tuple[Waiting, tuple[ClosedGate, ...] | None]],
        common: Mapping[Likeness, "_Verdict"],
    ) -> None:
        tx = self.tx
        opening = [row for row, closed in moving if closed == ()]
        acting = {row.like.application for row in opening if common[row.like].acts}
        collide.lock_rivals(tx, self.environment, acting)
        waiting.enqueue(tx, self.environment, opening)
        shown: dict[Phase, list[Waiting]] = {}
        for row, closed in moving:
            if closed:
                shown.setdefault(closed[0].phase, []).append(row)
        for phase, rows in shown.items():
            waiting.show(tx, phase, rows)
        waiting.wake_at(tx, {row.id: _wake(row, closed or ()) for row, closed in moving})
        for row, closed in moving:
            if closed is None:
                self._show_fault(row.id, common[row.like].fault)
        for row in opening:
            if common[row.like].acts:
                self._make_room(row.id)

    def _make_room(self, deploy: str) -> None:
        """Its gates have opened: it may take the place of others."""
        row = deploys.read(self.tx, deploy)
        if row is not None and row.state == State.ENQUEUED:
            collide.make_room(self.tx, row, (), self.facts)

    def _show_fault(self, deploy: str, fault: str | None) -> None:
        """One that cannot be judged is shown, and blocks no other."""
        row = deploys.lock(self.tx, deploy)
        if row is not None and row.state == State.DELAYED:
            deploys.update(self.tx, deploy, phase=Phase.BLOCKED, blocked=fault)


@dataclass(frozen=True)
class _Verdict:
    """The gates closed for all that are alike, and what they have in common beside.

    `acts`: one that opens takes another's place; `passes_approval`: it needs nobody's approval.
    """

    closed: tuple[ClosedGate, ...]
    acts: bool
    passes_approval: bool = False
    fault: str | None = None


def end_late(tx: Transaction, late: Sequence[str]) -> None:
    """End deploys that were not to be started any more; one that cannot be ended blocks no other.

    Args:
        tx: The transaction that holds the environment's row.
        late: Their ids.
    """
    for deploy in late:
        try:
            with tx.savepoint():
                closing.close(tx, Ending(deploy, None, Outcome.EXPIRED))
        except Exception as error:
            if is_transient(error):
                raise
            _log.exception("deploy %s is past its last instant and cannot be ended", deploy)


def _is_late(row: Waiting, at: datetime) -> bool:
    return row.not_after is not None and row.not_after <= at


def _wake(row: Waiting, closed: Sequence[ClosedGate]) -> datetime | None:
    """The earliest instant at which time alone may have changed something."""
    instants = [at for at in (gates.looks_at(closed), row.not_after) if at is not None]
    return min(instants, default=None)


def _is_lapsing(row: Waiting, at: datetime) -> bool:
    is_asked = row.approval == Stage.ASKED
    return is_asked and row.approval_at is not None and row.approval_at <= at


def _moves(row: Waiting, closed: Sequence[ClosedGate] | None) -> bool:
    """Whether it goes on, waits for another gate than it says or has the wrong alarm."""
    if closed is None:
        return row.phase != Phase.BLOCKED
    is_shown = bool(closed) and row.phase == closed[0].phase
    return not is_shown or row.wake_at != _wake(row, closed)
