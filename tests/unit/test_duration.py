"""Durations: Go's style in, Go's style out, nothing guessed."""

from contextlib import suppress
from datetime import timedelta

import durationpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manent_server.domain import duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15s", 15),
        ("1m", 60),
        ("1h30m", 5400),
        ("2160h", 90 * 86400),
        ("90d", 90 * 86400),
        ("1.5h", 5400),
        ("200ms", 0.2),
        ("5us", 0.000005),
        ("5µs", 0.000005),
        ("0s", 0),
        ("1d12h", 36 * 3600),
    ],
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert duration.parse(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    [
        *["", " ", "10", "0", "-5s", "+5s", "5", "5 s", "s", "1h30", "12:30", "1.s", ".5s", "5S"],
        *[
            "1w",
            "1mm",
            "1y",
            "٣s",
            "1e3s",
            "1s\n",
            "9999999999999h",
            "1.0000001s",
            "1ns",
            "876001h",
        ],
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        duration.parse(text)


def test_a_number_without_a_unit_is_told_what_to_write() -> None:
    with pytest.raises(ValueError, match="write 10s, 10m or 10h"):
        duration.parse("10")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (timedelta(0), "0s"),
        (timedelta(minutes=1), "1m"),
        (timedelta(hours=1, minutes=30), "1h30m"),
        (timedelta(days=90), "2160h"),
        (timedelta(milliseconds=200), "200ms"),
        (timedelta(milliseconds=1500), "1.5s"),
        (timedelta(microseconds=7), "7us"),
        (timedelta(hours=1, milliseconds=5), "1h0.005s"),
    ],
)
def test_a_duration_is_shown(value: timedelta, text: str) -> None:
    assert duration.show(value) == text


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=36_500)))
def test_what_is_shown_is_read_back_and_has_no_days(value: timedelta) -> None:
    text = duration.show(value)
    assert "d" not in text
    assert duration.parse(text) == value


@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(ValueError):
        assert duration.parse(text) >= timedelta(0)


@given(
    st.lists(
        st.tuples(st.integers(0, 999), st.sampled_from(["ms", "s", "m", "h"])),
        min_size=1,
        max_size=4,
    )
)
def test_values_are_those_of_go(parts: list[tuple[int, str]]) -> None:
    text = "".join(f"{count}{unit}" for count, unit in parts)
    assert duration.parse(text) == durationpy.from_str(text)
