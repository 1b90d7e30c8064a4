"""A file that was made to eat time or memory is refused soon."""

import time

import pytest

from manent_server.settings import document
from tests.unit.settings.test_document import parse

BOMB = b"x: &a0 [1, 1]\n" + b"".join(
    b"x%d: &a%d [*a%d, *a%d, *a%d]\n" % (i, i, i - 1, i - 1, i - 1) for i in range(1, 25)
)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (BOMB, "holds more than 100000 keys and values, aliases counted"),
        (b"[" * 100_000, "is nested deeper than 32"),
        (b"- " * 100_000, "is nested deeper than 32"),
        (b"{a: " * 100_000, "is nested deeper than 32"),
        (b"a: &x [*x]", "alias *x has no finished anchor before it"),
        (b"a: *x", "alias *x has no finished anchor before it"),
        (b"a: " + b"x" * document.MAX_BYTES, "is larger than 1048576 bytes"),
    ],
)
def test_a_file_made_to_exhaust_is_refused_soon(data: bytes, message: str) -> None:
    began = time.monotonic()
    table, errors = parse(data)
    assert table is None
    assert message in errors[0]
    assert time.monotonic() - began < 10
