"""What a hook says while it runs: lines to the log, heartbeats to its attempt."""

from collections.abc import Sequence
from typing import Any

from manent_server.domain.plan import Step
from manent_server.engine.handout import Errand
from manent_server.engine.run import Run
from manent_server.plugins.events import Event, Heartbeat
from manent_server.store import deploys, work
from manent_server.store.logs import Origin
from manent_server.store.transaction import Transaction


class Listener:
    """Takes what the hook of one attempt says."""

    def __init__(self, run: Run, step: Step, errand: Errand, attempt: int) -> None:
        self._run = run
        self._step = step
        self._errand = errand
        self._attempt = attempt

    def hear(self, events: Sequence[Event]) -> None:
        """What it said since the last time."""
        for event in events:
            if isinstance(event, Heartbeat):
                self._beat(event)
            else:
                origin = self._origin(event.stream, event.level)
                self._run.logbook.write(origin, event.text)

    def _origin(self, stream: str, level: str) -> Origin:
        executor = self._run.shop.identity.executor
        return Origin(self._step.name, self._attempt, stream, level, executor)

    def _beat(self, event: Heartbeat) -> None:
        redact = self._run.shop.redactor.redact_value
        values: dict[str, Any] = {}
        if event.checkpoint is not None:
            values["checkpoint"] = redact(event.checkpoint)
        if event.progress is not None:
            values["progress"] = redact(event.progress)
        if not values:
            return
        deploy = self._run.deploy

        def record(tx: Transaction) -> None:
            row = deploys.read(tx, deploy.id)
            if row is None or row.epoch != deploy.epoch:
                return
            is_taken = work.update_attempt(tx, self._errand.id, **values)
            # An observation leaves what the hook it asks about had reached as it is.
            if is_taken and "checkpoint" in values and not self._errand.is_observing:
                work.update_step(
                    tx,
                    deploy.id,
                    deploy.pass_number,
                    self._step.name,
                    checkpoint=values["checkpoint"],
                )

        self._run.shop.store.repeat(record, stop=self._run.shop.lifeline.is_cut)
