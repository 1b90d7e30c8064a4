"""Real processes, started as direct children and always ended."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from tests.rig.forge import Forged, die_with_parent, forge, suits

Found = TypeVar("Found")
Child = Forged | subprocess.Popen[bytes]
_STOP_LIMIT = 30.0
_SHORTEST = 0.02


class Ended(RuntimeError):
    """A process ended while somebody waited for something it should do."""


def until(
    ask: Callable[[], Found], *, what: str, limit: float = 45.0, longest: float = 0.1
) -> Found:
    """Ask again and again until the answer is true, and return it.

    What takes long is asked for more rarely, up to `longest` seconds apart: the asking, most of
    it by servers, would else be most of what the tests cost.
    """
    began = time.monotonic()
    while not (found := ask()):
        passed = time.monotonic() - began
        if passed > limit:
            raise TimeoutError(f"not within {limit:g} s: {what}")
        time.sleep(min(max(_SHORTEST, passed / 10), longest))
    return found


class Process:
    """One child with its output in a file, leading a session of its own.

    It dies with the test process; start it from the main thread, since the kernel counts the
    thread (from any other thread that guard is left out).

    Args:
        command: Its argument list; a server of ours is forked from one that is loaded.
        log: Where its output is added.
        environ: All of its variables.
        is_exact: Whether it is to be started just as a user does, whatever it is.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        log: Path,
        environ: Mapping[str, str],
        is_exact: bool = False,
    ) -> None:
        self.log = log
        log.touch()
        self._start = log.stat().st_size
        start = forked if suits(command, environ) and not is_exact else started
        self._child = start(command, log, environ)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._child.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative: the signal that ended it."""
        return self._child.poll()

    def is_running(self) -> bool:
        """Whether it lives."""
        return self.exit_code is None

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._child.send_signal(number)

    def kill(self) -> None:
        """SIGKILL it alone: what it started has to notice by itself."""
        self._child.kill()
        self._child.wait()

    def stop(self, *, limit: float = _STOP_LIMIT) -> int:
        """SIGTERM it, wait, and return its exit code."""
        if self.is_running():
            self._child.terminate()
        return self.wait(limit=limit)

    def wait(self, *, limit: float = _STOP_LIMIT) -> int:
        """Wait for its end and return its exit code."""
        try:
            return self._child.wait(limit)
        except subprocess.TimeoutExpired as late:
            raise TimeoutError(f"still running after {limit:g} s:\n{self.last_words()}") from late

    def end(self) -> None:
        """Leave nothing of it, politely at first."""
        if self.is_running():
            self.send(signal.SIGCONT)
            self._child.terminate()
            try:
                self._child.wait(1.0)
            except subprocess.TimeoutExpired:
                self.kill()

    def output(self) -> str:
        """What it has said since this start."""
        with self.log.open("rb") as file:
            file.seek(self._start)
            return file.read().decode(errors="replace")

    def last_words(self) -> str:
        """The end of what it has said."""
        return self.output()[-4000:]


def files(folder: Path, *names: str) -> list[Path]:
    """Files and folders of these names below a folder in which others may be at work.

    `Path.rglob` fails when a folder goes away while it looks.
    """
    return [
        Path(place, name)
        for place, folders, found in os.walk(folder)
        for name in (*folders, *found)
        if name in names
    ]


def left_behind(folder: Path) -> Iterator[int]:
    """Living processes that work in this folder or have it on their command line."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid() and _belongs(entry, folder):
            yield int(entry.name)


def sweep(folder: Path) -> list[int]:
    """SIGKILL what was left behind; the process ids."""
    found = list(left_behind(folder))
    for pid in found:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and not yet collected does not."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def _belongs(entry: Path, folder: Path) -> bool:
    try:
        words = (entry / "cmdline").read_bytes().decode(errors="replace")
        return bool(words) and (str(folder) in words or folder in _with_parents(entry / "cwd"))
    except OSError:
        return False


def _with_parents(link: Path) -> list[Path]:
    place = link.readlink()
    return [place, *place.parents]


def forked(command: Sequence[str | Path], log: Path, environ: Mapping[str, str]) -> Child:
    """Fork it from the forge."""
    files = (os.devnull, log, log)
    return forge().start(command, folder=log.parent, files=files, environ=environ)


def started(command: Sequence[str | Path], log: Path, environ: Mapping[str, str]) -> Child:
    """Start it by exec."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [*die_with_parent(), *command],
            cwd=log.parent, env=environ, stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
