"""Running hooks: each under a guard of its own, at most so many at once."""

import contextlib
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from manent_server.domain.secret import Secret
from manent_server.plugins import launch, protocol
from manent_server.plugins.call import GuardCall
from manent_server.plugins.events import Event, events_of, one_by_one
from manent_server.plugins.leash import Leash
from manent_server.plugins.nursery import NoGuard, Nursery

_PAUSES: Final = (0.0, 0.01, 0.1, 0.5, 1.0)
"""Seconds before a call goes to another guard because one was gone before it could begin."""
_CLOSE_SECONDS: Final = 10.0
_LOOK_SECONDS: Final = 0.5
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class HookCall:
    """One attempt to run a hook.

    Attributes:
        attempt_id: Its id, unique for ever.
        plugin: Name of the plugin.
        hook: Name of the hook.
        context: All fields of `sdk.Context` as JSON, its secrets as such.
        timeout: How long the hook may take.
        kill_grace: How long it may take to end after SIGTERM.
        lease_until: CLOCK_BOOTTIME second at which the lease ends; None for no end.
        lock_file: The attempt's lock file; see `plugins.lockfile`.
        external: Argument list of an external plugin not known to the runner.
    """

    attempt_id: str
    plugin: str
    hook: str
    context: Mapping[str, Any] = field(repr=False)
    timeout: timedelta
    kill_grace: timedelta
    lease_until: float | None
    lock_file: Path
    external: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class HookEnd:
    """How an attempt ended.

    Attributes:
        result: succeeded, failed, timed_out, cancelled, not_started or interrupted.
        outputs: What the hook answered.
        error: `{code, message}`; None when it succeeded.
        retry_after: How long the hook asked to wait.
        retryable: Whether another attempt could help.
        is_dead: Whether it is known that nothing of the attempt can act any more.
    """

    result: str
    outputs: Mapping[str, Any] | None = None
    error: Mapping[str, Any] | None = None
    retry_after: timedelta | None = None
    retryable: bool = True
    is_dead: bool = True


class Runner:
    """The worker's way to run hooks.

    Args:
        external: Argument lists of external plugins by name.
        state_dir: Where hooks without a `workdir` run.
        warm: How many guards wait, forked already.
        processes: How many hooks may run at once.
        line_limit: Bytes of a line of output that are kept.
        python: The interpreter of the zygote.
    """

    def __init__(  # noqa: PLR0913 - the settings of a worker, by keyword
        self,
        *,
        external: Mapping[str, Sequence[str]],
        state_dir: Path,
        warm: int,
        processes: int,
        line_limit: int,
        python: str = sys.executable,
    ) -> None:
        self._external = {name: _absolute(argv) for name, argv in external.items()}
        self._state_dir = state_dir.absolute()
        self._line_limit = line_limit
        self._places = threading.Semaphore(processes)
        self._nursery = Nursery(
            python, warm=warm, environment=launch.bare_environment(), on_death=_report_death
        )
        self._lock = threading.Lock()
        self._leashes: dict[str, Leash] = {}
        self._told: dict[str, bytes] = {}
        self._is_idle = threading.Condition(self._lock)

    @property
    def zygote(self) -> int | None:
        """Process id of the zygote."""
        return self._nursery.pid

    def start(self) -> None:
        """Start the zygote and the warm guards.

        Raises:
            NoGuard: They could not be started.
        """
        self._state_dir.mkdir(parents=True, exist_ok=True)
        self._nursery.start()

    @contextlib.contextmanager
    def place(self, may_wait: Callable[[], bool] = lambda: True) -> Iterator[bool]:
        """Wait for one of the places for running hooks, and keep it.

        Args:
            may_wait: Asked twice a second; once it says no the wait ends without a place.

        Yields:
            Whether there is a place.
        """
        while not self._places.acquire(timeout=_LOOK_SECONDS):
            if not may_wait():
                yield False
                return
        try:
            yield True
        finally:
            self._places.release()

    def call(
        self,
        call: HookCall,
        *,
        on_event: Callable[[Event], None] | None = None,
        on_events: Callable[[Sequence[Event]], None] | None = None,
    ) -> HookEnd:
        """Run a hook to its end, in the calling thread, which needs a place.

        Args:
            call: What to run.
            on_event: Told each line and heartbeat.
            on_events: Told them in blocks of lines, which is faster; either of the two.
        """
        hear = on_events or _one_by_one(on_event)
        try:
            for pause in _PAUSES:
                end = self._run(self._nursery.take(), call, hear)
                if end is not None:
                    return end
                time.sleep(pause)
        except NoGuard as error:
            return _not_started(str(error))
        finally:
            self._told.pop(call.attempt_id, None)
        return _not_started("guard processes end before they begin")

    def cancel(self, attempt_id: str, *, reason: str, grace: timedelta) -> None:
        """Ask a hook to end, and kill it when the grace is over.

        Args:
            attempt_id: The attempt; one that does not run is no error.
            reason: What it ends as: cancelled, timed_out or interrupted.
            grace: Time between SIGTERM and SIGKILL.
        """
        message = {"type": "cancel", "reason": reason, "grace": grace.total_seconds()}
        self._tell(attempt_id, message)

    def kill(self, attempt_id: str) -> None:
        """Kill a hook with all its processes now; it ends as interrupted."""
        self._tell(attempt_id, {"type": "kill"})

    def extend(self, attempt_id: str, lease_until: float | None) -> None:
        """Move the lease of a running hook."""
        with self._lock:
            leash = self._leashes.get(attempt_id)
        if leash is not None and not leash.is_behind:
            leash.send(protocol.encode({"type": "lease", "until": lease_until}))

    def running(self) -> frozenset[str]:
        """The attempts that have a living guard."""
        with self._lock:
            return frozenset(self._leashes)

    def close(self) -> None:
        """Kill what runs, and end the zygote."""
        for attempt_id in self.running():
            self.kill(attempt_id)
        with self._is_idle:
            self._is_idle.wait_for(lambda: not self._leashes, _CLOSE_SECONDS)
        self._nursery.close()

    def _run(
        self, leash: Leash, call: HookCall, hear: Callable[[Sequence[Event]], None]
    ) -> HookEnd | None:
        """Give the call to this guard; None when the guard was gone before it could begin."""
        lines = self._order(call).line(), _hook_line(call)
        with self._lock:
            # The order goes first: whoever finds the attempt may tell its guard things at once.
            leash.send(*lines, self._told.get(call.attempt_id, b""))
            self._leashes[call.attempt_id] = leash
        try:
            return _follow(leash, hear)
        finally:
            leash.close()
            with self._is_idle:
                del self._leashes[call.attempt_id]
                self._is_idle.notify_all()

    def _order(self, call: HookCall) -> GuardCall:
        external = call.external or self._external.get(call.plugin)
        workdir = call.context.get("workdir")
        return GuardCall(
            attempt=call.attempt_id,
            plugin=call.plugin,
            hook=call.hook,
            external=_absolute(external) if external else None,
            lease_until=call.lease_until,
            timeout=call.timeout.total_seconds(),
            grace=call.kill_grace.total_seconds(),
            lock_file=str(call.lock_file.parent.resolve() / call.lock_file.name),
            workdir=str(Path(workdir).absolute() if workdir else self._state_dir),
            line_limit=self._line_limit,
        )

    def _tell(self, attempt_id: str, message: dict[str, Any]) -> None:
        line = protocol.encode(message)
        with self._lock:
            leash = self._leashes.get(attempt_id)
            if leash is None:
                return
            # Kept, should this guard die before it can begin and the call go to another.
            self._told[attempt_id] = line
        leash.send(line)


