"""Sizes: binary units, nothing guessed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manent_server.domain import size


@pytest.mark.parametrize(
    ("text", "value"), [("16KiB", 16384), ("50MiB", 52428800), ("1GiB", 1 << 30), ("7B", 7)]
)
def test_a_size_is_read(text: str, value: int) -> None:
    assert size.parse(text) == value
    assert size.show(value) == text


@pytest.mark.parametrize(
    "text", ["", "16", "16KB", "16kib", "1.5MiB", "-1B", " 1B", "1 KiB", "1KiB\n", "٣B", "9999TiB"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        size.parse(text)


@given(st.integers(0, 1024**5))
def test_what_is_shown_is_read_back(value: int) -> None:
    assert size.parse(size.show(value)) == value
