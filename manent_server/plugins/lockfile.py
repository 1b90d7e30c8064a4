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
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


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
