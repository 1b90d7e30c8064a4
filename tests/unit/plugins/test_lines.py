import pytest
from hypothesis import given
from hypothesis import strategies as st

from manent_server.plugins.lines import Lines


def read(data: bytes, limit: int = 1000, *, pieces: int = 1) -> list[str]:
    lines = Lines(limit)
    blocks = [lines.feed(data[at : at + pieces]) for at in range(0, len(data), pieces)]
    blocks.append(lines.end())
    return [line for block in blocks if block is not None for line in block.split("\n")]


@given(st.binary(max_size=200), st.integers(1, 50), st.integers(1, 60))
def test_where_the_chunks_are_cut_makes_no_difference(data: bytes, pieces: int, limit: int) -> None:
    assert read(data, limit, pieces=pieces) == read(data, limit, pieces=1000)


@given(st.lists(st.text(st.characters(exclude_characters="\n\r\0", codec="utf-8")), max_size=20))
def test_text_comes_out_as_it_went_in(texts: list[str]) -> None:
    data = "".join(f"{text}\n" for text in texts).encode()
    assert read(data, pieces=3) == texts


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n\nb", ["a", "", "b"]),
        (b"a\r\nb\r\nc\r", ["a", "b", "c"]),
        (b"10%\r20%\n", ["10%\r20%"]),
        (b"a\0b\n\0", ["a\ufffdb", "\ufffd"]),
        (b"\xff\xfe\nok\n", ["\ufffd\ufffd", "ok"]),
        (b"\xe2\x82\n\xac", ["\ufffd", "\ufffd"]),
        ("\u2028 \x0b \x85\n".encode(), ["\u2028 \x0b \x85"]),
    ],
)
def test_lines_end_at_newlines_only(data: bytes, lines: list[str]) -> None:
    """B99: bytes that are no text cost no line."""
    assert read(data) == lines


def test_a_long_line_is_cut_between_characters() -> None:
    assert read("xäääy\nz".encode(), 4) == ["xä [4 more bytes of this line were cut]", "z"]


def test_a_long_line_of_bytes_that_are_no_text_is_cut_too() -> None:
    assert read(b"\xff\xff\xff\n", 2) == ["\ufffd\ufffd [1 more bytes of this line were cut]"]
