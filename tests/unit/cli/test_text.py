"""Text from targets must not drive a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manent_cli.text import clean, clean_line, cut, width


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\ttext", "plain\ttext"),
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("bell\x07", "bell\\x07"),
        ("over\rwrite", "over\\rwrite"),
        ("two\nlines", "two\\nlines"),
        ("c1\x9b31m", "c1\\x9b31m"),
        ("right\u202eto left", "right\\u202eto left"),
        ("Åse, 東京, 🚀", "Åse, 東京, 🚀"),
    ],
)
def test_control_characters_are_written_out(text, shown):
    assert clean(text) == shown


def test_a_log_line_keeps_its_colours_and_nothing_else():
    line = "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b[2Jgone"
    assert clean_line(line) == "\x1b[31mred\x1b[0m \\x1b]0;title\\x07 \\x1b[2Jgone\x1b[0m"
    assert clean_line("plain") == "plain"


@given(st.text())
def test_nothing_shown_moves_a_cursor(text):
    shown = clean(text)
    assert not any(ord(one) < 32 and one != "\t" for one in shown)
    assert "\x7f" not in shown
    assert not any(0x80 <= ord(one) < 0xA0 for one in shown)


@given(st.text(), st.integers(min_value=0, max_value=20))
def test_a_cut_text_fits(text, columns):
    assert width(cut(text, columns)) <= columns
    assert text.startswith(cut(text, columns))


def test_wide_characters_take_two_columns_and_marks_none():
    assert width("東京") == 4
    assert width("e\u0301") == 1