def _follow(leash: Leash, hear: Callable[[Sequence[Event]], None]) -> HookEnd | None:
    has_begun, is_dead = False, False
    end: dict[str, Any] | None = None
    for message in leash.messages():
        kind = message["type"]
        if kind == "started":
            has_begun = True
        elif kind == "end":
            end = message
        elif kind == "exit":
            is_dead = True
            break
        elif batch := events_of(message):
            hear(batch)
    if end is not None:
        return _hook_end(end, is_dead=is_dead)
    return _guard_lost() if has_begun else None


def _hook_end(end: Mapping[str, Any], *, is_dead: bool) -> HookEnd:
    after = end.get("retry_after")
    return HookEnd(
        result=end["result"],
        outputs=end.get("outputs"),
        error=end.get("error"),
        retry_after=None if after is None else timedelta(seconds=after),
        retryable=end["retryable"],
        is_dead=is_dead,
    )


def _guard_lost() -> HookEnd:
    error = {
        "code": "guard_lost",
        "message": "the guard of the hook ended alone; what the hook does is not known",
    }
    return HookEnd(result="interrupted", error=error, is_dead=False)


def _not_started(message: str) -> HookEnd:
    return HookEnd(result="not_started", error={"code": "guard_failed", "message": message})


def _hook_line(call: HookCall) -> bytes:
    message = {
        "type": "call",
        "protocol": protocol.VERSION,
        "hook": call.hook,
        "attempt": call.attempt_id,
        "lease_until": call.lease_until,
        "context": dict(call.context),
    }
    return protocol.encode(message, default=_revealed)


def _revealed(value: object) -> str:
    """The one place where secrets leave this process, for the hook they are meant for."""
    if isinstance(value, Secret):
        return value.reveal()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _one_by_one(on_event: Callable[[Event], None] | None) -> Callable[[Sequence[Event]], None]:
    def hear(events: Sequence[Event]) -> None:
        for event in one_by_one(events):
            if on_event is not None:
                on_event(event)

    return hear


def _absolute(argv: Sequence[str]) -> list[str]:
    """The argument list with a program that is found from any directory."""
    program = str(Path(argv[0]).absolute()) if "/" in argv[0] else argv[0]
    return [program, *argv[1:]]


def _report_death(code: int) -> None:
    _log.error("the zygote ended with %s and is started anew; running hooks go on", code)
