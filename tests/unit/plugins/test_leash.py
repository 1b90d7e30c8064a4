"""The worker's end of a guard never waits for it, whatever state it is in."""

import os
from collections.abc import Iterator

import pytest

from manent_server.plugins import protocol
from manent_server.plugins.leash import Leash


class Far:
    """The guard's ends of both pipes."""

    def __init__(self) -> None:
        self.reader, writer = os.pipe()
        reader, self.writer = os.pipe()
        self.leash = Leash(writer, reader)

    def close(self) -> None:
        for end in (self.reader, self.writer):
            try:
                os.close(end)
            except OSError:
                continue


@pytest.fixture
def far() -> Iterator[Far]:
    far = Far()
    yield far
    far.leash.close()
    far.close()


def test_what_is_told_arrives(far: Far) -> None:
    far.leash.send(b"one\n", b"two\n")
    assert os.read(far.reader, 100) == b"one\ntwo\n"
    assert not far.leash.is_behind


def test_a_guard_that_does_not_listen_is_not_waited_for(far: Far) -> None:
    """It gets the rest when it does, while its answers are awaited."""
    line = b"x" * 99_999 + b"\n"
    far.leash.send(line)
    far.leash.send(line)
    assert far.leash.is_behind
    os.write(far.writer, protocol.encode({"type": "started"}) + protocol.encode({"type": "exit"}))
    read = 0
    for _ in far.leash.messages():
        while read < 200_000 and far.leash.is_behind:
            read += len(os.read(far.reader, 65536))
            far.leash.send()
        break
    assert not far.leash.is_behind


def test_a_guard_that_is_gone_is_told_nothing(far: Far) -> None:
    far.close()
    far.leash.send(b"x" * 200_000)
    assert not far.leash.is_behind
    assert list(far.leash.messages()) == []


def test_a_leash_that_was_let_go_tells_nothing(far: Far) -> None:
    far.leash.close()
    far.leash.close()
    far.leash.send(b"late\n")
    assert os.read(far.reader, 100) == b""
