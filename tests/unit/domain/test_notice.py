"""Who is told what, and what follows from a try."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from manent_server.domain.events import Event
from manent_server.domain.notice import (
    Interest,
    NoticeState,
    Retrying,
    Try,
    Verdict,
    is_down,
    matches,
    shown_status,
    verdict,
    wait,
)

AT = datetime(2027, 1, 31, 18, tzinfo=UTC)
POLICY = Retrying(timedelta(seconds=5), 3, timedelta(minutes=1), timedelta(hours=1))
TRY = Try(number=1, status=500, at=AT, expires_at=AT + timedelta(hours=1))


def event(name: str = "deploy.ended", application: str | None = "shop") -> Event:
    return Event("e1", 1, AT, name, "ann", "d1", application, "staging", {})


@pytest.mark.parametrize(
    ("pattern", "name", "is_meant"),
    [
        ("*", "lock.set", True),
        ("deploy.*", "deploy.ended", True),
        ("deploy.*", "lock.set", False),
        ("deploy.ended", "deploy.ended", True),
        ("deploy.end", "deploy.ended", False),
    ],
)
def test_a_pattern_names_events(pattern: str, name: str, *, is_meant: bool) -> None:
    assert matches(pattern, name) is is_meant


def test_an_interest_narrows_by_place() -> None:
    interest = Interest(("deploy.*",), ("shop",), ("staging",))

    assert interest.wants(event())
    assert interest.wants(event(application=None))
    assert not interest.wants(event(application="mail"))
    assert not interest.wants(event("lock.set"))
    assert not replace(interest, environments=("production",)).wants(event())


def test_nobody_is_told_of_notices_by_a_notice() -> None:
    assert not Interest().wants(event("notice.failed"))
    assert not Interest().wants(event("notice.resent"))
    assert Interest().wants(event("sink.off"))


@pytest.mark.parametrize("status", [200, 202, 204])
def test_an_answer_of_2xx_is_a_receipt(status: int) -> None:
    assert verdict(POLICY, replace(TRY, status=status)) == Verdict(NoticeState.DELIVERED)


@pytest.mark.parametrize("status", [None, 301, 302, 307, 400, 401, 404, 429, 500, 503])
def test_anything_else_is_tried_again(status: int | None) -> None:
    assert verdict(POLICY, replace(TRY, status=status)) == Verdict(
        NoticeState.WAITING, AT + timedelta(seconds=5)
    )


def test_gone_turns_the_sink_off() -> None:
    assert verdict(POLICY, replace(TRY, status=410)) == Verdict(NoticeState.DEAD, turns_off=True)


def test_no_try_is_made_after_the_last_moment() -> None:
    late = replace(TRY, expires_at=AT + timedelta(seconds=4))
    assert verdict(POLICY, late) == Verdict(NoticeState.DEAD)


def test_waits_grow_up_to_the_cap() -> None:
    waits = [wait(POLICY, replace(TRY, number=number)).total_seconds() for number in (1, 2, 3, 9)]
    assert waits == [5, 15, 45, 60]


@pytest.mark.parametrize(("chance", "seconds"), [(0.0, 4), (1.0, 6)])
def test_many_senders_do_not_come_back_at_once(chance: float, seconds: float) -> None:
    assert wait(POLICY, replace(TRY, chance=chance)).total_seconds() == seconds


@pytest.mark.parametrize(("asked", "seconds"), [(1, 5), (30, 30), (3600, 60)])
def test_a_receiver_may_ask_for_a_longer_wait(asked: int, seconds: float) -> None:
    tried = replace(TRY, retry_after=timedelta(seconds=asked))
    assert wait(POLICY, tried).total_seconds() == seconds


@pytest.mark.parametrize(
    ("status", "is_so"),
    [(None, True), (500, True), (503, True), (429, True), (200, False), (400, False), (404, False)],
)
def test_a_receiver_that_is_down_is_told_from_one_that_refuses(
    status: int | None, *, is_so: bool
) -> None:
    assert is_down(status) is is_so


def test_a_status_is_said_in_words() -> None:
    assert shown_status(None) == "no answer"
    assert shown_status(307) == "answered 307: a redirect is not followed"
    assert shown_status(410) == "answered 410: the receiver wants no more"
    assert shown_status(500) == "answered 500"
