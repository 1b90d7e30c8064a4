"""A real runner with the probe plugin, and a worker of its own process that can be killed."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from manent_server.plugins import processes
from manent_server.plugins.events import Event, Heartbeat, LogLine
from manent_server.plugins.runner import HookCall, HookEnd, Runner

PROBE = Path(__file__).parent / "probe"


def context(**values: Any) -> dict[str, Any]:
    return {
        "deploy": "d1",
        "kind": "deploy",
        "application": "shop",
        "environment": "staging",
        "target": "host",
        "options": {},
        "version": "v1",
        "from_version": None,
        "idempotency_key": "d1/deploy/1",
        "attempt": 1,
        "epoch": 7,
        **values,
    }


def until(condition: Callable[[], Any], *, seconds: float = 30) -> Any:
    """Wait for something to be true; fail when it never is."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, "it never came to pass"
        time.sleep(0.005)
    return value


def alive(pids: list[int]) -> list[int]:
    """Those that can still act."""
    living = processes.snapshot()
    return [pid for pid in pids if pid in living]


def pids_in(path: Path) -> list[int]:
    return [int(word) for word in path.read_text().split()] if path.exists() else []


class Running:
    """A hook that runs in a thread of the test."""

    def __init__(
        self, runner: Runner, call: HookCall, on_event: Callable[[Event], None] | None = None
    ) -> None:
        self.events: list[Event] = []
        self._hear = on_event or self.events.append
        self.id = call.attempt_id
        self._runner = runner
        self._call = call
        self._end: HookEnd | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    @property
    def lines(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, LogLine)]

    @property
    def heartbeats(self) -> list[Heartbeat]:
        return [event for event in self.events if isinstance(event, Heartbeat)]

    def says(self, text: str) -> None:
        """Wait until it said a line."""
        until(lambda: text in self.lines)

    def end(self, seconds: float = 60) -> HookEnd:
        self._thread.join(seconds)
        assert self._end is not None, f"it never ended; it said {self.lines[-5:]}"
        return self._end

    def _run(self) -> None:
        with self._runner.place():
            self._end = self._runner.call(self._call, on_event=self._hear)


class Bench:
    """Starts hooks of the probe plugin."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.runner = Runner(
            external=settings.pop("external", {}),
            state_dir=folder / "state",
            warm=settings.pop("warm", 1),
            processes=settings.pop("processes", 8),
            line_limit=settings.pop("line_limit", 16384),
            **settings,
        )
        self.runner.start()

    def lock_file(self, attempt: str) -> Path:
        return self.folder / "locks" / attempt

    def start(self, do: str = "nothing", *, hook: str = "deploy", **more: Any) -> Running:
        # Unique on the machine: processes are found, and killed, by the id of their attempt.
        attempt = more.pop("attempt", None) or f"attempt-{uuid4().hex}"
        settings = {
            "plugin": "probe",
            "timeout": timedelta(seconds=30),
            "kill_grace": timedelta(seconds=5),
            "lease_until": None,
            "external": None,
        }
        call_settings = settings | {key: more.pop(key) for key in settings if key in more}
        values = more.pop("context", {})
        on_event = more.pop("on_event", None)
        call = HookCall(
            attempt_id=attempt,
            hook=hook,
            context=context(
                options={"do": do, **more}, workdir=str(self.folder / attempt), **values
            ),
            lock_file=self.lock_file(attempt),
            **call_settings,
        )
        return Running(self.runner, call, on_event)

    def run(self, do: str = "nothing", **more: Any) -> HookEnd:
        return self.start(do, **more).end()


class Worker:
    """A worker in a process of its own, told what to run on its stdin."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.messages: list[dict[str, Any]] = []
        path = os.pathsep.join([*(entry for entry in sys.path if entry), str(PROBE)])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "manent_server.plugins.trial", str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},  # noqa: TID251 - a process of the test
        )
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.zygote: int = self.hears(lambda message: message["type"] == "ready")["zygote"]

    def start(
        self, attempt: str, do: str, *, lease_until: float | None = None, **options: Any
    ) -> None:
        order = {
            "attempt": attempt,
            "plugin": "probe",
            "hook": "deploy",
            "lease_until": lease_until,
            "context": context(
                options={"do": do, **options}, workdir=str(self.folder / f"{attempt}.d")
            ),
        }
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()

    def hears(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        found: dict[str, Any] = until(lambda: next(filter(wanted, self.messages), None), seconds=20)
        return found

    def says(self, text: str) -> None:
        self.hears(lambda message: message.get("text") == text)

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(20)
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join()
            self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.messages.append(json.loads(line))
