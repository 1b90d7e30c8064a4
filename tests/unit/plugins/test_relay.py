import os
from collections.abc import Iterator
from typing import Any

import pytest

from manent_server.plugins import protocol
from manent_server.plugins.events import Heartbeat, LogLine, events_of, one_by_one
from manent_server.plugins.outbox import Inbox, Outbox
from manent_server.plugins.relay import Relay


class Wire:
    """A relay over a real pipe, and what came out of it."""

    def __init__(self, limit: int) -> None:
        reader, writer = os.pipe()
        self._inbox = Inbox(reader)
        self.outbox = Outbox(writer, limit=limit)
        self.relay = Relay(self.outbox, line_limit=100)

    def messages(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while lines := self._inbox.read():
            found += [protocol.decode_with_text(line) for line in lines]
            self.outbox.flush()
        return found

    def events(self) -> list[Any]:
        said = [event for message in self.messages() for event in events_of(message)]
        return list(one_by_one(said))

    def texts(self) -> list[str]:
        return [event.text for event in self.events()]

    def close(self) -> None:
        self._inbox.close()
        self.outbox.close()


@pytest.fixture
def wire() -> Iterator[Wire]:
    wire = Wire(limit=1_000_000)
    yield wire
    wire.close()


@pytest.fixture
def narrow() -> Iterator[Wire]:
    """A worker that does not read: the pipe is full, nothing more may wait."""
    wire = Wire(limit=1)
    while wire.outbox.is_empty:
        wire.outbox.put(b"{}" * 5000 + b"\n")
    yield wire
    wire.close()


def drain(wire: Wire) -> None:
    while wire._inbox.read():
        wire.outbox.flush()


def test_output_and_words_come_in_their_streams(wire: Wire) -> None:
    wire.relay.output("out", b"one\ntwo")
    wire.relay.say("warning", "three")
    wire.relay.say("odd", "four\nfive")
    wire.relay.flush()
    wire.relay.close()
    assert [event[:3] for event in wire.events()] == [
        ("out", "info", "one"),
        ("log", "warning", "three"),
        ("log", "info", "four"),
        ("log", "info", "five"),
        ("out", "info", "two"),
    ]


def test_words_have_the_limit_of_lines(wire: Wire) -> None:
    wire.relay.say("info", "x" * 150)
    wire.relay.close()
    assert wire.texts() == [f"{'x' * 100} [50 more bytes of this line were cut]"]


def test_what_does_not_fit_is_dropped_and_named(narrow: Wire) -> None:
    """B102: the gap is named where it is, and the last lines before there is room are kept."""
    for number in range(500):
        narrow.relay.output("out", f"{number}\n".encode())
    drain(narrow)
    narrow.relay.output("out", b"again\n")
    texts = narrow.texts()
    assert texts[0].startswith("[400 lines were dropped here")
    assert texts[1:] == [*map(str, range(400, 500)), "again"]


def test_the_last_lines_always_fit(narrow: Wire) -> None:
    narrow.relay.output("err", b"why\n")
    narrow.relay.end()
    narrow.relay.output("out", b"last\n")
    narrow.relay.close()
    drained: list[str] = []
    while lines := narrow._inbox.read():
        said = [line for line in lines if line.startswith(b'{"')]
        drained += [protocol.decode_with_text(line)["text"] for line in said]
        narrow.outbox.flush()
    assert drained[-2:] == ["why", "last"]


def test_only_the_newest_heartbeat_waits(narrow: Wire) -> None:
    narrow.relay.heartbeat({"checkpoint": 1, "progress": "a"})
    narrow.relay.flush()
    narrow.relay.heartbeat({"progress": "b"})
    drain(narrow)
    narrow.relay.flush()
    assert narrow.events() == [Heartbeat(1, "b")]


def test_a_checkpoint_that_is_too_large_is_refused_aloud(wire: Wire) -> None:
    wire.relay.heartbeat({"checkpoint": "x" * 70_000, "progress": "x" * 70_000})
    wire.relay.close()
    line, beat = wire.events()
    assert isinstance(line, LogLine)
    assert "more than 64 KiB" in line.text
    assert beat == Heartbeat(None, None)


def test_other_messages_are_no_events() -> None:
    assert events_of({"type": "exit"}) == []
