"""A runner without processes: hooks are values, held and released by the test.

It has the interface of `plugins.runner.Runner` and keeps its promises: a place for every call,
one end for every attempt, its lock file held while it runs, `cancel` and `kill` that end what
runs and ignore what does not.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from manent_server.plugins import lockfile
from manent_server.plugins.events import Event
from manent_server.plugins.runner import HookCall, HookEnd

GOOD = HookEnd(result="succeeded")
BAD = HookEnd(result="failed", error={"code": "no", "message": "no"}, retryable=False)
AGAIN = HookEnd(result="failed", error={"code": "busy", "message": "busy"})
LIMIT = 10.0

Hear = Callable[[Sequence[Event]], None]


class Crashed(BaseException):
    """The worker's process is gone: whoever waited for the hook hears nothing."""


@dataclass
class Ran:
    """One run of a hook."""

    name: str
    context: dict[str, Any]
    began: float = field(default_factory=time.monotonic)
    ended: float | None = None
    result: str | None = None

    def overlaps(self, other: "Ran") -> bool:
        """Whether both ran at one moment."""
        mine, its = self.ended or time.monotonic(), other.ended or time.monotonic()
        return self.began < its and other.began < mine


@dataclass
class _Running:
    ran: Ran
    told: HookEnd | None = None
    is_released: bool = False


class FakeRunner:
    """Every hook succeeds unless `ends` has something else for it; `held` ones wait."""

    def __init__(self, *, processes: int = 8) -> None:
        self.ends: dict[str, list[HookEnd]] = {}
        self.says: dict[str, list[Event]] = {}
        self.held: set[str] = set()
        self.ran: list[Ran] = []
        self.told: list[tuple[str, str]] = []
        self._places = threading.Semaphore(processes)
        self._running: dict[str, _Running] = {}
        self._changed = threading.Condition()
        self._is_crashed = False

    def start(self) -> None:
        """Nothing is to be started."""

    def close(self) -> None:
        """Kill what runs."""
        for attempt in self.running():
            self.kill(attempt)

    @contextmanager
    def place(self, may_wait: Callable[[], bool] = lambda: True) -> Iterator[bool]:
        """Wait for a place and keep it."""
        while not self._places.acquire(timeout=0.1):
            if not may_wait():
                yield False
                return
        try:
            yield True
        finally:
            self._places.release()

    def call(self, call: HookCall, *, on_events: Hear) -> HookEnd:
        """Run a hook to its end."""
        name = f"{call.hook}:{call.context['target']}"
        running = _Running(Ran(name, dict(call.context)))
        with self._changed:
            self.ran.append(running.ran)
            self._running[call.attempt_id] = running
            self._changed.notify_all()
        lock = lockfile.take(str(call.lock_file))
        try:
            if name in self.says:
                on_events(self.says[name])
            end = self._wait(name, running)
            running.ran.result = end.result
            return end
        finally:
            os.close(lock)
            with self._changed:
                running.ran.ended = time.monotonic()
                del self._running[call.attempt_id]
                self._changed.notify_all()

    def _wait(self, name: str, running: _Running) -> HookEnd:
        def is_over() -> bool:
            is_free = name not in self.held or running.is_released
            return self._is_crashed or running.told is not None or is_free

        with self._changed:
            if not self._changed.wait_for(is_over, LIMIT):
                raise AssertionError(f"{name} was held for too long")
            if self._is_crashed:
                raise Crashed
            left = self.ends.get(name, [])
            return running.told or (left.pop(0) if left else GOOD)

    def cancel(self, attempt_id: str, *, reason: str, grace: timedelta) -> None:
        """End a hook for a reason."""
        error = {"code": reason, "message": f"{reason} within {grace}"}
        self._tell(attempt_id, HookEnd(result=reason, error=error))

    def kill(self, attempt_id: str) -> None:
        """End a hook at once."""
        self._tell(attempt_id, HookEnd(result="interrupted"))

    def extend(self, attempt_id: str, lease_until: float | None) -> None:
        """Leases do not end here."""

    def running(self) -> frozenset[str]:
        """The attempts that run."""
        with self._changed:
            return frozenset(self._running)

    def _tell(self, attempt_id: str, end: HookEnd) -> None:
        with self._changed:
            running = self._running.get(attempt_id)
            if running is not None and running.told is None:
                running.told = end
                self.told.append((running.ran.name, end.result))
                self._changed.notify_all()

    def release(self, name: str) -> None:
        """Let a held hook, and those of its name that follow, go on."""
        with self._changed:
            self.held.discard(name)
            self._changed.notify_all()

    def crash(self) -> None:
        """The process of the worker dies with everything in it."""
        with self._changed:
            self._is_crashed = True
            self._changed.notify_all()

    def await_running(self, *names: str) -> None:
        """Wait until all of these run at once."""

        def at_work() -> bool:
            return set(names) <= {running.ran.name for running in self._running.values()}

        with self._changed:
            if not self._changed.wait_for(at_work, LIMIT):
                raise AssertionError(f"{names} do not run together; ran: {self.names()}")

    def names(self) -> list[str]:
        """What ran, in the order in which it began."""
        return [ran.name for ran in self.ran]
