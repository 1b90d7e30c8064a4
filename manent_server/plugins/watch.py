"""A guard's watch over its running hook, until nothing of it can act any more."""

import contextlib
import fcntl
import math
import os
import select
import signal
import time
from enum import Enum
from typing import Any, Final, Protocol

from manent_server.plugins import answers, processes, protocol
from manent_server.plugins.call import GuardCall
from manent_server.plugins.launch import Hook
from manent_server.plugins.outbox import Inbox, Outbox
from manent_server.plugins.relay import Relay

RESULT_GRACE: Final = 1.0
"""Seconds a hook may take to end by itself after its result."""
HOLD_LIMIT: Final = 2.0
"""Seconds, in all, that a hook is held up for a slow worker before lines are dropped."""
_LOOK: Final = 1.0
_SHORT_LOOK: Final = 0.02
_CHUNK: Final = 65536
_REST: Final = 0.002
"""Seconds until a stream that was read empty is read again: a flood comes in large pieces."""
_WIDE: Final = 1024 * 1024
"""Bytes that fit into the pipe of a stream that was once found full."""


class Line(Protocol):
    """Both directions between the guard and its worker."""

    inbox: Inbox
    outbox: Outbox


class Reach(Enum):
    """Which processes have to be gone before the attempt is over."""

    GROUP = "after a result: a service in a session of its own lives on"
    MARKED = "after an error: all but services that carry no mark of the attempt"
    TREE = "otherwise: everything"


