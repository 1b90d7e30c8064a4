"""The plan: the steps of one pass, from the order alone."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from manent_server.domain.deploy import Kind
from manent_server.domain.order import Order

PREPARE = "prepare"


@dataclass(frozen=True)
class Step:
    """The smallest recorded unit of a pass.

    `name` is unique in the pass; `hook` is the plugin's hook, or `prepare` or `soak`, which
    the worker does itself; `wave` counts from 1.
    """

    name: str
    position: int
    hook: str
    target: str | None = None
    wave: int | None = None


@dataclass(frozen=True)
class Visit:
    """What is done to one target of a wave, in order."""

    target: str
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Wave:
    """Targets visited side by side, and the soak after them, if any."""

    number: int
    visits: tuple[Visit, ...]
    soak: Step | None


@dataclass(frozen=True)
class Plan:
    """Prepare, then wave by wave."""

    prepare: Step
    waves: tuple[Wave, ...]

    def steps(self) -> tuple[Step, ...]:
        """Every step in order of position."""
        found = [self.prepare]
        for wave in self.waves:
            found += [step for visit in wave.visits for step in visit.steps]
            found += [wave.soak] if wave.soak else []
        return tuple(found)


def acting_hook(order: Order, kind: Kind) -> str:
    """The hook that brings the version to a target: `rollback` where the kind and plugin say so."""
    wants_rollback = kind == Kind.ROLLBACK and "rollback" in order.hooks
    return "rollback" if wants_rollback else "deploy"


def build(order: Order, kind: Kind) -> Plan:
    """The steps of a pass."""
    position = 0
    waves = []
    for number, targets in enumerate(order.waves, start=1):
        visits = []
        for target in targets:
            visit = _visit(order, kind, target, number, position)
            position += len(visit.steps)
            visits.append(visit)
        soak = None
        if order.limits.soak and number < len(order.waves):
            position += 1
            soak = Step(f"soak:{number}", position, "soak", wave=number)
        waves.append(Wave(number, tuple(visits), soak))
    return Plan(Step(PREPARE, 0, PREPARE), tuple(waves))


def _visit(order: Order, kind: Kind, target: str, wave: int, position: int) -> Visit:
    acting = "rollback" if kind == Kind.ROLLBACK else "deploy"
    names = [(acting, acting_hook(order, kind))]
    if "verify" in order.hooks:
        names.append(("verify", "verify"))
    steps = (
        Step(f"{name}:{target}", position + number, hook, target, wave)
        for number, (name, hook) in enumerate(names, start=1)
    )
    return Visit(target, tuple(steps))


def undo(order: Order, touched: Sequence[str], *, after: int) -> tuple[Step, ...]:
    """Rollback steps for exactly the touched targets, the last one touched first."""
    hook = acting_hook(order, Kind.ROLLBACK)
    return tuple(
        Step(f"rollback:{target}", after + number, hook, target)
        for number, target in enumerate(reversed(touched), start=1)
    )


def in_order(order: Order, targets: Iterable[str]) -> tuple[str, ...]:
    """The given targets in the order of the waves."""
    wanted = set(targets)
    return tuple(t for wave in order.waves for t in wave if t in wanted)
