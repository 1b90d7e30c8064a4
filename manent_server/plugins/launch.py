"""The hook's process: forked early, begun late, with a bare environment and six descriptors.

A warm guard has its hook's process waiting already; it acts on nothing until it is told to begin.
With that word comes the attempt's locked file, so that it is held before anything can be done.
"""

import fcntl
import os
import signal
import socket
from dataclasses import dataclass
from typing import Final, NoReturn, Protocol

from manent_server.plugins import kernel, protocol
from manent_server.plugins.call import GuardCall

PROTOCOL_IN: Final = 3
PROTOCOL_OUT: Final = 4
LOCK: Final = 5
_ORDERS: Final = 6
_NOT_STARTABLE: Final = 127
_MESSAGE: Final = 262144


class Runtime(Protocol):
    """What runs Python hooks."""

    def refusal(self, plugin: str, hook: str) -> str | None:
        """Why this hook cannot be run here at all; None when it can."""

    def prepare(self) -> None:
        """In the hook's process, before it knows what it will run."""

    def serve(self, call: GuardCall) -> None:
        """In the hook's process: run the hook."""


@dataclass(slots=True)
class Hook:
    """The guard's view of the process it forked; descriptors are the guard's ends."""

    pid: int
    alive: int
    to_hook: int
    from_hook: int
    out: int
    err: int
    orders: socket.socket

    def begin(self, call: GuardCall, *, lock: int) -> None:
        """Let it run the hook.

        Raises:
            OSError: It is gone, and never began.
        """
        with self.orders:
            socket.send_fds(self.orders, [call.line()], [lock])


def fork(runtime: Runtime) -> Hook:
    """Fork a process that waits to become a hook."""
    empty = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    call_reader, call_writer = os.pipe()
    answer_reader, answer_writer = os.pipe()
    out_reader, out_writer = os.pipe()
    err_reader, err_writer = os.pipe()
    orders, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    kept = (empty, out_writer, err_writer, call_reader, answer_writer, empty, theirs.fileno())
    guard = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(kept, guard, runtime)
    _lead_a_group(pid)
    theirs.close()
    for descriptor in kept[:5]:
        os.close(descriptor)
    alive = os.pidfd_open(pid)
    return Hook(pid, alive, call_writer, answer_reader, out_reader, err_reader, orders)


def bare_environment() -> dict[str, str]:
    """What every hook finds in its environment, beside the words of the protocol."""
    own = os.environ  # noqa: TID251 - the two names a program needs to find others and itself
    given = {name: own[name] for name in ("PATH", "HOME") if name in own}
    return {"PATH": os.defpath, **given, "LANG": "C.UTF-8"}


def environment(attempt: str) -> dict[str, str]:
    """All a hook finds in its environment; everything else comes in its `call`."""
    return {
        **bare_environment(),
        protocol.IN_VARIABLE: str(PROTOCOL_IN),
        protocol.OUT_VARIABLE: str(PROTOCOL_OUT),
        protocol.ATTEMPT_VARIABLE: attempt,
    }


def _become(kept: tuple[int, ...], guard: int, runtime: Runtime) -> NoReturn:
    """In the child: leave everything of the guard behind, wait, then be the hook."""
    try:
        _lead_a_group(0)
        _arrange(kept)
        _forget_signals(guard)
        runtime.prepare()
        call = _await_orders()
        os.chdir(call.workdir)
        if call.external is None:
            runtime.serve(call)
        else:
            _execute(call.external, call.attempt)
    finally:
        os._exit(_NOT_STARTABLE)


def _lead_a_group(pid: int) -> None:
    """Done by both sides, so that neither can see the hook in the guard's group."""
    try:
        os.setpgid(pid, pid)
    except (PermissionError, ProcessLookupError):
        return  # it is gone


def _arrange(kept: tuple[int, ...]) -> None:
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 64) for descriptor in kept]
    for number, descriptor in enumerate(high):
        os.dup2(descriptor, number, inheritable=number != _ORDERS)
    os.closerange(_ORDERS + 1, os.sysconf("SC_OPEN_MAX"))


def _forget_signals(guard: int) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    kernel.die_with_parent(signal.SIGKILL)
    if os.getppid() != guard:
        os._exit(_NOT_STARTABLE)


def _await_orders() -> GuardCall:
    with socket.socket(fileno=_ORDERS) as orders:
        message, locks, _, _ = socket.recv_fds(orders, _MESSAGE, 1)
    if not locks:
        os._exit(0)  # never needed
    os.dup2(locks[0], LOCK, inheritable=True)
    os.close(locks[0])
    return GuardCall.of(protocol.decode(message))


def _execute(argv: list[str], attempt: str) -> None:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execvpe(argv[0], argv, environment(attempt))  # noqa: S606 - argument lists, no shell
    except OSError as error:
        message = f"the plugin {argv[0]} cannot be started: {error.strerror}"
        answer = {
            "type": "error",
            "code": "plugin_not_startable",
            "message": message,
            "retryable": False,
        }
        os.write(PROTOCOL_OUT, protocol.encode(answer))
