"""What a hook says, made bounded lines and passed on to the worker in blocks."""

import time
from collections import deque
from itertools import groupby
from typing import Any, Final

from manent_server.plugins import protocol
from manent_server.plugins.lines import Lines
from manent_server.plugins.outbox import Outbox

_LEVELS = frozenset({"debug", "info", "warning", "error"})
_HELD_BACK: Final = 100


class Relay:
    """The guard's half of the log; it never waits for the worker.

    What does not fit is dropped, counted, and named in the log as soon as something fits again.

    Args:
        outbox: The way to the worker.
        line_limit: Bytes a line may have.
    """

    def __init__(self, outbox: Outbox, *, line_limit: int) -> None:
        self._outbox = outbox
        self._limit = line_limit
        self._streams = {name: Lines(line_limit) for name in ("out", "err")}
        self._said: list[str] = []
        self._level = "info"
        self._heartbeat: dict[str, Any] | None = None
        self._held_back: deque[tuple[str, str, str]] = deque(maxlen=_HELD_BACK)
        self._dropped = 0
        self._must_fit = False

    def output(self, stream: str, chunk: bytes) -> None:
        """Take bytes the hook printed."""
        self._pass(stream, "info", self._streams[stream].feed(chunk))

    def say(self, level: str, text: str) -> None:
        """Take a line the hook put in words of the protocol."""
        level = level if level in _LEVELS else "info"
        if level != self._level:
            self.flush()
            self._level = level
        if "\n" in text or len(text) * 4 > self._limit:
            block = Lines(self._limit).feed(text.encode("utf-8", "replace") + b"\n")
            self._said.append(block or "")
        else:
            self._said.append(protocol.clean_text(text))

    def heartbeat(self, message: dict[str, Any]) -> None:
        """Take a heartbeat; only the newest one waits when the worker is slow."""
        checkpoint = message.get("checkpoint")
        if protocol.size(checkpoint) > protocol.OUTPUT_LIMIT:
            self.say("warning", "a checkpoint of more than 64 KiB was not stored")
            checkpoint = None
        progress = message.get("progress")
        if protocol.size(progress) > protocol.OUTPUT_LIMIT:
            progress = None
        waiting = self._heartbeat or {}
        self._heartbeat = {
            "type": "heartbeat",
            "checkpoint": waiting.get("checkpoint") if checkpoint is None else checkpoint,
            "progress": waiting.get("progress") if progress is None else progress,
        }

    def flush(self) -> None:
        """Pass on what was collected from one read."""
        if self._said:
            said, self._said = self._said, []
            self._pass("log", self._level, "\n".join(said))
        if self._heartbeat is not None and (self._must_fit or not self._outbox.is_full):
            self._outbox.put(protocol.encode(self._heartbeat))
            self._heartbeat = None

    def end(self) -> None:
        """From here on everything fits: the last lines are few, and the ones people look for."""
        self._must_fit = True
        self.flush()

    def close(self) -> None:
        """Pass on the lines that had no newline."""
        for name, lines in self._streams.items():
            self._pass(name, "info", lines.end())
        self.flush()
        self._catch_up()

    def _pass(self, stream: str, level: str, block: str | None) -> None:
        if block is None:
            return
        if self._outbox.is_full and not self._must_fit:
            total = len(self._held_back) + block.count("\n") + 1
            last = block.rsplit("\n", _HELD_BACK)[-_HELD_BACK:]
            self._held_back.extend((stream, level, line) for line in last)
            self._dropped += total - len(self._held_back)
            return
        self._catch_up()
        self._put(stream, level, block)

    def _catch_up(self) -> None:
        """Name the gap, then pass on the lines that came last before there was room again."""
        if self._dropped:
            count, self._dropped = self._dropped, 0
            text = f"[{count} lines were dropped here: they came faster than they could be stored]"
            self._put("log", "warning", text)
        held, self._held_back = self._held_back, deque(maxlen=_HELD_BACK)
        for (stream, level), lines in groupby(held, key=lambda line: line[:2]):
            self._put(stream, level, "\n".join(line[2] for line in lines))

    def _put(self, stream: str, level: str, block: str) -> None:
        message = {
            "type": "lines",
            "stream": stream,
            "level": level,
            "at": time.time(),
        }
        self._outbox.put(protocol.encode_with_text(message, block))
