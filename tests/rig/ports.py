"""Ports for servers that must be told their port before they start.

They come from below the range the kernel gives to outgoing connections, and no two processes of
tests on a machine are given the same one: a port is this process's until it ends, so it stays free
between the choice and the use, and while its server is stopped and started again.
"""

import fcntl
import itertools
import os
import socket
import tempfile
from functools import cache
from pathlib import Path

FIRST, COUNT = 20_000, 12_000
# Processes begin at different places, so that they seldom meet what another has taken.
_turn = itertools.count(os.getpid() * 97 % COUNT)


def free_port() -> int:
    """A TCP port of 127.0.0.1 nobody listens on and no process of tests has been given."""
    for _ in range(COUNT):
        port = FIRST + next(_turn) % COUNT
        if _take(port) and _is_free(port):
            return port
    raise RuntimeError(f"no free port between {FIRST} and {FIRST + COUNT}")


@cache
def _register() -> int:
    """A file whose n-th byte is locked by the process that has the n-th port."""
    path = Path(tempfile.gettempdir()) / f"manent-test-ports-{os.getuid()}"
    # Never closed: closing it would let go of every port.
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _take(port: int) -> bool:
    """Whether the port is this process's from now on."""
    try:
        fcntl.lockf(_register(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
