"""Server-sent events, cut wherever a network cuts."""

import pytest

from manent_cli.sse import Event, events

STREAM = (
    b"retry: 1000\n\n: still here\n\nid: 1\nevent: line\ndata: {}\n\n"
    b"id: 2\r\nevent: line\r\ndata: a\r\ndata: b\r\n\r\nevent: end\ndata:{}\n\n"
)


def test_events_come_whole_with_name_id_and_data():
    assert list(events(STREAM.splitlines(keepends=True))) == [
        Event("line", "{}", "1"),
        Event("line", "a\nb", "2"),
        Event("end", "{}", None),
    ]


@pytest.mark.parametrize("at", range(len(STREAM)))
def test_a_cut_stream_never_gives_half_an_event(at):
    whole = list(events(STREAM.splitlines(keepends=True)))
    got = list(events(STREAM[:at].splitlines(keepends=True)))
    assert got == whole[: len(got)]


def test_bytes_that_are_no_text_do_not_end_the_stream():
    assert list(events([b"data: \xff\xfe\n", b"\n"])) == [Event("message", "\ufffd\ufffd", None)]
