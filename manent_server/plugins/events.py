"""What a worker hears of a running hook."""

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


class Heartbeat(NamedTuple):
    """Progress of a hook.

    Attributes:
        checkpoint: What the next attempt is to be given; None leaves the one before.
        progress: What people are shown.
    """

    checkpoint: Any
    progress: Any


Event = LogLine | Heartbeat


def events_of(message: dict[str, Any]) -> list[Event]:
    """The events in a message of a guard."""
    if message["type"] == "heartbeat":
        return [Heartbeat(message["checkpoint"], message["progress"])]
    if message["type"] == "lines":
        stream, level, at = message["stream"], message["level"], message["at"]
        return [LogLine(stream, level, text, at) for text in message["lines"]]
    return []
