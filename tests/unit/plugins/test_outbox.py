import os
from collections.abc import Iterator

import pytest

from manent_server.plugins import protocol
from manent_server.plugins.outbox import Inbox, Outbox

Pipe = tuple[int, int]


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    reader, writer = os.pipe()
    yield reader, writer
    for end in (reader, writer):
        try:
            os.close(end)
        except OSError:
            continue


def test_a_full_pipe_is_never_waited_for(pipe: Pipe) -> None:
    outbox = Outbox(pipe[1], limit=300_000)
    line = b"x" * 99_999 + b"\n"
    written = 0
    while not outbox.is_full:
        outbox.put(line)
        written += 1
    assert written == 4  # what the pipe took, and then what the limit allows
    inbox = Inbox(pipe[0])
    read = 0
    while not outbox.is_empty:
        read += len(inbox.read())
        outbox.flush()
    while read < written:
        read += len(inbox.read())
    assert not outbox.is_full


def test_a_pipe_nobody_reads_is_given_up(pipe: Pipe) -> None:
    os.close(pipe[0])
    outbox = Outbox(pipe[1], limit=10)
    outbox.put(b"line\n")
    assert outbox.is_broken
    outbox.put(b"more\n")
    assert outbox.is_empty


def test_lines_are_put_together_from_pieces(pipe: Pipe) -> None:
    inbox = Inbox(pipe[0])
    assert inbox.read() == []
    os.write(pipe[1], b"one\ntw")
    assert inbox.read() == [b"one"]
    os.write(pipe[1], b"o\n\nthree\n")
    assert inbox.read() == [b"two", b"three"]
    os.close(pipe[1])
    assert inbox.read() == []
    assert inbox.is_ended


def test_a_line_without_end_is_refused(pipe: Pipe) -> None:
    inbox = Inbox(pipe[0], limit=10)
    os.write(pipe[1], b"x" * 11)
    with pytest.raises(protocol.Nonsense, match="a line of more than 10 bytes"):
        inbox.read()


def test_closing_twice_is_no_error(pipe: Pipe) -> None:
    outbox, inbox = Outbox(pipe[1], limit=1), Inbox(pipe[0])
    for end in (outbox, inbox, outbox, inbox):
        end.close()
    assert inbox.is_ended
    assert outbox.is_broken
