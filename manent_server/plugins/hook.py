"""The process of a Python hook: reads its call, runs the plugin, answers."""

import io
import os
import select
import signal
import sys
import threading
import traceback
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

from manent_server.plugins import inheritance, launch, protocol
from manent_server.plugins.call import GuardCall
from manent_server.plugins.outbox import Inbox
from manent_server.plugins.target import Target
from manent_server.sdk.context import Artifact, Context, Log, Previous
from manent_server.sdk.errors import HookFailure, PermanentFailure, RetryLater


class Hooks:
    """What runs Python hooks: the plugins of this process.

    Args:
        targets: The plugins that could be loaded, by name.
        broken: Why the others could not.
        folder: The one the server was started in.
    """

    def __init__(
        self, targets: Mapping[str, Target], broken: Mapping[str, str], *, folder: Path
    ) -> None:
        self._folder = folder
        self._targets = targets
        self._broken = broken

    def refusal(self, plugin: str, hook: str) -> str | None:
        """Why this hook cannot be run here at all; None when it can."""
        if plugin in self._broken:
            return f"the plugin {plugin} is broken: {self._broken[plugin]}"
        if plugin not in self._targets:
            return f"no plugin {plugin} is installed here"
        if self._targets[plugin].hook_for(hook) is None:
            return f"the plugin {plugin} has no hook {hook}"
        return None

    def prepare(self) -> None:
        """Give a plugin the streams and the environment any process expects."""
        sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False))
        sys.stdout, sys.stderr = _stream(1), _stream(2)
        inheritance.hand_on(launch.LOCK)
        _set_environment(launch.environment(""))
        _rehearse()

    def serve(self, call: GuardCall) -> NoReturn:
        """Be the hook's process: run the one call it was started for, and end."""
        os.environ[protocol.ATTEMPT_VARIABLE] = call.attempt  # noqa: TID251 - made here
        channel = HookChannel(launch.PROTOCOL_IN, launch.PROTOCOL_OUT)
        signal.signal(signal.SIGTERM, lambda *_: channel.cancel())
        try:
            answer = self._answer(call, channel)
        except BaseException as error:  # noqa: BLE001 - whatever a plugin raises is its answer
            answer = failure(error)
        _flush_output()
        channel.send(answer)
        os._exit(0)

    def _answer(self, call: GuardCall, channel: "HookChannel") -> dict[str, Any]:
        message = channel.await_call()
        if not channel.is_owner():
            raise PermanentFailure("the lease was over", code="lease_ended")
        target = self._targets[call.plugin]
        context = context_of(
            message["context"], target=target, channel=channel, folder=self._folder
        )
        outputs = target.run(call.hook, context)
        answer = {"type": "result", "outputs": outputs}
        protocol.encode(answer)
        return answer


