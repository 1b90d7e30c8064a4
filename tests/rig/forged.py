"""The process that servers of the tests are forked from; `forge.py` starts it and talks to it.

Run as a script: it loads what a server loads, then forks one for each order that comes in. To load
the libraries takes three times as long as everything else a start does.
"""

import gc

if __name__ == "__main__":
    gc.disable()

import ctypes
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any

_MESSAGE = 1 << 20
_DIE_WITH_PARENT = 1
# Loaded by a server on its way, besides what its commands import.
_LATER = (
    "manent_server.bootstrap.house",
    "manent_server.cli.serving",
    "sqlalchemy.dialects.postgresql.psycopg",
    "sqlalchemy.dialects.sqlite.pysqlite",
    "uvicorn.lifespan.off",
    "uvicorn.loops.auto",
    "uvicorn.protocols.http.h11_impl",
)


def load() -> None:
    """Import everything, and keep the collector away from it."""
    for name in ("manent_server.cli", *_LATER):
        __import__(name)
    gc.freeze()


def orders(control: socket.socket) -> dict[str, Any]:
    """Fork for each order; returns in the new process alone, with what it is to be."""
    wakes, waking = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        ready, _, _ = select.select([control.fileno(), wakes], [], [])
        if wakes in ready:
            os.read(wakes, 4096)
            _report(control)
        if control.fileno() not in ready:
            continue
        message = control.recv(_MESSAGE)
        if not message:
            # Its tests are over: the servers that are left die with this process.
            os._exit(0)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            for end in (wakes, waking):
                os.close(end)
            return {**json.loads(message), "parent": parent}
        control.send(json.dumps({"started": pid}).encode())


def _report(control: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        code = os.waitstatus_to_exitcode(status)
        control.send(json.dumps({"ended": pid, "code": code}).encode())


def become(order: dict[str, Any]) -> None:
    """Be like a process that was started for itself, with a session of its own."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != order["parent"]:
        os._exit(1)
    for number, file in enumerate(order["files"]):
        added = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        source = os.open(file, os.O_CLOEXEC | (added if number else os.O_RDONLY), 0o644)
        os.dup2(source, number)
        os.close(source)
    os.chdir(order["folder"])
    os.environ.clear()  # noqa: TID251 - it is a process of its own
    os.environ.update(order["environ"])  # noqa: TID251
    sys.argv = order["command"]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    if "FORGE_SITE" in order["environ"]:
        sys.path.insert(1, order["environ"]["FORGE_SITE"])
        sys.modules.pop("sitecustomize", None)
        __import__("sitecustomize")


def main() -> None:
    """Load, serve orders, and in each child be the server."""
    control = socket.socket(fileno=int(sys.argv[1]))
    load()
    order = orders(control)
    control.close()
    become(order)
    from manent_server import cli  # noqa: PLC0415 - loaded long since

    cli.main()


if __name__ == "__main__":
    main()
