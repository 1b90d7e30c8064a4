"""Admission: who is next in an environment, in one transaction under its row lock."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from manent_server.domain import gates
from manent_server.domain.deploy import Kind, Outcome, Phase, State
from manent_server.domain.errors import Unavailable
from manent_server.domain.gates import Facts
from manent_server.domain.rules import load as load_rules
from manent_server.engine import closing
from manent_server.engine import version as versions
from manent_server.engine.closing import Ending
from manent_server.engine.dispatch import Dispatcher
from manent_server.store import (
    deploys,
    facts,
    history,
    marks,
    queue,
    records,
    succession,
    waiting,
    workers,
)
from manent_server.store.deploys import Deploy
from manent_server.store.queue import Environment, Reach
from manent_server.store.repeat import is_transient
from manent_server.store.transaction import Store, Transaction
from manent_server.store.workers import LeaseLost
from manent_server.usecases import live as lives
from manent_server.usecases.look import Look, end_late

_log = logging.getLogger(__name__)
_ENDINGS = 200
_ROUNDS = 20


@dataclass(frozen=True)
class _Hall:
    """What is true of the environment while its row is locked."""

    environment: Environment
    facts: Facts
    at: datetime


class Admission:
    """Admits to one environment at a time; needs no worker in this process."""

    def __init__(self, store: Store, dispatcher: Dispatcher, *, stale_after: timedelta) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._stale_after = stale_after

    def under(self, store: Store) -> "Admission":
        """The same admission, in transactions of this store."""
        return Admission(store, self._dispatcher, stale_after=self._stale_after)

    def __call__(self, environment: str, *, only: Sequence[str] | None = None) -> bool:
        """Admit in transactions of its own; a failure is the next round's to mend.

        Args:
            environment: Where.
            only: Of the deploys that wait for their gates, those that are looked at; None: all.

        Returns:
            Whether it was done.

        Raises:
            LeaseLost: It is admitted for a loop whose lease has ended.
        """
        try:
            for _ in range(_ROUNDS):
                if not self._store.once(lambda tx: self.admit(tx, environment, only=only)):
                    break
        except LeaseLost:
            raise
        except Unavailable as error:
            _log.warning("admission to %s is put off: %s", environment, error.detail)
            return False
        except Exception:  # noqa: BLE001 - logged whole; what came before stays done
            _log.exception("admission to %s failed; the next round tries again", environment)
            return False
        return True

    def within(self, tx: Transaction, environment: str) -> None:
        """Give places as a part of a larger transaction that a failure here must not undo."""
        try:
            with tx.savepoint():
                self.admit(tx, environment, only=())
        except Exception as error:
            if is_transient(error):
                raise
            _log.exception("admission to %s failed; the next round tries again", environment)

    def admit(self, tx: Transaction, name: str, *, only: Sequence[str] | None = None) -> bool:
        """Open gates, take the head of the queue while there is a place, dispatch.

        Args:
            tx: The transaction.
            name: The environment.
            only: Of the deploys that wait for their gates, those that are looked at; None: all.

        Returns:
            Whether more is to be moved than one transaction should.
        """
        environment = queue.lock_environment(tx, name)
        if environment is None or not queue.has_waiting(tx, name):
            return False
        at = tx.now()
        rules = load_rules(environment.rules or {})
        place = Facts(at=at, rules=rules, marks=marks.standing(tx, at=at))
        hall = _Hall(environment, place, at)
        has_more = Look(tx, name, place).over(waiting.parts(tx, name, only=only))
        late = queue.expired(tx, name, at=at, limit=_ENDINGS)
        end_late(tx, late)
        self._fill(tx, hall)
        return has_more or len(late) == _ENDINGS

    def _fill(self, tx: Transaction, hall: _Hall) -> None:
        """Give places to the head of the queue while there are any."""
        taken = queue.slots(tx, hall.environment.name)
        places = {slot.place for slot in taken}
        busy = {slot.application for slot in taken}
        if len(places) >= hall.environment.concurrency:
            return
        offering = _Offers(tx, hall, self._stale_after)
        reach = Reach(offering.pools)
        while len(places) < hall.environment.concurrency:
            rows = queue.heads(tx, hall.environment.name, reach, without=busy)
            if not rows:
                return
            reach = replace(reach, after=(rows[-1].priority, rows[-1].ticket or 0))
            for row in rows:
                is_full = len(places) >= hall.environment.concurrency
                version = self._version(tx, row, offering)
                if is_full or row.application in busy or version is None:
                    continue
                place = next(n for n in range(len(places) + 1) if n not in places)
                if self._alone(
                    tx, row, partial(self._take, tx, hall, row.id, _Berth(place, version))
                ):
                    places.add(place)
                    busy.add(row.application)

    def _alone(self, tx: Transaction, row: Deploy, act: Callable[[], bool]) -> bool:
        """One deploy under a savepoint: one that cannot be judged is shown, and blocks no other."""
        try:
            with tx.savepoint():
                return act()
        except Exception as error:
            if is_transient(error):
                raise
            _block(tx, row, error)
            return False

    def _version(self, tx: Transaction, row: Deploy, offering: "_Offers") -> str | None:
        """By which version it can be begun now; an order that cannot be read blocks its own."""
        try:
            return offering.version(row)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            _block(tx, row, error)
            return None

    def _take(self, tx: Transaction, hall: _Hall, deploy: str, berth: "_Berth") -> bool:
        """Give the head of the queue its place, unless its turn has passed."""
        row = deploys.lock(tx, deploy)
        if row is None or row.state != State.ENQUEUED or row.ticket is None:
            return False
        if self._is_outdated(tx, row):
            return False
        closed = gates.closed(row.asked, facts.proven(tx, hall.facts, [row.asked]))
        if closed:
            deploys.update(tx, row.id, state=State.DELAYED, phase=closed[0].phase, ticket=None)
            _wake_at_opening(tx, row, closed)
            return False
        if row.blocked is not None:
            deploys.update(tx, row.id, blocked=None)
        _follow_live(tx, row)
        queue.take_slot(tx, row, place=berth.place, at=hall.at)
        self._dispatcher.dispatch(tx, row.id, version=berth.version)
        return True

    def _is_outdated(self, tx: Transaction, row: Deploy) -> bool:
        """A later deploy of the application has succeeded there, or its version was given up."""
        if row.kind == Kind.ROLLBACK or "outdated" in (row.override or ()):
            return False
        place = (row.application, row.environment)
        later = succession.later_success(tx, place, succession.age(tx, row))
        by = later.id if later is not None else _given_up_by(tx, row)
        if by is None:
            return False
        ending = Ending(row.id, None, Outcome.SUPERSEDED, superseded_by=by)
        return closing.close(tx, ending)


def _block(tx: Transaction, row: Deploy, error: Exception) -> None:
    """Show that a deploy cannot be judged, once as long as its fault is the same."""
    fault = type(error).__name__
    if row.blocked != fault:
        _log.error("deploy %s cannot be judged", row.id, exc_info=error)
        deploys.update(tx, row.id, phase=Phase.BLOCKED, blocked=fault)


def _given_up_by(tx: Transaction, row: Deploy) -> str | None:
    """The deploy that gave up what automation is about to bring back, also after the hold."""
    if row.origin == deploys.REQUEST:
        return None
    return history.rolled_back_from(tx, row.application, row.environment, row.version)


def _follow_live(tx: Transaction, row: Deploy) -> None:
    """A redeploy that named no version brings what is live now that its turn has come."""
    if not row.order_body.get("follows_live"):
        return
    live = lives.read(tx, row.application, row.environment)
    if live is None or (live.version, live.sha256) == (row.version, row.sha256):
        return
    words = f"brings {live.version}, live since deploy {live.deploy}, in place of {row.version}"
    warnings = [*(row.warnings or ()), words] if live.version != row.version else row.warnings
    # Whoever wrote what it brings now has no say in it, nor has who wrote what was asked for.
    changes = [*(row.changes or ()), *(live.changes or ())]
    told = [one for number, one in enumerate(changes) if one not in changes[:number]]
    values = {"version": live.version, "sha256": live.sha256, "warnings": warnings}
    deploys.update(tx, row.id, **values, changes=told or None)


def _wake_at_opening(tx: Transaction, row: Deploy, closed: tuple[gates.ClosedGate, ...]) -> None:
    instants = [at for at in (gates.looks_at(closed), row.not_after) if at is not None]
    if instants:
        records.wake(tx, row.id, min(instants), "gate")


@dataclass(frozen=True)
class _Berth:
    """What a deploy is admitted to: a place, and the workflow version it is begun with."""

    place: int
    version: str


class _Offers:
    """By which workflow version some live worker of its pool can run a deploy."""

    def __init__(self, tx: Transaction, hall: _Hall, stale_after: timedelta) -> None:
        self._crew = workers.alive(tx, stale_after=stale_after, at=hall.at)

    @property
    def pools(self) -> frozenset[str]:
        """Pools from which a live worker takes."""
        return frozenset(pool for worker in self._crew for pool in worker.pools)

    def version(self, row: Deploy) -> str | None:
        crew = [worker for worker in self._crew if row.pool in worker.pools]
        return versions.newest(crew, shape=row.order_shape, plugin=row.order_body["plugin"])
