"""The long-running process of a release: started to outlive its hook, known again by its birth."""

import contextlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from manent_plugins.release.root import Root
from manent_server.sdk import HookFailure, PermanentFailure, start_service

_NAME = "service"
_LOG_LIMIT = 10 * 1024 * 1024
_PAUSE = 0.02
_KILL_SECONDS = 5.0
_DEAD = frozenset("ZXx")


@dataclass(frozen=True)
class Service:
    """The process that was last started in a root, if it still lives."""

    root: Root

    @property
    def log(self) -> Path:
        """What it prints, across its restarts."""
        return self.root.memory / "service.log"

    @property
    def is_alive(self) -> bool:
        """Whether the very process that was started still runs."""
        return self._pid() is not None

    def start(self, argv: Sequence[str], *, workdir: Path, environment: Mapping[str, str]) -> int:
        """Start it in a session of its own, and remember it; return its process id."""
        self._turn_log()
        try:
            pid = start_service(argv, workdir=workdir, environment=environment, log=self.log)
        except OSError as error:
            raise PermanentFailure(
                f"{argv[0]} cannot be started in {workdir}: {error.strerror}",
                code="service_not_started",
            ) from error
        self.root.remember(_NAME, {"pid": pid, "birth": _birth(pid), "argv": list(argv)})
        return pid

    def stop(self, *, timeout: timedelta) -> None:
        """End it with its process group: SIGTERM, and SIGKILL when `timeout` is over."""
        pid = self._pid()
        if pid is None:
            self.root.forget(_NAME)
            return
        group = os.getpgid(pid)
        if group == os.getpgrp():
            raise HookFailure(f"the service {pid} is in the hook's own process group")
        for number, seconds in (
            (signal.SIGTERM, timeout.total_seconds()),
            (signal.SIGKILL, _KILL_SECONDS),
        ):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, number)
            if _are_gone(group, seconds):
                self.root.forget(_NAME)
                return
        raise HookFailure(f"the service {pid} did not end, not even by SIGKILL")

    def last_words(self) -> str:
        """The last line it printed, for the sentence that says why it is not healthy."""
        with contextlib.suppress(OSError), self.log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 2000))
            lines = file.read().decode("utf-8", "replace").split("\n")
            return next((line.strip() for line in reversed(lines) if line.strip()), "")[:300]
        return ""

    def _pid(self) -> int | None:
        known: dict[str, Any] = self.root.recall(_NAME)
        pid = known.get("pid")
        if not isinstance(pid, int) or known.get("birth") is None:
            return None
        return pid if _birth(pid) == known["birth"] else None

    def _turn_log(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            if self.log.stat().st_size > _LOG_LIMIT:
                self.log.replace(self.log.with_suffix(".log.1"))


def _birth(pid: int) -> str | None:
    """Boot and start time of a living process: together with its pid they never come again."""
    fields = _stat(pid)
    if fields is None or fields[0] in _DEAD:
        return None
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}/{fields[19]}"


def _are_gone(group: int, seconds: float) -> bool:
    """Wait until no member of a process group can act any more."""
    deadline = time.monotonic() + seconds
    while _has_living(group):
        if time.monotonic() > deadline:
            return False
        time.sleep(_PAUSE)
    return True


def _has_living(group: int) -> bool:
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = _stat(int(entry.name))
            if fields is not None and fields[0] not in _DEAD and int(fields[2]) == group:
                return True
    return False


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third (state) on."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    return text[text.rindex(")") + 2 :].split()