class HookChannel:
    """The hook's end of the protocol.

    Nothing listens in the background: what the guard says is read when the plugin asks.

    Args:
        reader: Descriptor of MANENT_PROTOCOL_IN.
        writer: Descriptor of MANENT_PROTOCOL_OUT.
    """

    def __init__(self, reader: int, writer: int) -> None:
        self._inbox = Inbox(reader)
        self._writer = writer
        self._lock = threading.RLock()
        self._lease_until: float | None = None
        self._is_cancelled = False
        self._early: list[bytes] = []

    def await_call(self) -> dict[str, Any]:
        """The first message, which is the call."""
        while not self._early:
            if self._inbox.is_ended:
                raise EOFError("the guard went away before it made its call")
            _await(self._inbox.descriptor)
            self._early += self._inbox.read()
        call = protocol.decode(self._early.pop(0))
        self._lease_until = call.get("lease_until")
        return call

    def close(self) -> None:
        """Give both descriptors up."""
        self._inbox.close()
        os.close(self._writer)

    def cancel(self) -> None:
        """The hook is to stop."""
        self._is_cancelled = True

    def log(self, level: str, text: str) -> None:
        """See `sdk.context.Channel`."""
        self.send({"type": "log", "level": level, "text": text})

    def heartbeat(self, *, checkpoint: Any, progress: Any) -> None:
        """See `sdk.context.Channel`."""
        if protocol.size(checkpoint) > protocol.OUTPUT_LIMIT:
            raise ValueError("a checkpoint may have 64 KiB of JSON")
        self.send({"type": "heartbeat", "checkpoint": checkpoint, "progress": progress})

    def is_owner(self) -> bool:
        """See `sdk.context.Channel`."""
        self._listen()
        return self._lease_until is None or protocol.boottime() < self._lease_until

    def is_cancelled(self) -> bool:
        """See `sdk.context.Channel`."""
        self._listen()
        return self._is_cancelled

    def send(self, message: dict[str, Any]) -> None:
        """Say something to the guard, waiting until it listens."""
        rest = protocol.encode(message)
        with self._lock:
            while rest:
                rest = rest[os.write(self._writer, rest) :]

    def _listen(self) -> None:
        with self._lock:
            lines, self._early = self._early + self._inbox.read(), []
            for line in lines:
                message = protocol.decode(line)
                if message["type"] == "lease":
                    self._lease_until = message["until"]
                elif message["type"] == "cancel":
                    self._is_cancelled = True


def context_of(
    values: Mapping[str, Any], *, target: Target, channel: HookChannel, folder: Path
) -> Context:
    """The typed context of a call."""
    artifact, previous = values.get("artifact"), values.get("previous")
    return Context(
        deploy=values["deploy"],
        kind=values["kind"],
        application=values["application"],
        environment=values["environment"],
        target=values["target"],
        options=target.typed_options(values.get("options") or {}),
        version=values["version"],
        from_version=values.get("from_version"),
        artifact=artifact and Artifact(Path(artifact["path"]), artifact["sha256"]),
        configuration=values.get("configuration") or {},
        secrets=values.get("secrets") or {},
        previous=previous and Previous(previous.get("version"), previous.get("outputs") or {}),
        outputs=values.get("outputs") or {},
        idempotency_key=values["idempotency_key"],
        attempt=values["attempt"],
        epoch=values["epoch"],
        checkpoint=values.get("checkpoint"),
        completed=tuple(values.get("completed") or ()),
        workdir=Path.cwd(),
        folder=folder,
        log=Log(channel),
        channel=channel,
        traceparent=values.get("traceparent"),
    )


def failure(error: BaseException) -> dict[str, Any]:
    """The `error` message for what a plugin raised."""
    answer: dict[str, Any] = {"type": "error", "retryable": True, "code": "hook_failed"}
    if isinstance(error, HookFailure):
        answer |= {"code": error.code, "message": error.message}
        answer["retryable"] = not isinstance(error, PermanentFailure)
        if isinstance(error, RetryLater) and isinstance(error.after, timedelta):
            answer["retry_after"] = error.after.total_seconds()
    else:
        traceback.print_exception(error, file=sys.stderr)
        answer["message"] = f"{type(error).__name__}: {error}"[: protocol.TEXT_LIMIT]
    return answer


def _set_environment(variables: Mapping[str, str]) -> None:
    own = os.environ  # noqa: TID251 - the hook's environment is made here
    own.clear()
    own.update(variables)


def _rehearse() -> None:
    """Touch, while nobody waits, the memory a call will need: its first use costs most."""
    reader, writer = os.pipe()
    channel = HookChannel(reader, writer)
    channel.log("info", "rehearsal")
    channel.await_call()
    channel.is_owner()
    channel.close()


def _stream(descriptor: int) -> io.TextIOWrapper:
    raw = io.FileIO(descriptor, "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding="utf-8", errors="backslashreplace", line_buffering=True
    )


def _flush_output() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue  # the plugin closed it


def _await(descriptor: int) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    poll.poll()
