"""Ports for servers that must be told their port before they start.

They come from below the range the kernel gives to outgoing connections, and every
pytest-xdist worker has its own span, so a port stays free between the choice and the use,
and while its server is stopped and started again.
"""

import itertools
import os
import socket

_FIRST, _SPAN, _WORKERS = 20_000, 1_200, 10
_turn = itertools.count(os.getpid() % _SPAN)


def free_port() -> int:
    """A TCP port of 127.0.0.1 nobody listens on and this process has not given out lately."""
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")  # noqa: TID251 - set by pytest-xdist
    start = _FIRST + int(worker.removeprefix("gw")) % _WORKERS * _SPAN
    for _ in range(_SPAN):
        port = start + next(_turn) % _SPAN
        if _is_free(port):
            return port
    raise RuntimeError(f"no free port between {start} and {start + _SPAN}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
