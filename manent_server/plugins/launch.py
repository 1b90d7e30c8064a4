"""Starting the hook's process: a group of its own, a bare environment, six descriptors."""

import fcntl
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn

from manent_server.plugins import kernel, protocol
from manent_server.plugins.call import GuardCall

PROTOCOL_IN: Final = 3
PROTOCOL_OUT: Final = 4
LOCK: Final = 5
_FIRST_UNUSED: Final = 6
_NOT_STARTABLE: Final = 127


@dataclass(slots=True)
class Hook:
    """The guard's view of the process it started; descriptors are the guard's ends."""

    pid: int
    alive: int
    to_hook: int
    from_hook: int
    out: int
    err: int


def launch(call: GuardCall, *, lock: int, serve: Callable[[GuardCall], None]) -> Hook:
    """Fork the hook of `call`; a Python hook goes on in `serve`, an external one is executed."""
    empty = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    call_reader, call_writer = os.pipe()
    answer_reader, answer_writer = os.pipe()
    out_reader, out_writer = os.pipe()
    err_reader, err_writer = os.pipe()
    kept = (empty, out_writer, err_writer, call_reader, answer_writer, lock)
    guard = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(call, kept, guard, serve)
    _lead_a_group(pid)
    for descriptor in kept[:-1]:
        os.close(descriptor)
    alive = os.pidfd_open(pid)
    return Hook(pid, alive, call_writer, answer_reader, out_reader, err_reader)


def environment(attempt: str) -> dict[str, str]:
    """All a hook finds in its environment; everything else comes in its `call`."""
    bare = dict(os.environ)  # noqa: TID251 - the zygote's own, made of PATH, HOME and LANG
    return {
        **bare,
        protocol.IN_VARIABLE: str(PROTOCOL_IN),
        protocol.OUT_VARIABLE: str(PROTOCOL_OUT),
        protocol.ATTEMPT_VARIABLE: attempt,
    }


def _become(
    call: GuardCall, kept: tuple[int, ...], guard: int, serve: Callable[[GuardCall], None]
) -> NoReturn:
    """In the child: leave everything of the guard behind, then be the hook."""
    try:
        _lead_a_group(0)
        _arrange(kept)
        _forget_signals(guard)
        os.chdir(call.workdir)
        if call.external is None:
            serve(call)
        else:
            _execute(call.external, call.attempt)
    finally:
        os._exit(_NOT_STARTABLE)


def _lead_a_group(pid: int) -> None:
    """Done by both sides, so that neither can see the hook in the guard's group."""
    try:
        os.setpgid(pid, pid)
    except (PermissionError, ProcessLookupError):
        return  # the other side was first, and the hook is already executed or gone


def _arrange(kept: tuple[int, ...]) -> None:
    high = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 64) for descriptor in kept]
    for number, descriptor in enumerate(high):
        os.dup2(descriptor, number, inheritable=True)
    os.closerange(_FIRST_UNUSED, os.sysconf("SC_OPEN_MAX"))


def _forget_signals(guard: int) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    kernel.die_with_parent(signal.SIGKILL)
    if os.getppid() != guard:
        os._exit(_NOT_STARTABLE)


def _execute(argv: list[str], attempt: str) -> None:
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
