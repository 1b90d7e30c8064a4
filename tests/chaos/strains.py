"""Strains: what a slow or confused machine may do to a process, at a place where it matters.

The product holds under each. They widen a gap that a mutation opens, so that faults find it.
"""

import importlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Patch = tuple[Any, str, Any]
# Shorter than a lease, longer than the pause before the next attempt.
_SWEEP = 2.5
_ABSENT, _CYCLE = 5.0, 11.0
# More than the margin of a lease, less than a lease.
_DAWDLE = 2.8


def _module(name: str) -> Any:
    return importlib.import_module(f"manent_server.{name}")


def slow_sweep() -> Iterator[Patch]:
    """What a guard that died alone has left is killed late."""
    zygote = _module("plugins.zygote").Zygote
    sweep = zygote._sweep

    def later(self: Any) -> None:
        since = vars(self).setdefault("_strained", {})
        young = {}
        for pid in list(self._sweeps):
            if time.monotonic() - since.setdefault(pid, time.monotonic()) < _SWEEP:
                young[pid] = self._sweeps.pop(pid)
        sweep(self)
        self._sweeps.update(young)

    yield zygote, "_sweep", later


def absent_minded() -> Iterator[Patch]:
    """Now and then a worker forgets to name what it runs, and to look whether that is its own."""
    control = _module("engine.control")
    running, tell = control.Watch.running, control.Watch._tell

    def is_absent() -> bool:
        return time.monotonic() % _CYCLE < _ABSENT

    yield control.Watch, "running", lambda self: [] if is_absent() else running(self)
    yield control.Watch, "_tell", lambda self, *told: None if is_absent() else tell(self, *told)


def slow_beat() -> Iterator[Patch]:
    """A heartbeat that the database has had is long about to be answered."""
    heartbeats = _module("store.heartbeats")
    beat = heartbeats.beat

    def dawdle(tx: Any, said: Any) -> Any:
        answer = beat(tx, said)
        time.sleep(_DAWDLE)
        return answer

    yield heartbeats, "beat", dawdle


STRAINS: dict[str, Callable[[], Iterator[Patch]]] = {
    strain.__name__: strain for strain in (slow_sweep, absent_minded, slow_beat)
}


def apply(name: str) -> None:
    """Strain this process for good, and the zygote it starts with a clean environment."""
    for where, attribute, value in STRAINS[name]():
        setattr(where, attribute, value)
    nursery, launch = _module("plugins.nursery"), _module("plugins.launch")
    home, bare = nursery._home, launch.bare_environment
    site = str(Path(__file__).with_name("site"))
    nursery._home = lambda: os.pathsep.join([site, home()])
    launch.bare_environment = lambda: {**bare(), "CHAOS_STRAIN": name}
