"""Asking again: how often, how long, and when not."""

from dataclasses import replace

import pytest

from manent_cli.errors import Failure, Problem, Unreachable
from manent_cli.pace import Deadline, Pace, insist


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self):
        self.now = 100.0
        self.slept = []

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def pace(clock):
    return replace(Pace(), monotonic=lambda: clock.now, sleep=clock.sleep)


def ask(pace, failures, *, limit=None):
    """Ask a server that fails like this, then answers; what came, and what was told."""
    left, told, given = list(failures), [], []

    def call(timeout):
        given.append(timeout)
        if left:
            raise left.pop(0)
        return "answer"

    got = insist(call, pace=pace, deadline=Deadline(pace, limit), trouble=told.append)
    return got, told, given


CUT = Unreachable("http://x", "the connection was cut")


def test_the_first_answer_is_taken_at_once(pace, clock):
    assert ask(pace, []) == ("answer", [], [30.0])
    assert clock.slept == []


def test_the_pauses_grow_to_the_longest(pace, clock):
    got, told, _ = ask(pace, [CUT] * 8)
    assert (got, len(told)) == ("answer", 8)
    assert clock.slept[:3] == [0.25, 0.375, 0.5625]
    assert clock.slept[-2:] == [2.0, 2.0]


def test_the_last_failure_comes_out_when_the_time_is_over(pace, clock):
    with pytest.raises(Unreachable):
        ask(pace, [CUT] * 100, limit=5.0)
    assert clock.now == 105.0


def test_a_try_that_was_cut_off_ends_in_the_words_of_the_answer_before_it(pace, clock):
    """The server was reached and said why; our own patience ended the last try."""
    busy = {"detail": "the disk is full", "title": "Not available now", "next": "make room"}
    answers = [Problem(503, busy), Unreachable("http://x", "no answer in time", is_cut_off=True)]

    def call(_: float) -> None:
        clock.now += 6.0
        raise answers.pop(0) if len(answers) > 1 else answers[0]

    with pytest.raises(Unreachable) as ended:
        insist(call, pace=pace, deadline=Deadline(pace, 10.0), trouble=lambda _: None)
    assert (ended.value.what, ended.value.next) == ("the disk is full", "make room")
    assert "the last try got no answer in time" in ended.value.why


def test_a_request_may_take_no_longer_than_what_is_left(pace):
    _, _, given = ask(pace, [CUT] * 3, limit=5.0)
    assert given == [5.0, 4.75, 4.375, 3.8125]


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 501])
def test_a_refusal_is_not_asked_about_again(pace, clock, status):
    with pytest.raises(Problem):
        ask(pace, [Problem(status, {})])
    assert clock.slept == []


def test_what_will_not_mend_is_not_waited_out(pace, clock):
    for failure in (Unreachable("http://x", "bad certificate", is_passing=False), Failure("no")):
        with pytest.raises(Failure):
            ask(pace, [failure])
    assert clock.slept == []


def test_a_server_that_fails_six_times_in_a_row_is_given_up(pace):
    broken = [Problem(500, {})] * 5
    assert ask(pace, broken)[0] == "answer"
    assert ask(pace, [*broken, CUT, *broken])[0] == "answer"
    with pytest.raises(Problem):
        ask(pace, [*broken, Problem(500, {})])


@pytest.mark.parametrize(("asked", "pause"), [(None, 0.25), (0.0, 0.25), (7.0, 7.0), (3600, 30.0)])
def test_a_server_that_asks_for_time_gets_it_within_reason(pace, clock, asked, pause):
    ask(pace, [Problem(503, {}, retry_after=asked)])
    assert clock.slept == [pause]


def test_without_a_limit_there_is_always_time_left(pace):
    deadline = Deadline(pace, None)
    assert (deadline.is_over, deadline.left(30.0)) == (False, 30.0)
    assert Deadline(pace, 0.0).is_over
