"""One run: a dispatch that passed its prelude, on this worker."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from manent_server.domain.deploy import Kind
from manent_server.domain.errors import Unavailable
from manent_server.domain.order import Order
from manent_server.domain.plan import Plan
from manent_server.domain.question import Topic
from manent_server.engine.control import Control
from manent_server.engine.handout import is_current
from manent_server.engine.logbook import Logbook
from manent_server.engine.shop import Shop, Unwound
from manent_server.store import deploys, records, work
from manent_server.store.deploys import Deploy
from manent_server.store.repeat import never
from manent_server.store.transaction import Transaction
from manent_server.store.work import StepRow

T = TypeVar("T")
LONG_WAIT = timedelta(minutes=1)


class Parked(BaseException):
    """A wait of more than a minute: the dispatch ends, the slot stays, a wake row goes on."""

    def __init__(self, at: datetime, reason: str) -> None:
        super().__init__(reason)
        self.at = at
        self.reason = reason


class Asked(BaseException):
    """A person has to answer first: the dispatch ends, the slot stays, nothing wakes it."""

    def __init__(self, topic: Topic, steps: tuple[str, ...], detail: str) -> None:
        super().__init__(detail)
        self.topic = topic
        self.steps = steps
        self.detail = detail


class GivenBack(BaseException):
    """Its place was given back: it waits for its gates again."""


@dataclass
class Run:
    """What the rooms of a run share; `prepared` is filled by the first step.

    `is_trial`: no other deploy that may kill its workers runs on this one.
    """

    shop: Shop
    deploy: Deploy
    order: Order
    plan: Plan
    control: Control
    logbook: Logbook
    is_trial: bool = False
    prepared: dict[str, Any] = field(default_factory=dict)
    _known: dict[str, StepRow] | None = None
    _guard: threading.Lock = field(default_factory=threading.Lock)

    @property
    def kind(self) -> Kind:
        """What was asked for."""
        return Kind(self.deploy.kind)

    @property
    def folder(self) -> Path:
        """Where this run keeps its working folders: a later epoch has a folder of its own."""
        return self.shop.workdir / "deploys" / f"{self.deploy.id}-{self.deploy.epoch}"

    def check(self) -> None:
        """Unwind if the worker is ending or the deploy is no longer this run's."""
        if self.control.is_disowned or self.shop.lifeline.is_cut():
            raise Unwound(self.deploy.id)

    def pause(self, until: timedelta) -> None:
        """Wait, but not past a switch of the control or the end of the worker."""
        with self.control.changed:
            self.control.changed.wait(until.total_seconds())
        self.check()

    def ask(self, read: Callable[[Transaction], T]) -> T:
        """A read of this run: an outage is waited out, the end of the worker unwinds it."""
        try:
            return self.shop.store.consult(read, stop=self.shop.lifeline.is_cut)
        except Unavailable:
            self.check()
            raise

    def put_back(self) -> None:
        """Let whichever worker is free go on with the deploy, if it still is this run's."""
        self.logbook.flush()
        self.shop.store.repeat(self._put_back, stop=self.shop.lifeline.lost.is_set)

    def _put_back(self, tx: Transaction) -> None:
        row = deploys.lock(tx, self.deploy.id)
        if row is not None and is_current(row, self.deploy):
            self.shop.dispatcher.hand_back(tx, row)

    def now(self) -> datetime:
        """The database's clock."""
        return self.ask(lambda tx: tx.now())

    def row(self) -> Deploy | None:
        """The deploy as it stands now."""
        return self.ask(lambda tx: deploys.read(tx, self.deploy.id))

    def steps(self) -> dict[str, StepRow]:
        """The recorded steps of this pass; under its epoch nobody but this run changes them."""
        with self._guard:
            if self._known is None:
                rows = self.ask(self._read_steps)
                self._known = {row.name: row for row in rows}
            return dict(self._known)

    def _read_steps(self, tx: Transaction) -> list[StepRow]:
        return work.read_steps(tx, self.deploy.id, pass_number=self.deploy.pass_number)

    def know(self, rows: Sequence[StepRow]) -> None:
        """Keep the steps of the pass as a transaction of this run has just left them, if it has."""
        with self._guard:
            self._known = {row.name: row for row in rows} or None

    def learn(self, row: StepRow) -> None:
        """Keep a step as this run has just left it."""
        with self._guard:
            if self._known is not None:
                self._known[row.name] = row

    def forget(self) -> None:
        """Read the steps anew when they are next asked for."""
        with self._guard:
            self._known = None

    def write(self, change: Callable[[Transaction], T], *, stop: Callable[[], bool] = never) -> T:
        """`Store.repeat` for what changes steps."""
        try:
            return self.shop.store.repeat(change, stop=stop)
        finally:
            self.forget()


def wake(tx: Transaction, run: Run, parked: Parked) -> None:
    """Let go of a deploy that waits: its slot stays, a wake row goes on with it."""
    row = deploys.lock(tx, run.deploy.id)
    if row is None or row.epoch != run.deploy.epoch or not row.is_live:
        return
    deploys.update(tx, row.id, executor=None, incarnation=None)
    # A cancel that came just now finds nobody to tell: it is looked at without the wait.
    at = tx.now() if row.cancel_requested_at is not None else parked.at
    records.wake(tx, row.id, at, parked.reason)
