"""One hook through a warm guard, without a server around it."""

import subprocess
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from pathlib import Path
from statistics import median

from bench.ratios import Goal, interleave
from bench.report import Figure, alone
from bench.sides import PLUGIN
from bench.size import Size
from manent_server.plugins.runner import HookCall, Runner

_GOAL = Goal(5.0)
_PAUSE = 0.02


class Hooks:
    """A runner with warm guards and the no-op plugin."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._marks = folder / "marks"
        self._numbers = count(1)
        if str(PLUGIN) not in sys.path:
            sys.path.append(str(PLUGIN))
        self._runner = Runner(
            external={}, state_dir=folder / "state", warm=2, processes=16, line_limit=16384
        )
        self._runner.start()

    def call(self) -> float:
        """Seconds from the call to its result."""
        call = self._call(f"attempt-{next(self._numbers)}")
        began = time.perf_counter()
        with self._runner.place():
            end = self._runner.call(call)
        took = time.perf_counter() - began
        if end.result != "succeeded":
            raise RuntimeError(f"the no-op hook {end.result}: {end.error}")
        return took

    def _call(self, attempt: str) -> HookCall:
        context = {
            "deploy": attempt, "kind": "deploy", "application": "noop", "environment": attempt,
            "target": "a", "options": {"marks": str(self._marks)}, "version": "1",
            "from_version": None, "idempotency_key": attempt, "attempt": 1, "epoch": 1,
            "workdir": str(self._folder / attempt),
        }  # fmt: skip
        (self._folder / attempt).mkdir()
        return HookCall(
            attempt_id=attempt, plugin="noop", hook="deploy", context=context,
            timeout=timedelta(minutes=1), kill_grace=timedelta(seconds=1), lease_until=None,
            lock_file=self._folder / "locks" / attempt,
        )  # fmt: skip

    def close(self) -> None:
        """End the guards."""
        self._runner.close()


def through_a_guard(folder: Path, size: Size) -> list[Figure]:
    """Calls with a pause between them, beside starting `/bin/true`."""
    hooks = Hooks(folder)
    (folder / "locks").mkdir()
    try:
        hooks.call()
        rounds = interleave(
            size.pairs,
            lambda: _slice(hooks.call, size.hooks),
            lambda: _slice(_bare_process, size.hooks),
        )
    finally:
        hooks.close()
    sides = [[each[side] for each in rounds] for side in (0, 1)]
    return [alone("hook through a warm guard, p50 (beside /bin/true)", "ms", sides, _GOAL)]


def _slice(once: Callable[[], float], times: int) -> float:
    taken = []
    for _ in range(times):
        time.sleep(_PAUSE)
        taken.append(once() * 1000)
    return median(taken)


def _bare_process() -> float:
    began = time.perf_counter()
    subprocess.run(["/bin/true"], check=True)
    return time.perf_counter() - began
