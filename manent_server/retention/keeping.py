"""What holds old deploys, as it stands when a prune begins.

Nothing an ended deploy is held by here can come about later: what succeeds meanwhile is young,
and only pushes older releases out. What can come about, a rollback to it or a rerun of it, is
a reference the database guards.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from manent_server.domain import rollback as rollbacks
from manent_server.domain.marks import Mark, Sort
from manent_server.domain.retention import Kept, Policy
from manent_server.domain.rollback import Good
from manent_server.store import deploys, history, marks, records, retention
from manent_server.store.records import Stock
from manent_server.store.retention import GivenUp, Place
from manent_server.store.transaction import Store, Transaction


@dataclass
class Keeping:
    """The first reason for each deploy that is held, by its id."""

    reasons: dict[str, Kept] = field(default_factory=dict)

    def add(self, deploy: str | None, reason: Kept) -> None:
        """Hold a deploy, unless it is held already."""
        if deploy is not None:
            self.reasons.setdefault(deploy, reason)


@dataclass(frozen=True)
class _Seen:
    """What is known of all places."""

    stock: list[Stock]
    standing: list[Mark]
    given_up: GivenUp
    at_hand: dict[str, set[str]] = field(default_factory=dict)
    """Versions a rollback or a promotion may still name, by application."""


def survey(
    store: Store,
    policy: Policy,
    *,
    before: datetime,
    promoting: frozenset[Place],
    pulse: Callable[[], None],
) -> Keeping:
    """Everything that is held.

    Args:
        store: Read in pieces, between which the caller may write: nobody holds two connections.
        policy: How much stays.
        before: What ended later is not looked at.
        promoting: Places that take up versions by themselves.
        pulse: Called now and then: thousands of places take their time.
    """
    keeping = Keeping()
    with store.read() as tx:
        seen = _Seen(records.inventory(tx), marks.standing(tx, at=tx.now()), retention.given_up(tx))
        places, scheduled = retention.places(tx), retention.automated(tx)
    for row in seen.stock:
        keeping.add(row.deploy, Kept.CURRENT)
        if row.version is not None:
            seen.at_hand.setdefault(row.application, set()).add(row.version)
    for mark in seen.standing:
        keeping.add(mark.deploy, Kept.MARKED)
    for place in places:
        pulse()
        with store.read() as tx:
            _hold_place(tx, keeping, place, policy=policy, seen=seen)
    for application in sorted(scheduled):
        pulse()
        with store.read() as tx:
            _hold_ages(tx, keeping, application, seen.at_hand.get(application, set()), before)
    for place in places:
        if place in promoting or place[0] in scheduled:
            pulse()
            with store.read() as tx:
                _hold_automation(tx, keeping, place, seen)
    return keeping


def _hold_ages(
    tx: Transaction, keeping: Keeping, application: str, versions: set[str], before: datetime
) -> None:
    """By what a schedule knows which version is the newest."""
    newest = history.newest_accepted(tx, application)
    named = versions | ({newest} if newest else set())
    for deploy in retention.first_accepted(tx, application, versions=named, since=before):
        keeping.add(deploy, Kept.AUTOMATION)


def _hold_place(
    tx: Transaction, keeping: Keeping, place: Place, *, policy: Policy, seen: _Seen
) -> None:
    good = retention.releases(tx, place, limit=policy.releases)
    seen.at_hand.setdefault(place[0], set()).update(version for _, version in good)
    for deploy, _ in good:
        keeping.add(deploy, Kept.RELEASES)
    keeping.add(retention.highest_sequence(tx, place), Kept.SEQUENCE)
    for deploy in _previous(tx, place, seen):
        keeping.add(deploy, Kept.PREVIOUS)
    _hold_given_up(tx, keeping, place, dict.fromkeys(version for _, version in good), seen)


def _hold_given_up(
    tx: Transaction, keeping: Keeping, place: Place, versions: Iterable[str], seen: _Seen
) -> None:
    for version in versions:
        if seen.given_up.may_concern(place, version):
            keeping.add(history.rolled_back_from(tx, *place, version), Kept.GIVEN_UP)


def _hold_automation(tx: Transaction, keeping: Keeping, place: Place, seen: _Seen) -> None:
    """By what automation knows that a version was tried there, and given up."""
    versions = sorted(seen.at_hand.get(place[0], ()))
    _hold_given_up(tx, keeping, place, versions, seen)
    for deploy in retention.last_of_automation(tx, place, versions):
        keeping.add(deploy, Kept.AUTOMATION)


def _previous(tx: Transaction, place: Place, seen: _Seen) -> Iterable[str]:
    """What `manent rollback` would go back to, asked as it asks, and the chain that leads there.

    Without a link of the chain the next rollback would find nothing at its end.
    """
    live = deploys.last_good(tx, *place)
    if live is None:
        return ()
    at = tx.now()
    vetoes = [
        mark
        for mark in seen.standing
        if mark.sort == Sort.VETO and mark.covers(*place) and mark.binds(at=at)
    ]
    chain: list[str] = []

    def find(deploy: str) -> Good | None:
        row = deploys.read(tx, deploy)
        if row is not None:
            chain.append(row.id)
        return Good(row.id, row.version, row.replaces, row.rollback_to) if row else None

    target = rollbacks.target(
        Good(live.id, live.version, live.replaces, live.rollback_to),
        # Where a later deploy failed half-way it is what is live now, which stays anyway: what
        # comes before that is wanted again as soon as the place has been repaired.
        is_intact=True,
        find=find,
        is_banned=lambda version: any(mark.bans(version) for mark in vetoes),
    )
    return chain if target is not None else ()
