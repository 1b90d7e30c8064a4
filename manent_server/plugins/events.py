"""What a worker hears of a running hook."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple

Stream = Literal["out", "err", "log"]


class LogLine(NamedTuple):
    """One line of the log.

    Attributes:
        stream: `out` and `err` were printed, `log` was said by the hook or its guard.
        level: debug, info, warning or error.
        text: Without its newline; bounded, without NUL.
        at: When the guard read it, in seconds since 1970 on the worker's machine.
    """

    stream: Stream
    level: str
    text: str
    at: float | None = None


class LogBlock(NamedTuple):
    """Consecutive lines of one stream, as they come: a flood is not taken apart on its way.

    Attributes:
        stream: As of a line.
        level: As of a line.
        text: One line or more, joined by newlines.
        at: When the guard read them.
    """

    stream: Stream
    level: str
    text: str
    at: float | None = None


class Heartbeat(NamedTuple):
    """Progress of a hook.

    Attributes:
        checkpoint: What the next attempt is to be given; None leaves the one before.
        progress: What people are shown.
    """

    checkpoint: Any
    progress: Any


Event = LogLine | LogBlock | Heartbeat


def one_by_one(events: Iterable[Event]) -> Iterator[LogLine | Heartbeat]:
    """The same with every block taken apart into its lines."""
    for event in events:
        if isinstance(event, LogBlock):
            stream, level, text, at = event
            yield from (LogLine(stream, level, line, at) for line in text.split("\n"))
        else:
            yield event


def events_of(message: dict[str, Any]) -> list[Event]:
    """The events in a message of a guard."""
    if message["type"] == "heartbeat":
        return [Heartbeat(message["checkpoint"], message["progress"])]
    if message["type"] == "lines":
        return [LogBlock(message["stream"], message["level"], message["text"], message["at"])]
    return []
