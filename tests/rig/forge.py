"""Servers and their commands, forked from a process that has their libraries loaded.

What runs is the same code, in a process with session, environment, folder and output of its own;
only the second it takes to load the libraries is spent once per process of tests. What changes how
Python starts (a path of its own, a library loaded before all others) is started by exec all the
same, and so is everything outside of pytest.
"""

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

_PROGRAM = str(Path(sys.executable).parent / "manent-server")
_SCRIPT = Path(__file__).with_name("forged.py")
_MESSAGE = 1 << 20
# Variables that are read before the first line of the program.
_BEFORE_PYTHON = ("PYTHON", "LD_", "TZ", "LC_")
_POLL = 0.01

_making = threading.Lock()
is_allowed = threading.Event()
"""Set by pytest: everything else starts servers as a user does."""


class Forged:
    """A forked process, with the part of `subprocess.Popen` that the rig uses."""

    def __init__(self, forge: "Forge", pid: int) -> None:
        self._forge = forge
        self.pid = pid
        self.code: int | None = None

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        if self.code is None:
            self._forge.listen()
        return self.code

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; its exit code.

        Raises:
            subprocess.TimeoutExpired: It goes on.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if end is not None and time.monotonic() > end:
                raise subprocess.TimeoutExpired([_PROGRAM], timeout or 0)
            time.sleep(_POLL)
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


class Forge:
    """The process that forks, and what it has said.

    Args:
        before: What is put before its command, to let it die with this process.
    """

    def __init__(self, before: Sequence[str]) -> None:
        self._lock = threading.Lock()
        self._living: dict[int, Forged] = {}
        self._control, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._news = select.poll()
        self._news.register(self._control, select.POLLIN)
        with other:
            self._process = subprocess.Popen(
                [*before, sys.executable, str(_SCRIPT), str(other.fileno())],
                pass_fds=[other.fileno()], stdin=subprocess.DEVNULL, start_new_session=True,
                env={"PATH": os.defpath, "LANG": "C.UTF-8"},
            )  # fmt: skip

    def start(
        self,
        command: Sequence[str | Path],
        *,
        folder: Path,
        files: Sequence[Path | str],
        environ: Mapping[str, str],
    ) -> Forged:
        """Fork a server or one of its commands.

        Args:
            command: Its argument list.
            folder: Its working folder.
            files: What it reads, and what its two outputs are added to.
            environ: All of its variables.
        """
        order = {
            "command": [str(word) for word in command],
            "folder": str(folder),
            "files": [str(file) for file in files],
            "environ": dict(environ),
        }
        with self._lock:
            self._control.send(json.dumps(order).encode())
            while "started" not in (said := self._hear()):
                pass
            forged = Forged(self, said["started"])
            self._living[forged.pid] = forged
        return forged

    def listen(self) -> None:
        """Hear which of them have ended."""
        with self._lock:
            while self._news.poll(0):
                self._hear()

    def close(self) -> None:
        """End it; what it has forked ends by the hand that started it, or with it."""
        self._control.close()
        self._process.terminate()
        self._process.wait(10)

    def _hear(self) -> dict[str, Any]:
        message = self._control.recv(_MESSAGE)
        if not message:
            raise RuntimeError(f"the forge has ended: {self._process.wait(10)}")
        said: dict[str, Any] = json.loads(message)
        if "ended" in said:
            self._living.pop(said["ended"]).code = said["code"]
        return said


def forge() -> Forge:
    """The one of this process; it ends with it, and its servers with it."""
    with _making:
        return _forge()


@cache
def _forge() -> Forge:
    return Forge(die_with_parent())


def close() -> None:
    """End the one of this process, if there is one."""
    if _forge.cache_info().currsize:
        _forge().close()
        _forge.cache_clear()


def die_with_parent() -> list[str]:
    """What a command begins with to be killed when this process dies; empty where it cannot be."""
    is_main = threading.current_thread() is threading.main_thread()
    return ["setpriv", "--pdeathsig", "KILL"] if is_main and shutil.which("setpriv") else []


def late_site(folder: Path) -> dict[str, str]:
    """Variables by which a server imports the `sitecustomize` of a folder.

    For one whose work may as well be done once the libraries are loaded; one that has to come
    before them is named by PYTHONPATH.
    """
    return {"FORGE_SITE" if is_allowed.is_set() else "PYTHONPATH": str(folder)}


def suits(command: Sequence[str | Path], environ: Mapping[str, str]) -> bool:
    """Whether a fork is the same as a start by exec."""
    is_ours = is_allowed.is_set() and str(command[0]) == _PROGRAM
    return is_ours and not any(name.startswith(_BEFORE_PYTHON) for name in environ)


def run(
    command: Sequence[str], *, folder: Path, environ: Mapping[str, str], said: str, limit: float
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; `said` is its standard input.

    Raises:
        subprocess.TimeoutExpired: It was not over within `limit` seconds, and was killed.
    """
    with tempfile.TemporaryDirectory(prefix="manent-forge-") as place:
        files = [Path(place) / name for name in ("in", "out", "err")]
        files[0].write_text(said)
        child = forge().start(command, folder=folder, files=files, environ=environ)
        try:
            code = child.wait(limit)
        finally:
            child.kill()
        out, err = (file.read_text() for file in files[1:])
    return subprocess.CompletedProcess(command, code, out, err)
