"""What this program has started, however far down, and how to end it.

A service outlives the hook that started it and then belongs to nobody. Linux gives such orphans
to the nearest ancestor that asks for them, so nothing escapes and nothing has to be guessed.
"""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

_PR_SET_CHILD_SUBREAPER = 36
_DEAD = frozenset("ZXx")
_PAUSE = 0.05


def adopt_orphans() -> None:
    """From now on what descends from this process stays below it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "this system does not let a program adopt orphans")


def end_descendants(*, grace: float) -> set[int]:
    """SIGTERM every descendant, SIGKILL what is left after `grace` seconds; who lives even so."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        _signal_until_gone(number, grace)
    return descendants()


def descendants() -> set[int]:
    """Living processes below this one."""
    parents = dict(_living())
    below = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in below} - below:
        below |= more
    return below - {os.getpid()}


def _signal_until_gone(number: signal.Signals, seconds: float) -> None:
    """Signal each descendant once, also one that comes while others go."""
    signalled: set[int] = set()
    deadline = time.monotonic() + seconds
    while (left := descendants()) and time.monotonic() < deadline:
        for pid in left - signalled:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        signalled |= left
        time.sleep(_PAUSE)
        _collect()


def _collect() -> None:
    """Take the ends of adopted children."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _living() -> Iterator[tuple[int, int]]:
    """Every process that can act, with its parent."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # The name of the program, before the last ")", may hold anything.
                fields = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
                if fields[0] not in _DEAD:
                    yield int(entry.name), int(fields[1])
