"""What a worker works with, and how its run may be brought to an end from outside."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from manent_server.engine.dispatch import Dispatcher
from manent_server.engine.identity import Identity
from manent_server.engine.leftover import Leftovers
from manent_server.observability.metrics import Metrics
from manent_server.observability.redaction import Redactor
from manent_server.observability.trace import Tracer
from manent_server.plugins.host import Host
from manent_server.plugins.protocol import boottime
from manent_server.plugins.runner import Runner
from manent_server.sources.artifacts import Artifacts
from manent_server.sources.secrets import Secrets
from manent_server.store.deploys import Deploy
from manent_server.store.transaction import Store


class Unwound(BaseException):
    """A dispatch ends here without an outcome; its deploy goes on elsewhere or later.

    Outside `Exception`, so that nothing between takes it for a failed hook and rolls back.
    """


class Outrun(Unwound):
    """What this run would have written is dropped: the deploy has a newer epoch."""


def too_late(row: Deploy | None, held: Deploy) -> Unwound:
    """What ends a run that may write no more: it was given back, or another has it by now."""
    is_others = row is not None and row.epoch != held.epoch
    return Outrun(held.id) if is_others else Unwound(held.id)


@dataclass
class Lifeline:
    """How far the end of this worker has come.

    `draining`: take nothing new. `cut`: running hooks were told to end, steps unwind.
    `lost`: the executor row is another's; write nothing more. `holds_until`: the CLOCK_BOOTTIME
    second at which the leases of its hooks end unless a heartbeat moves them; None for no end.
    """

    draining: threading.Event = field(default_factory=threading.Event)
    cut: threading.Event = field(default_factory=threading.Event)
    lost: threading.Event = field(default_factory=threading.Event)
    holds_until: float | None = None

    @property
    def is_fenced(self) -> bool:
        """Whether no heartbeat has been answered for so long that the leases have ended.

        The guards have killed the hooks then, and nothing new is begun before the next answer.
        """
        return self.holds_until is not None and boottime() >= self.holds_until

    def is_cut(self) -> bool:
        """Whether running dispatches must unwind now."""
        return self.cut.is_set() or self.lost.is_set()


@dataclass(frozen=True)
class Caps:
    """Limits of logs in bytes, and the grace of a cancelled hook."""

    line: int
    deploy: int
    tail: int
    kill_grace: timedelta


@dataclass(frozen=True)
class Shop:
    """The collaborators of every dispatch that this worker runs.

    `max_recoveries`: deaths of its worker after which a step ends its deploy. `lease`: how long its
    hooks may act without a heartbeat; None has no end. `leftovers`: attempts whose end is owed.
    """

    store: Store
    identity: Identity
    dispatcher: Dispatcher
    host: Host
    runner: Runner
    artifacts: Artifacts
    secrets: Secrets
    redactor: Redactor
    metrics: Metrics
    caps: Caps
    workdir: Path
    admit: Callable[[str], object]
    lifeline: Lifeline
    max_recoveries: int
    lease: timedelta | None = None
    tracer: Tracer = field(default_factory=Tracer)
    leftovers: Leftovers = field(default_factory=Leftovers)
