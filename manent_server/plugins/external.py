"""External plugins: any executable; asked once what it can do, by its `describe` call."""

import contextlib
import fcntl
import hashlib
import os
import select
import shutil
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from manent_server.plugins import launch, protocol
from manent_server.plugins.outbox import Inbox, Outbox
from manent_server.plugins.target import EFFECTS
from manent_server.sdk.hooks import TARGET_HOOKS

DESCRIBE_SECONDS: Final = 10.0
_LIMIT: Final = 1024 * 1024


class NotDescribed(Exception):
    """The executable did not say what it is."""


@dataclass(frozen=True, slots=True)
class Description:
    """What an external plugin says about itself.

    Attributes:
        hooks: The hooks it has.
        options: JSON schema of its options; None when it takes any.
        effects: `idempotent` or `once`.
        templates: Paths of the options in which `{application}` and its like are filled in.
        needs_artifact: Whether it can do nothing for a version without an artifact.
    """

    hooks: frozenset[str]
    options: dict[str, Any] | None
    effects: str
    templates: frozenset[str]
    needs_artifact: bool = False


def describe(argv: Sequence[str], *, seconds: float = DESCRIBE_SECONDS) -> Description:
    """Ask an executable what it can do.

    Raises:
        NotDescribed: It cannot be started, says nonsense or nothing, or takes too long.
    """
    call_reader, call_writer = os.pipe()
    answer_reader, answer_writer = os.pipe()
    question, answer = Outbox(call_writer, limit=1), Inbox(answer_reader, limit=_LIMIT)
    try:
        pid = _start(argv, call_reader, answer_writer)
        try:
            question.put(protocol.encode({"type": "describe", "protocol": protocol.VERSION}))
            return description_of(_first(answer, seconds))
        finally:
            _end(pid)
    except OSError as error:
        raise NotDescribed(f"cannot be started: {error.strerror}") from error
    except protocol.Nonsense as error:
        raise NotDescribed(f"does not describe itself: {error}") from None
    finally:
        question.close()
        answer.close()


def build(argv: Sequence[str]) -> str:
    """The digest of the executable, which tells one build of it from another."""
    path = shutil.which(argv[0]) or argv[0]
    with contextlib.suppress(OSError):
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    return "unknown"


def description_of(message: dict[str, Any]) -> Description:
    """The checked description.

    Raises:
        protocol.Nonsense: It is not one.
    """
    if message["type"] != "description":
        raise protocol.Nonsense(f"answered {message['type']!r} to describe")
    hooks = _texts(message, "hooks")
    unknown = sorted(hooks - TARGET_HOOKS)
    if unknown or "deploy" not in hooks:
        raise protocol.Nonsense(f"unknown hook {unknown[0]}" if unknown else "has no hook deploy")
    effects = message.get("effects") or "idempotent"
    if effects not in EFFECTS:
        raise protocol.Nonsense(f"effects must be idempotent or once, not {effects!r}")
    options = message.get("options")
    if options is not None and not isinstance(options, dict):
        raise protocol.Nonsense("options must be a JSON schema")
    needs = message.get("needs_artifact") or False
    if not isinstance(needs, bool):
        raise protocol.Nonsense("needs_artifact must be true or false")
    return Description(hooks, options, str(effects), _texts(message, "templates"), needs)


def _texts(message: dict[str, Any], key: str) -> frozenset[str]:
    value = message.get(key) or []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise protocol.Nonsense(f"{key} must be a list of texts")
    return frozenset(value)


def _start(argv: Sequence[str], reader: int, writer: int) -> int:
    """Start it with the descriptors every hook has; both ends given are closed here."""
    high = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 64) for end in (reader, writer)]
    os.close(reader)
    os.close(writer)
    numbers = (launch.PROTOCOL_IN, launch.PROTOCOL_OUT)
    empty = [(os.POSIX_SPAWN_OPEN, n, os.devnull, os.O_RDWR, 0) for n in range(3)]
    ends = [(os.POSIX_SPAWN_DUP2, end, n) for end, n in zip(high, numbers, strict=True)]
    try:
        return os.posix_spawnp(
            argv[0],
            list(argv),
            launch.environment(""),
            file_actions=[*empty, *ends],
            setsid=True,
        )
    finally:
        for end in high:
            os.close(end)


def _first(answer: Inbox, seconds: float) -> dict[str, Any]:
    """The first message that is no log line."""
    until = time.monotonic() + seconds
    while not answer.is_ended:
        left = until - time.monotonic()
        if left <= 0:
            raise protocol.Nonsense(f"no answer within {seconds:g} seconds")
        poll = select.poll()
        poll.register(answer.descriptor, select.POLLIN)
        poll.poll(left * 1000)
        for line in answer.read():
            message = protocol.decode(line)
            if message["type"] != "log":
                return message
    raise protocol.Nonsense("it ended without an answer")


def _end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
