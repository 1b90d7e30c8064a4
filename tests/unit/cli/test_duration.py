"""Durations a person writes."""

import pytest

from manent_cli.duration import seconds
from manent_cli.errors import BadUsage


@pytest.mark.parametrize(
    ("text", "expected"),
    [("5s", 5), ("1h30m", 5400), ("500ms", 0.5), ("1.5m", 90), ("2d", 172800), ("90s", 90)],
)
def test_go_style_durations_are_read(text, expected):
    assert seconds(text, option="--timeout") == expected


@pytest.mark.parametrize(
    "text",
    ["5", "", "0s", "0m0s", "-5s", "5 s", "s", "5x", "5s x", "1e3s", "\u0665s", "5S", "5s-1s"],
)
def test_anything_else_is_refused_with_the_way_to_write_it(text):
    with pytest.raises(BadUsage) as refused:
        seconds(text, option="--timeout")
    assert "--timeout" in refused.value.what
    assert "90s" in refused.value.next
