"""The process that guards are forked from: one thread, the plugins imported, nothing kept.

The worker starts it by exec and sends it the ends of each guard's pipes. It is a subreaper: what
a guard that died alone leaves behind becomes its child, and it kills what carries the mark of
that guard's attempt. It ends when the worker does, after its last guard.
"""

import gc

if __name__ == "__main__":
    # Loading leaves no garbage behind, and looking for it takes a tenth of the time.
    gc.disable()

import os
import select
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

from manent_server.plugins import discovery, guard, kernel, processes, protocol
from manent_server.plugins.hook import Hooks
from manent_server.plugins.processes import Mark

_MESSAGE = 65536
_SWEEP_PAUSE = 0.02
_ENDS = 2
_FAILED_GUARD = 70


class Zygote:
    """The state of the zygote.

    Args:
        control: Where the worker sends pipe ends.
        hooks: The plugins.
    """

    def __init__(self, control: socket.socket, hooks: Hooks) -> None:
        self._control = control
        self._hooks = hooks
        self._guards: set[int] = set()
        self._marks: dict[int, Mark] = {}
        self._sweeps: dict[int, Mark] = {}
        self._register, self._registering = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._wakes, self._waking = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._is_orphan = False

    def run(self) -> None:
        """Fork guards until the worker is gone and the last guard with it."""
        signal.set_wakeup_fd(self._waking, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        while not self._is_orphan or self._guards or self._sweeps:
            self._round()

    def _round(self) -> None:
        poll = select.poll()
        poll.register(self._wakes, select.POLLIN)
        if not self._is_orphan:
            poll.register(self._control, select.POLLIN)
        ready = {descriptor for descriptor, _ in poll.poll(self._patience())}
        self._read_register()
        self._read(self._wakes)
        self._bury()
        self._sweep()
        if self._control.fileno() in ready:
            self._take_order()

    def _patience(self) -> float | None:
        return _SWEEP_PAUSE * 1000 if self._sweeps else None

    def _take_order(self) -> None:
        try:
            message, ends, _, _ = socket.recv_fds(self._control, _MESSAGE, _ENDS)
        except OSError:
            message, ends = b"", []
        if not message:
            self._is_orphan = True
            return
        if len(ends) == _ENDS:
            self._fork(*ends)
        for end in ends:
            os.close(end)

    def _fork(self, reader: int, writer: int) -> None:
        try:
            pid = os.fork()
        except OSError as error:
            # The pipes close: the worker sees that this guard never lived.
            sys.stderr.write(f"manent-zygote: no guard could be forked: {error}\n")
            return
        if pid == 0:
            self._be_guard(reader, writer)
        self._guards.add(pid)

    def _be_guard(self, reader: int, writer: int) -> NoReturn:
        code = _FAILED_GUARD
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(self._control.detach())
            for descriptor in (self._register, self._wakes, self._waking):
                os.close(descriptor)
            guard.main(reader, writer, register=self._registering, runtime=self._hooks)
            code = 0
        except Exception:  # noqa: BLE001 - its trace is all it can still give
            traceback.print_exc()
        finally:
            os._exit(code)

    def _read_register(self) -> None:
        for line in self._read(self._register).decode().splitlines():
            pid, attempt, lock_file = line.split(" ", 2)
            self._marks[int(pid)] = Mark(int(pid), attempt, lock_file)

    def _bury(self) -> None:
        for pid, status in processes.reap():
            if pid not in self._guards:
                continue  # a service some hook left, or what was swept
            self._guards.discard(pid)
            mark = self._marks.pop(pid, None)
            if status != 0:
                self._sweeps[pid] = mark or Mark(pid, "", "")

    def _sweep(self) -> None:
        """Kill what guards that died alone left; again and again until nothing is left."""
        for pid, mark in list(self._sweeps.items()):
            left = processes.marked(mark, but=self._guards)
            processes.kill(left)
            if not left:
                del self._sweeps[pid]

    @staticmethod
    def _read(descriptor: int) -> bytes:
        try:
            return os.read(descriptor, _MESSAGE)
        except BlockingIOError:
            return b""


def main() -> None:
    """Import the plugins, say so, and fork guards."""
    control = socket.socket(fileno=int(sys.argv[1]))
    configuration = protocol.decode(control.recv(_MESSAGE))
    sys.path[:] = configuration["path"]
    _become_deaf()
    found = discovery.find()
    gc.collect()
    gc.freeze()
    gc.enable()
    control.send(protocol.encode(_ready(found)))
    Zygote(control, Hooks(found.targets, found.broken, folder=_folder())).run()


def _folder() -> Path:
    """The current folder, which is the worker's; a name for it even when it was removed."""
    return Path("/proc/self/cwd").readlink()


def _become_deaf() -> None:
    """A signal for everyone (a terminal's, a service manager's) must not cost running hooks."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    kernel.adopt_orphans()
    kernel.rename("manent-zygote")


def _ready(found: discovery.Found) -> dict[str, Any]:
    return {"type": "ready", "plugins": sorted(found.targets)}


if __name__ == "__main__":
    main()
