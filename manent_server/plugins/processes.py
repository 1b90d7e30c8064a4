"""Finding and ending the processes of an attempt, as /proc shows them."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from manent_server.plugins import protocol

_DEAD = frozenset("ZXx")
_PROC = "/proc"


class Process(NamedTuple):
    """One living or dead process."""

    pid: int
    state: str
    parent: int
    group: int
    session: int


@dataclass(frozen=True, slots=True)
class Mark:
    """What tells the processes of an attempt from others, whoever their parent is now."""

    session: int
    attempt: str
    lock_file: str

    def is_on(self, process: Process) -> bool:
        """Whether the process belongs to the attempt."""
        return (
            process.session == self.session
            or _has_variable(process.pid, self.attempt)
            or _holds(process.pid, self.lock_file)
        )


def snapshot() -> dict[int, Process]:
    """Every process that can act; zombies are dead."""
    found = {}
    for entry in os.listdir(_PROC):  # noqa: PTH208 - Path would double the time of the walk
        if entry.isdigit() and (process := _read(entry)) is not None:
            found[process.pid] = process
    return found


def descendants(processes: dict[int, Process], root: int) -> set[int]:
    """The pids below `root`, which is not one of them."""
    children: dict[int, list[int]] = {}
    for process in processes.values():
        children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    open_ends = [root]
    while open_ends:
        fresh = [pid for pid in children.get(open_ends.pop(), ()) if pid not in found]
        found.update(fresh)
        open_ends.extend(fresh)
    return found


def tree(mark: Mark) -> list[int]:
    """Processes of an attempt but its guard, which asks: first those below it, then the marked.

    Empty only when there are none of either.
    """
    processes = snapshot()
    return list(descendants(processes, os.getpid())) or _carriers(mark, processes, set())


def marked(mark: Mark, *, but: Iterable[int] = ()) -> list[int]:
    """The processes that carry the mark of an attempt; not a service started on purpose."""
    return _carriers(mark, snapshot(), set(but))


def _carriers(mark: Mark, processes: dict[int, Process], spared: set[int]) -> list[int]:
    """Those of the session if there are any, for they are found at once; then the others."""
    others = [p for p in processes.values() if p.pid not in spared and p.pid != os.getpid()]
    of_session = [process.pid for process in others if process.session == mark.session]
    return of_session or [process.pid for process in others if mark.is_on(process)]


def group(leader: int) -> list[int]:
    """The living members of a process group."""
    try:
        os.killpg(leader, 0)
    except ProcessLookupError:
        return []
    except PermissionError:
        pass
    return [p.pid for p in snapshot().values() if p.group == leader]


def kill(pids: Iterable[int], number: int = signal.SIGKILL) -> None:
    """Signal processes; those that are gone already do not matter."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def reap() -> list[tuple[int, int]]:
    """Take the ends of all children that have ended: (pid, wait status)."""
    ended = []
    with contextlib.suppress(ChildProcessError):
        while (end := os.waitpid(-1, os.WNOHANG))[0]:
            ended.append(end)
    return ended


def _read(entry: str) -> Process | None:
    content = _content(f"{_PROC}/{entry}/stat")
    if content is None:
        return None
    state, parent, its_group, session = content[content.rindex(b")") + 2 :].split(b" ", 4)[:4]
    if state.decode() in _DEAD:
        return None
    return Process(int(entry), state.decode(), int(parent), int(its_group), int(session))


def _has_variable(pid: int, attempt: str) -> bool:
    content = _content(f"{_PROC}/{pid}/environ")
    needle = f"{protocol.ATTEMPT_VARIABLE}={attempt}".encode()
    return content is not None and needle in content.split(b"\0")


def _holds(pid: int, path: str) -> bool:
    folder = f"{_PROC}/{pid}/fd"
    with contextlib.suppress(OSError):
        for entry in os.listdir(folder):  # noqa: PTH208 - Path would double the time of the walk
            with contextlib.suppress(OSError):
                if os.readlink(f"{folder}/{entry}") == path:  # noqa: PTH115 - as above
                    return True
    return False


def _content(path: str) -> bytes | None:
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        return b"".join(iter(_reader(descriptor), b""))
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _reader(descriptor: int) -> Callable[[], bytes]:
    return lambda: os.read(descriptor, 65536)
