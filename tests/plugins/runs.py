"""Hooks run the way a worker runs them: through the real runner, guard and hook process."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

from manent_server.plugins.events import Event, Heartbeat, LogLine
from manent_server.plugins.runner import HookCall, HookEnd, Runner

_numbers = count(1)


@dataclass
class Ran:
    """A hook that ended, and what it said."""

    end: HookEnd
    events: list[Event] = field(default_factory=list)

    def lines(self, stream: str) -> list[str]:
        return [event.text for event in self.events if _is_of(event, stream)]

    @property
    def checkpoints(self) -> list[Any]:
        return [event.checkpoint for event in self.events if isinstance(event, Heartbeat)]


def _is_of(event: Event, stream: str) -> bool:
    return isinstance(event, LogLine) and event.stream == stream


class Hooks:
    """A runner, and a way to call hooks with it in one line."""

    def __init__(self, runner: Runner, folder: Path) -> None:
        self.runner = runner
        self._folder = folder

    def call(self, plugin: str, hook: str, options: dict[str, Any], **values: Any) -> Ran:
        call = self.prepare(plugin, hook, options, **values)
        events: list[Event] = []
        with self.runner.place():
            end = self.runner.call(call, on_event=events.append)
        return Ran(end, events)

    def prepare(self, plugin: str, hook: str, options: dict[str, Any], **values: Any) -> HookCall:
        number = next(_numbers)
        workdir = self._folder / "hooks" / str(number)
        given: dict[str, Any] = {
            "deploy": "d-0123456789",
            "kind": "deploy",
            "application": "shop",
            "environment": "staging",
            "target": "web-1",
            "options": options,
            "version": "v2",
            "from_version": "v1",
            "artifact": None,
            "configuration": {},
            "secrets": {},
            "previous": None,
            "outputs": {},
            "idempotency_key": "d-0123456789/deploy:web-1/1",
            "attempt": 1,
            "epoch": 7,
            "checkpoint": None,
            "completed": [],
            "workdir": str(workdir),
        }
        timeout = values.pop("timeout", timedelta(seconds=30))
        return HookCall(
            # Unique on the machine: processes are found, and killed, by the id of their attempt.
            attempt_id=f"attempt-{uuid4().hex}",
            plugin=plugin,
            hook=hook,
            context={**given, **values},
            timeout=timeout,
            kill_grace=timedelta(seconds=5),
            lease_until=None,
            lock_file=self._folder / "attempts" / str(number),
        )


@contextmanager
def hooks(folder: Path, external: dict[str, Sequence[str]] | None = None) -> Iterator[Hooks]:
    """A started runner with its state in `folder`."""
    runner = Runner(
        external=external or {},
        state_dir=folder / "state",
        warm=1,
        processes=4,
        line_limit=16 * 1024,
    )
    runner.start()
    try:
        yield Hooks(runner, folder)
    finally:
        runner.close()
