"""The keeper of one hook: it starts it, keeps its lease, passes on what it says, and ends it.

A guard is forked by the zygote and waits for its one call. Its pipe from the worker is its
lifeline: when that closes, or the lease ends, everything the hook started is killed. It says
`exit` last, and only when nothing of the attempt can act any more.
"""

import os
import select
import signal
from dataclasses import dataclass
from typing import Any, Final

from manent_server.plugins import kernel, launch, lockfile, processes, protocol
from manent_server.plugins.call import GuardCall
from manent_server.plugins.outbox import Inbox, Outbox
from manent_server.plugins.processes import Mark
from manent_server.plugins.relay import Relay
from manent_server.plugins.watch import Watch

BUFFER: Final = 8 * 1024 * 1024
"""Bytes of output that wait for a slow worker before lines are dropped."""


@dataclass(slots=True)
class Line:
    """Both directions between a guard and its worker."""

    inbox: Inbox
    outbox: Outbox

    @classmethod
    def over(cls, reader: int, writer: int) -> "Line":
        """Over these two ends of pipes."""
        return cls(Inbox(reader), Outbox(writer, limit=BUFFER))


def main(reader: int, writer: int, *, register: int, runtime: launch.Runtime) -> None:
    """The whole life of a guard, from its fork to its end."""
    os.setsid()
    kernel.adopt_orphans()
    kernel.rename("manent-guard")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    line = Line.over(reader, writer)
    hook = launch.fork(runtime)
    _rehearse()
    orders = _await_call(line.inbox)
    if orders is None:
        processes.kill([hook.pid])
        return
    call = GuardCall.of(protocol.decode(orders[0]))
    try:
        lock = _prepare(call, runtime=runtime, register=register)
        end = _run(call, orders[1:], line=line, hook=hook, lock=lock)
    except _Orphaned:
        processes.kill([hook.pid])
        return
    except _Refused as refusal:
        processes.kill([hook.pid])
        end = _not_started(refusal)
    line.outbox.put(protocol.encode(end))
    line.outbox.put(protocol.encode({"type": "exit"}))
    _finish(line)


class _Refused(Exception):
    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class _Orphaned(Exception):
    """The zygote is gone: a guard without anyone to clean up after it does not begin."""


def _rehearse() -> None:
    """Touch, while nobody waits, the memory a call will need: its first use costs most."""
    reader, writer = os.pipe()
    inbox, outbox = Inbox(reader), Outbox(writer, limit=BUFFER)
    relay = Relay(outbox, line_limit=protocol.OUTPUT_LIMIT)
    relay.output("out", b"rehearsal\n")
    relay.say("info", "rehearsal")
    relay.close()
    call = GuardCall("", "", "", None, None, 0.0, 0.0, "", "/", 0)
    outbox.put(call.line())
    for line in inbox.read():
        protocol.decode_with_text(line)
    inbox.close()
    outbox.close()


def _await_call(inbox: Inbox) -> list[bytes] | None:
    """The order and the hook's line, and whatever came with them; None when the worker went."""
    lines: list[bytes] = []
    while len(lines) < 2:  # noqa: PLR2004 - the order, and the line for the hook
        _poll({inbox.descriptor: select.POLLIN})
        lines += inbox.read()
        if inbox.is_ended:
            return None
    return lines


def _prepare(call: GuardCall, *, runtime: launch.Runtime, register: int) -> int:
    """Everything that can still be refused for free; returns the locked file's descriptor."""
    if call.lease_until is not None and protocol.boottime() >= call.lease_until:
        raise _Refused("lease_ended", "the lease was over before the hook could start")
    unknown = None if call.external else runtime.refusal(call.plugin, call.hook)
    if unknown is not None:
        raise _Refused("plugin_missing", unknown)
    try:
        lock = lockfile.take(call.lock_file)
    except BlockingIOError:
        raise _Refused("still_alive", "processes of this attempt are still alive") from None
    except OSError as error:
        raise _Refused("guard_failed", f"the lock file cannot be made: {error}") from None
    try:
        # So that the zygote knows what to look for should this guard die alone.
        os.write(register, f"{os.getpid()} {call.attempt} {call.lock_file}\n".encode())
        if not os.access(call.workdir, os.X_OK):
            os.makedirs(call.workdir, exist_ok=True)  # noqa: PTH103 - kept light
    except BrokenPipeError:
        raise _Orphaned from None
    except OSError as error:
        raise _Refused("guard_failed", f"the hook cannot be prepared: {error}") from None
    return lock


def _run(
    call: GuardCall, lines: list[bytes], *, line: Line, hook: launch.Hook, lock: int
) -> dict[str, Any]:
    relay = Relay(line.outbox, line_limit=call.line_limit)
    mark = Mark(session=os.getpid(), attempt=call.attempt, lock_file=call.lock_file)
    # Without this line the worker knows that nothing can have acted.
    line.outbox.put(protocol.encode({"type": "started", "guard": os.getpid()}))
    try:
        hook.begin(call, lock=lock)
    except OSError as error:
        raise _Refused("guard_failed", f"the hook could not be started: {error}") from None
    watch = Watch(call, hook, line=line, relay=relay, mark=mark)
    watch.tell_hook(lines[0])
    for early in lines[1:]:
        watch.hear_worker(early)
    end = watch.run()
    os.close(lock)
    return end


def _not_started(refusal: _Refused) -> dict[str, Any]:
    error = {"code": refusal.code, "message": str(refusal)}
    return {"type": "end", "result": "not_started", "error": error, "retryable": True}


def _finish(line: Line) -> None:
    """Wait until the worker took everything, or went away."""
    while not line.outbox.is_empty and not line.outbox.is_broken:
        _poll({line.outbox.descriptor: select.POLLOUT, line.inbox.descriptor: select.POLLIN})
        line.outbox.flush()
        line.inbox.read()
        if line.inbox.is_ended:
            return


def _poll(wanted: dict[int, int]) -> None:
    poll = select.poll()
    for descriptor, events in wanted.items():
        poll.register(descriptor, events)
    poll.poll()
