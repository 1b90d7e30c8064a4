import pytest
from hypothesis import given
from hypothesis import strategies as st

from manent_server.plugins import answers, protocol


def test_a_message_survives_the_line() -> None:
    message = {"type": "log", "text": "ä\n\ud83d\ude00"}
    line = protocol.encode(message)
    assert line.count(b"\n") == 1
    assert protocol.decode(line) == {"type": "log", "text": "ä\n\U0001f600"}


@given(st.text(st.characters(exclude_characters="\0", codec="utf-8")))
def test_a_long_text_survives_beside_its_message(text: str) -> None:
    line = protocol.encode_with_text({"type": "lines", "level": "\0"}, text)
    assert line.index(b"\n") == len(line) - 1
    decoded = protocol.decode_with_text(line[:-1])
    assert decoded == {"type": "lines", "level": "\ufffd", "text": text}


def test_a_message_without_a_text_has_none() -> None:
    assert protocol.decode_with_text(protocol.encode({"type": "exit"})) == {"type": "exit"}


@pytest.mark.parametrize(
    "line",
    [b"", b"x", b"1", b"{}", b'{"type": 1}', b"[" * 100_000, b'{"type": "x", "y": Infinity}',
     b'{"type": "a\0b"}', b'{"type": "x", "n": ' + b"9" * 5000 + b"}"],
)  # fmt: skip
def test_what_is_no_message_is_refused(line: bytes) -> None:
    with pytest.raises(protocol.Nonsense) as refusal:
        protocol.decode(line)
    assert len(str(refusal.value)) < 600


def test_what_no_database_stores_is_replaced() -> None:
    line = rb'{"type": "x", "a\u0000": ["\ud800", {"b": "\udfffz"}], "n": null, "e": "\u00e4"}'
    assert protocol.decode(line) == {
        "type": "x", "a\ufffd": ["\ufffd", {"b": "\ufffdz"}], "n": None, "e": "ä",
    }  # fmt: skip


@pytest.mark.parametrize("value", [{1}, float("nan"), object()])
def test_only_json_has_a_size(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        protocol.size(value)


def test_a_size_is_in_bytes() -> None:
    assert protocol.size({"ä": "\udcff"}) == len('{"ä":"???"}'.encode())


@pytest.mark.parametrize(
    ("hook", "value", "expected"),
    [
        ("deploy", None, None),
        ("deploy", {}, None),
        ("deploy", {"a": [1]}, {"a": [1]}),
        ("observe", None, {"version": None, "in_place": None}),
        ("observe", {"version": "v1", "in_place": False}, {"version": "v1", "in_place": False}),
        ("plan", {"changes": ["a"]}, {"changes": ["a"]}),
        ("plan", None, {"changes": []}),
    ],
)
def test_answers_of_the_right_type_pass(hook: str, value: object, expected: object) -> None:
    assert answers.outputs(hook, value) == expected


@pytest.mark.parametrize(
    ("hook", "value"),
    [
        ("deploy", 1),
        ("deploy", "text"),
        ("deploy", True),
        ("deploy", {"a": "x" * 70_000}),
        ("observe", {"in_place": "yes"}),
        ("observe", {"version": 1}),
        ("plan", {"changes": "a"}),
        ("plan", {"changes": [1]}),
    ],
)
def test_answers_of_the_wrong_type_do_not(hook: str, value: object) -> None:
    with pytest.raises(protocol.Nonsense):
        answers.outputs(hook, value)
