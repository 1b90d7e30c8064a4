"""One run: a dispatch that passed its prelude, on this worker."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from manent_server.domain.deploy import Kind
from manent_server.domain.order import Order
from manent_server.domain.plan import Plan
from manent_server.engine.control import Control
from manent_server.engine.logbook import Logbook
from manent_server.engine.shop import Shop, Unwound
from manent_server.store import work
from manent_server.store.deploys import Deploy
from manent_server.store.work import StepRow

LONG_WAIT = timedelta(minutes=1)


class Parked(BaseException):
    """A wait of more than a minute: the dispatch ends, the slot stays, a wake row goes on."""

    def __init__(self, at: datetime, reason: str) -> None:
        super().__init__(reason)
        self.at = at
        self.reason = reason


@dataclass
class Run:
    """What the rooms of a run share; `prepared` is filled by the first step."""

    shop: Shop
    deploy: Deploy
    order: Order
    plan: Plan
    control: Control
    logbook: Logbook
    prepared: dict[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> Kind:
        """What was asked for."""
        return Kind(self.deploy.kind)

    @property
    def folder(self) -> Path:
        """Where this run keeps its working folders and lock files."""
        return self.shop.workdir / "deploys" / self.deploy.id

    def check(self) -> None:
        """Unwind if the worker is ending or the deploy is no longer this run's."""
        if self.control.is_disowned or self.shop.lifeline.is_cut():
            raise Unwound(self.deploy.id)

    def pause(self, until: timedelta) -> None:
        """Wait, but not past a switch of the control or the end of the worker."""
        with self.control.changed:
            self.control.changed.wait(until.total_seconds())
        self.check()

    def steps(self) -> dict[str, StepRow]:
        """The recorded steps of this pass."""
        with self.shop.store.read() as tx:
            rows = work.read_steps(tx, self.deploy.id, pass_number=self.deploy.pass_number)
        return {row.name: row for row in rows}