class Watch:
    """The state of one running hook.

    Args:
        call: What the guard was told.
        hook: The process it started.
        line: The way to and from the worker.
        relay: Where the hook's words go.
        mark: What tells the attempt's processes from others.
    """

    def __init__(
        self,
        call: GuardCall,
        hook: Hook,
        *,
        line: Line,
        relay: Relay,
        mark: processes.Mark,
    ) -> None:
        self._call = call
        self._hook = hook
        self._line = line
        self._relay = relay
        self._mark = mark
        self._to_hook = Outbox(hook.to_hook, limit=_CHUNK)
        self._from_hook = Inbox(hook.from_hook, limit=protocol.MESSAGE_LIMIT)
        self._outputs = {hook.out: "out", hook.err: "err"}
        for descriptor in self._outputs:
            os.set_blocking(descriptor, False)
        self._lease_until = call.lease_until
        self._ends_at = protocol.boottime() + call.timeout
        self._kill_at: float | None = None
        self._is_stopping = False
        self._end: dict[str, Any] | None = None
        self._reach = Reach.TREE
        self._has_ended = False
        self._status = 0
        self._held = 0.0
        self._rests_until = 0.0
        self._widened: set[int] = set()

    def run(self) -> dict[str, Any]:
        """Watch until the tree is dead; return the `end` for the worker."""
        while not self._is_over():
            self._round()
            self._check_clock()
        self._hear_hook_out()
        self._end_tree()
        self._relay.end()
        self._hear_hook_out()
        self._drain_outputs()
        self._relay.close()
        return self._end or self._no_result()

    def tell_hook(self, line: bytes) -> None:
        """Pass a line on to the hook."""
        self._to_hook.put(line + b"\n")

    def hear_worker(self, line: bytes) -> None:
        """Act on a line of the worker."""
        message = protocol.decode(line)
        kind = message["type"]
        if kind == "lease":
            self._prolong(line, message["until"])
        elif kind == "cancel":
            self._stop(message["reason"], message["grace"])
        elif kind == "kill":
            self._kill("killed", "the hook was killed")

    def _prolong(self, line: bytes, until: float | None) -> None:
        """Move the lease; one that has ended stays so, for others may act by now."""
        if self._is_lease_over():
            return
        self._lease_until = until
        if not self._to_hook.is_full:
            self.tell_hook(line)

    def _is_lease_over(self) -> bool:
        return self._lease_until is not None and protocol.boottime() >= self._lease_until

    # What ends a hook

    def _stop(self, reason: str, grace: float) -> None:
        """Ask the hook to end, and make it end when the grace is over."""
        if self._is_stopping or self._end is not None:
            return
        self._is_stopping = True
        self._conclude(reason, {"code": reason, "message": _REASONS.get(reason, reason)})
        self.tell_hook(protocol.encode({"type": "cancel", "reason": reason}).rstrip())
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._hook.pid, signal.SIGTERM)
        self._kill_at = protocol.boottime() + grace

    def _kill(self, code: str, message: str) -> None:
        """End everything now."""
        if self._end is None:
            self._conclude("interrupted", {"code": code, "message": message})
        self._kill_at = 0.0

    def _conclude(self, result: str, error: dict[str, Any] | None = None, **more: Any) -> None:
        self._end = {"type": "end", "result": result, "error": error, "retryable": True, **more}

    def _check_clock(self) -> None:
        if self._is_lease_over():
            self._kill("lease_ended", "the lease of the attempt ended")
        elif protocol.boottime() >= self._ends_at:
            self._stop("timed_out", self._call.grace)

    def _is_over(self) -> bool:
        if self._kill_at is not None and protocol.boottime() >= self._kill_at:
            return True
        if not self._has_ended:
            return False
        # Who was asked to end may clean up for as long as the grace lasts, its children too.
        return not self._is_stopping or not processes.group(self._hook.pid)

    def _end_tree(self) -> None:
        """Kill until nothing is left; what cannot be killed yet is waited for."""
        pause, empty_looks = 0.001, 0
        # One look is not a picture: a process may be born behind it. Two in a row are.
        while empty_looks < (1 if self._reach is Reach.GROUP else 2):
            self._reap()
            left = self._survivors()
            if not left:
                empty_looks += 1
                continue
            empty_looks = 0
            processes.kill(left)
            time.sleep(pause)
            pause = min(pause * 2, 0.2)
        self._reap()

    def _survivors(self) -> list[int]:
        if self._reach is Reach.GROUP:
            return processes.group(self._hook.pid)
        if self._reach is Reach.MARKED:
            return processes.marked(self._mark)
        return processes.tree(self._mark)

    def _reap(self) -> None:
        for pid, status in processes.reap():
            if pid == self._hook.pid:
                self._has_ended = True
                self._status = status

    # What the hook says

    def _hear_hook(self) -> None:
        try:
            for line in self._from_hook.read():
                self._take(protocol.decode(line))
        except protocol.Nonsense as error:
            self._nonsense(error)
        except (ValueError, TypeError, RecursionError) as error:
            # Whatever a hook says, its guard lives: it alone can say that the tree is dead.
            self._nonsense(protocol.Nonsense(str(error)))
        self._relay.flush()

    def _hear_hook_out(self) -> None:
        """Read what is left in the pipe, of which there is no more than the pipe holds."""
        for _ in range(64):
            if self._from_hook.is_ended or not _is_readable(self._from_hook.descriptor):
                return
            self._hear_hook()

    def _take(self, message: dict[str, Any]) -> None:
        kind = message["type"]
        if kind == "log":
            self._relay.say(str(message.get("level", "info")), str(message.get("text", "")))
        elif kind == "heartbeat":
            self._relay.heartbeat(message)
        elif self._end is None and kind == "result":
            self._answered(Reach.GROUP)
            self._conclude(
                "succeeded", outputs=answers.outputs(self._call.hook, message.get("outputs"))
            )
        elif self._end is None and kind == "error":
            if message.get("code") == "lease_ended" and self._is_lease_over():
                return  # it did not act: no failure, but the end that the clock makes
            self._answered(Reach.MARKED)
            self._failed(message)

    def _answered(self, reach: Reach) -> None:
        self._reach = reach
        self._kill_at = protocol.boottime() + RESULT_GRACE

    def _failed(self, message: dict[str, Any]) -> None:
        text = str(message.get("message") or "the hook failed and did not say why")
        error = {
            "code": str(message.get("code") or "hook_failed"),
            "message": text[: protocol.TEXT_LIMIT],
        }
        after = message.get("retry_after")
        self._conclude(
            "failed",
            error,
            retryable=message.get("retryable") is not False,
            retry_after=after if isinstance(after, int | float) and 0 <= after < _YEAR else None,
        )

    def _nonsense(self, error: protocol.Nonsense) -> None:
        self._from_hook.close()
        if self._end is not None:
            return
        self._reach = Reach.TREE
        self._conclude(
            "failed",
            {"code": "protocol_broken", "message": f"the hook broke the protocol: {error}"},
        )
        self._kill_at = 0.0

    def _read_output(self, descriptor: int) -> bool:
        """Pass one chunk on; False when there was none."""
        try:
            chunk = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return False
        if not chunk:
            del self._outputs[descriptor]
            os.close(descriptor)
            return False
        if len(chunk) < _CHUNK // 2:  # a full pipe has gaps: lines do not cross its pages
            self._rests_until = protocol.boottime() + _REST
        elif descriptor not in self._widened:
            self._widen(descriptor)
        self._relay.output(self._outputs[descriptor], chunk)
        return True

    def _widen(self, descriptor: int) -> None:
        """Let more fit into the pipe; what the kernel refuses was only faster."""
        self._widened.add(descriptor)
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _WIDE)

    def _drain_outputs(self) -> None:
        """Read what was printed before the end; a service may hold the pipe open and go on."""
        for descriptor in list(self._outputs):
            for _ in range(64):
                if not self._read_output(descriptor):
                    break

    def _no_result(self) -> dict[str, Any]:
        code = os.waitstatus_to_exitcode(self._status)
        how = (
            f"with exit code {code}" if code >= 0 else f"by signal {-code} ({_signal_name(-code)})"
        )
        error = {
            "code": "no_result",
            "message": f"the hook's process ended {how} and without a result",
        }
        return {"type": "end", "result": "failed", "error": error, "retryable": True}

    # One look around

    def _round(self) -> None:
        begun = protocol.boottime()
        is_held = self._line.outbox.is_full and self._held < HOLD_LIMIT
        ready = self._poll(self._wanted(is_held=is_held), self._patience(is_held=is_held))
        if is_held:
            self._held += protocol.boottime() - begun
        for descriptor in ready:
            self._attend(descriptor)

    def _wanted(self, *, is_held: bool) -> dict[int, int]:
        wanted = {}
        if not self._line.inbox.is_ended:
            wanted[self._line.inbox.descriptor] = select.POLLIN
        if not self._has_ended:
            wanted[self._hook.alive] = select.POLLIN
        for outbox in (self._line.outbox, self._to_hook):
            if not outbox.is_empty and not outbox.is_broken:
                wanted[outbox.descriptor] = select.POLLOUT
        if not is_held:
            if self._rests_until <= protocol.boottime():
                wanted |= dict.fromkeys(self._outputs, select.POLLIN)
            if not self._from_hook.is_ended:
                wanted[self._from_hook.descriptor] = select.POLLIN
        return wanted

    def _patience(self, *, is_held: bool) -> float:
        """Seconds until something must be looked at whether or not anything happens."""
        now = protocol.boottime()
        ends = [self._ends_at if self._end is None else None, self._lease_until, self._kill_at]
        waits = [_LOOK, *(end - now for end in ends if end is not None)]
        if now < self._rests_until:
            waits.append(self._rests_until - now)
        if is_held or self._has_ended:
            waits.append(_SHORT_LOOK)
        return max(0.0, min(waits))

    @staticmethod
    def _poll(wanted: dict[int, int], seconds: float) -> list[int]:
        poll = select.poll()
        for descriptor, events in wanted.items():
            poll.register(descriptor, events)
        return [descriptor for descriptor, _ in poll.poll(math.ceil(seconds * 1000))]

    def _attend(self, descriptor: int) -> None:
        if descriptor == self._line.inbox.descriptor:
            self._attend_worker()
        elif descriptor == self._hook.alive:
            self._reap()
        elif descriptor == self._line.outbox.descriptor:
            self._line.outbox.flush()
        elif descriptor == self._to_hook.descriptor:
            self._to_hook.flush()
        elif descriptor == self._from_hook.descriptor:
            # What was printed before these words stands before them.
            for printed in list(self._outputs):
                self._read_output(printed)
            self._hear_hook()
        elif descriptor in self._outputs:
            self._read_output(descriptor)

    def _attend_worker(self) -> None:
        for line in self._line.inbox.read():
            self.hear_worker(line)
        if self._line.inbox.is_ended:
            self._kill("worker_gone", "the worker went away")


_YEAR: Final = 366 * 86400
_REASONS: Final = {
    "timed_out": "the hook took longer than its timeout",
    "cancelled": "the hook was cancelled",
    "interrupted": "the hook was stopped with its worker",
}


def _is_readable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"
