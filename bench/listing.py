"""Lists, inventory and board of a long history, beside those of a short one."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from bench import flood
from bench.flood import Flood
from bench.ratios import Goal, Pair, interleave, percentile
from bench.report import Figure, ratio
from bench.size import Size
from manent_server.domain.access import Area, Scope
from manent_server.domain.deploy import Outcome
from manent_server.store import tables
from manent_server.usecases import inspect
from manent_server.usecases.requests import DeployFilter
from tests.integration.core.running import Running
from tests.rig import core as cores
from tests.rig.core import Core
from tests.rig.postgres import Postgres

_FEW: Final = 1000
_GOAL: Final = Goal(1.5)
_ROUNDS: Final = 12
PLACE: Final = {"application": "app-7", "environment": "env-1"}
FILTERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "everything": {},
    "application": {"application": "app-7"},
    "application that never deployed": {"application": "shop"},
    "environment": {"environment": "env-1"},
    "place": PLACE,
    "state": {"states": ("ERROR",)},
    "live": {"states": ("DELAYED", "ENQUEUED", "PENDING")},
    "states": {"states": ("ERROR", "CANCELLED")},
    "rare outcome": {"outcome": "rollback_failed"},
    "version": {"version": "v7"},
    "version that never was": {"version": "v7.7"},
    "application and state": {"application": "app-7", "states": ("ERROR",)},
    "application and rare outcome": {"application": "app-7", "outcome": "rollback_failed"},
    "application and version": {"application": "app-7", "version": "v7"},
    "environment and state": {"environment": "env-1", "states": ("ERROR", "CANCELLED")},
    "environment and version": {"environment": "env-1", "version": "v7"},
    "place and state": {**PLACE, "states": ("ERROR",)},
    "place and live": {**PLACE, "states": ("DELAYED", "ENQUEUED", "PENDING")},
    "place and outcome": {**PLACE, "outcome": "failed"},
    "place and version": {**PLACE, "version": "v7"},
}
"""Each way to filter, alone and together."""
SIGHTS: Final[Mapping[str, Scope]] = {
    "one application": Scope((Area(("app-7",)),)),
    "applications that never deployed": Scope((Area(("shop-*",)),)),
    "a few applications": Scope((Area(("app-7?",)), Area(("app-1",), ("env-1",)))),
    "one environment": Scope((Area(environments=("env-1",)),)),
    "environments that never were used": Scope((Area(environments=("prod-*",)),)),
    "a place": Scope((Area(("app-7",), ("env-1",)),)),
    "all but some": Scope((Area(),), (Area(("app-*",), ("env-1",)), Area(("app-9",)))),
    "all but everything here": Scope((Area(),), (Area(("app-*",)),)),
}
"""What somebody may see who may not see everything."""


def of_a_long_history(folder: Path, settings: Mapping[str, str], size: Size) -> list[Figure]:
    """The slowest in a hundred of all reads, of a million deploys beside a thousand."""
    folder.mkdir()
    postgres = Postgres(settings=settings)
    long, short = Flood(size.listed), Flood(_FEW)
    try:
        with (
            laid(postgres, folder / "many", long) as many,
            laid(postgres, folder / "few", short) as few,
        ):
            return _figures(many, few, size)
    finally:
        postgres.close()


@contextmanager
def laid(postgres: Postgres, folder: Path, history: Flood) -> Iterator[Core]:
    """An installation with so long a history."""
    folder.mkdir()
    url = postgres.create_database()
    ground = cores.lay(url)
    try:
        core = cores.build(ground, cores.read_settings(folder))
        flood.pour(url, tables.build("postgresql"), ended(core), history)
        yield core
    finally:
        ground.close()


def ended(core: Core) -> str:
    """A deploy that ran."""
    running = Running(core)
    for step in ("deploy:web", "verify:web"):
        running.perform(step)
    running.close(Outcome.DEPLOYED)
    return str(running.deploy.id)


def _figures(many: Core, few: Core, size: Size) -> list[Figure]:
    rounds = interleave(size.pairs, lambda: _slowest(many), lambda: _slowest(few))
    name = f"list, inventory and board, p99, {size.listed} deploys beside {_FEW}"
    each = {which: round(_taken(many, which) / _taken(few, which), 2) for which in FILTERS}
    scoped = {which: round(_seen(many, which) / _seen(few, which), 2) for which in SIGHTS}
    return [ratio(name, "ms", [Pair(*pair) for pair in rounds], _GOAL, each=each, scoped=scoped)]


def _slowest(core: Core) -> float:
    taken = [_once(read) for _ in range(_ROUNDS) for read in _reads(core)]
    return percentile(taken, 0.99)


def _reads(core: Core) -> Iterator[Callable[[], object]]:
    for which in FILTERS:
        yield partial(_list, core, which)
    for which in SIGHTS:
        yield partial(_scoped, core, which)
    yield lambda: _further(core)
    yield lambda: inspect.inventory(core.desk)
    yield lambda: inspect.environment(core.desk, "env-1")


def _list(core: Core, which: str) -> dict[str, Any]:
    return inspect.deploys(core.desk, DeployFilter(**FILTERS[which]))


def _scoped(core: Core, which: str) -> dict[str, Any]:
    """Both what is listed and what is live there."""
    desk = replace(core.desk, sight=SIGHTS[which])
    inspect.inventory(desk)
    inspect.deploys(desk, DeployFilter(states=FILTERS["live"]["states"]))
    return inspect.deploys(desk, DeployFilter())


def _further(core: Core) -> dict[str, Any]:
    """The third page."""
    found: dict[str, Any] = {"next": None}
    for _ in range(3):
        found = inspect.deploys(core.desk, DeployFilter(before=found["next"]))
    return found


def _taken(core: Core, which: str) -> float:
    """The median of some, in milliseconds."""
    return percentile([_once(lambda: _list(core, which)) for _ in range(9)], 0.5)


def _seen(core: Core, which: str) -> float:
    """The same, of somebody who may not see everything."""
    return percentile([_once(lambda: _scoped(core, which)) for _ in range(9)], 0.5)


def _once(read: Callable[[], object]) -> float:
    began = time.perf_counter()
    read()
    return (time.perf_counter() - began) * 1000
