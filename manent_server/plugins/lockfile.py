"""The file of an attempt that its guard and its hook's processes keep locked while they live.

The lock belongs to the open file, which every process inherits: it is free again only when the
last of them is gone, whatever became of the guard.
"""

import fcntl
import os
from pathlib import Path


def take(path: str) -> int:
    """Open and lock the file of an attempt; return its descriptor.

    Raises:
        BlockingIOError: A process of that attempt still lives.
        OSError: The file cannot be made.
    """
    try:
        return _locked(os.open(path, os.O_RDWR | os.O_CLOEXEC))
    except FileNotFoundError:
        # It appears under its name when it is locked: whoever finds it free before would take
        # the attempt for dead that is about to begin.
        fresh = f"{path}.{os.getpid()}"
        descriptor = _locked(_made(fresh))
        os.rename(fresh, path)  # noqa: PTH104 - kept light
        return descriptor


def _locked(descriptor: int) -> int:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _made(path: str) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120 - kept light
        return os.open(path, flags, 0o600)


def is_free(path: Path) -> bool:
    """Whether no process of that attempt lives on this host; a missing file was never taken."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True
