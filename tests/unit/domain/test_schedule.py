"""Schedules: the instants of a wall time in a zone, and what is decided of each."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import pairwise, takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manent_server.domain import schedule as schedules
from manent_server.domain.errors import Invalid
from manent_server.domain.schedule import Due, Overlap, Recurrence, Rules, due, recurrence

ROME = "Europe/Rome"
ON_TIME = Rules(timedelta(minutes=2))


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc]


def of_day(cron: str, zone: str, *day: int) -> list[datetime]:
    """The instants of one local day."""
    begin = datetime(*day, tzinfo=ZoneInfo(zone))  # type: ignore[misc]
    end = (begin + timedelta(days=1)).astimezone(UTC)
    every = Recurrence(cron, zone).instants(begin.astimezone(UTC) - timedelta(seconds=1))
    return list(takewhile(lambda instant: instant < end, every))


def test_a_wall_time_that_does_not_exist_fires_when_the_clock_has_moved_on():
    """B83: once, at 03:00 by the new offset, and the next day as ever."""
    every = recurrence("30 2 * * *", ROME)
    found = every.upcoming(utc(2027, 3, 27, 12), 2)
    assert found == [utc(2027, 3, 28, 1), utc(2027, 3, 29, 0, 30)]
    assert every.local(found[0]).isoformat() == "2027-03-28T03:00:00+02:00"


def test_a_wall_time_that_comes_twice_fires_the_first_time():
    """B84"""
    assert of_day("30 2 * * *", ROME, 2027, 10, 31) == [utc(2027, 10, 31, 0, 30)]


@pytest.mark.parametrize("minute", [0, 15, 29, 31, 59])
def test_who_begins_to_look_in_the_repeated_hour_sees_nothing_that_is_over(minute: int):
    """B84"""
    at = utc(2027, 10, 31, 1, minute)
    assert Recurrence("30 2 * * *", ROME).after(at) == utc(2027, 11, 1, 1, 30)


@pytest.mark.parametrize(("day", "count"), [((2027, 10, 31), 50), ((2027, 3, 28), 46)])
def test_each_half_hour_that_is_lived_through_fires_once(day: tuple[int, ...], count: int):
    """B84"""
    found = of_day("*/30 * * * *", ROME, *day)
    assert len(found) == len(set(found)) == count


def test_no_day_is_skipped_over_a_short_one():
    """B86"""
    daily = recurrence("0 10 * * *", "America/Chicago")
    assert daily.after(utc(2027, 3, 13, 20)) == utc(2027, 3, 14, 15)
    weekly = recurrence("15 2 * * 0", "America/Winnipeg")
    assert weekly.upcoming(utc(2027, 3, 8), 2) == [utc(2027, 3, 14, 8), utc(2027, 3, 21, 7, 15)]


@pytest.mark.parametrize("zone", [ROME, "Australia/Lord_Howe", "America/Santiago"])
def test_the_instants_are_the_same_wherever_one_begins_to_look(zone: str):
    every = Recurrence("15 0,2 * * *", zone)
    whole = every.upcoming(utc(2027, 1, 1), 740)
    assert all(earlier < later for earlier, later in pairwise(whole))
    for earlier, later in pairwise(whole):
        assert every.after(earlier) == later
        assert every.after(later - timedelta(seconds=1)) == later


@pytest.mark.parametrize(
    ("cron", "zone", "field"),
    [
        ("", ROME, "cron"),
        ("* * * *", ROME, "cron"),
        ("* * * * * *", ROME, "cron"),
        ("60 * * * *", ROME, "cron"),
        ("@daily", ROME, "cron"),
        ("0 0 30 2 *", ROME, "cron"),
        ("* * * * MON#1/2", ROME, "cron"),
        (f"{'0,' * 100}0 * * * *", ROME, "cron"),
        ("* * * * *", "Mars/Rome", "timezone"),
        ("* * * * *", "", "timezone"),
        ("* * * * *", "localtime", "timezone"),
        ("* * * * *", "../../etc/passwd", "timezone"),
        ("* * * * *", "Europe", "timezone"),
    ],
)
def test_what_never_fires_is_refused(cron: str, zone: str, field: str):
    with pytest.raises(Invalid) as caught:
        recurrence(cron, zone)
    assert caught.value.errors[0]["path"] == field
    assert caught.value.next


@pytest.mark.parametrize(
    ("cron", "words"),
    [("* * * *", "4 of 5 fields"), ("61 * * * *", "minute"), ("0 0 * 13 *", "month")],
)
def test_what_is_wrong_with_an_expression_is_said(cron: str, words: str):
    with pytest.raises(Invalid, match=words):
        recurrence(cron, "UTC")


def test_an_abbreviation_is_not_taken_for_another_ones_clock():
    with pytest.raises(Invalid) as caught:
        recurrence("* * * * *", "CEST")
    assert caught.value.next == "name one like Europe/Rome, or UTC"
    with pytest.raises(Invalid) as caught:
        recurrence("* * * * *", "utc")
    assert caught.value.next == "did you mean UTC?"


def test_a_zone_in_another_case_is_recognised():
    with pytest.raises(Invalid) as caught:
        recurrence("* * * * *", "europe/rome")
    assert caught.value.next == "did you mean Europe/Rome?"


@given(st.text(alphabet="*/,-0123456789LW#MONJA ", max_size=30))
def test_any_text_is_a_schedule_or_refused(text: str):
    with suppress(Invalid):
        assert recurrence(text, "UTC").cron == " ".join(text.split())


TEN = Recurrence("*/10 * * * *", "UTC")
NOON = utc(2027, 6, 1, 12)


def decide(first: datetime, at: datetime, rules: Rules = ON_TIME, most: int = 100) -> Due:
    return due(first, TEN, rules, at=at, most=most)


def test_nothing_is_decided_before_its_time():
    assert decide(NOON, NOON - timedelta(seconds=1)) == Due((), None, is_late=False, next_at=NOON)


@pytest.mark.parametrize("late", [0, 1, 120])
def test_an_instant_fires_on_time_and_a_little_late(late: int):
    found = decide(NOON, NOON + timedelta(seconds=late))
    assert (found.missed, found.fires, found.is_late) == ((), NOON, False)
    assert found.next_at == NOON + timedelta(minutes=10)


def test_too_late_is_missed():
    found = decide(NOON, NOON + timedelta(minutes=5))
    assert (found.missed, found.fires) == ((NOON,), None)


def test_after_an_outage_everything_is_listed_and_nothing_fires():
    """B91: no burst."""
    found = decide(NOON, NOON + timedelta(hours=2, minutes=55))
    assert (len(found.missed), found.fires) == (18, None)


def test_after_an_outage_one_instant_may_be_caught_up_with():
    """B91: at most one, inside its window; the other 17 are listed."""
    at = NOON + timedelta(hours=2, minutes=55)
    found = decide(NOON, at, Rules(ON_TIME.lateness, timedelta(minutes=5)))
    assert (len(found.missed), found.fires, found.is_late) == (17, at - timedelta(minutes=5), True)
    outside = Rules(ON_TIME.lateness, timedelta(minutes=4))
    assert decide(NOON, at, outside).fires is None


def test_what_is_too_much_for_one_look_is_listed_and_looked_at_again():
    found = decide(NOON, NOON + timedelta(minutes=90), most=4)
    assert (len(found.missed), found.fires) == (4, None)
    assert found.next_at == NOON + timedelta(minutes=40)


@pytest.mark.parametrize(
    ("policy", "live", "is_skipped"),
    [
        (Overlap.SKIP, [], False),
        (Overlap.SKIP, [True], True),
        (Overlap.SKIP, [False], True),
        (Overlap.QUEUE, [], False),
        (Overlap.QUEUE, [True], False),
        (Overlap.QUEUE, [True, False], True),
    ],
)
def test_at_most_one_waits(*, policy: Overlap, live: list[bool], is_skipped: bool):
    assert schedules.overlaps(policy, live) == is_skipped


def test_a_takeover_of_the_loop_is_no_reason_to_miss():
    assert schedules.lateness(timedelta(seconds=45)) > timedelta(seconds=90)


CRONS = ["*/10 * * * *", "*/7 * * * *", "30 2 * * *", "0 */2 * * *", "15,45 1-3 * * *"]


@given(
    cron=st.sampled_from(CRONS),
    zone=st.sampled_from(["UTC", ROME, "Australia/Lord_Howe"]),
    start=st.integers(0, 364 * 24 * 60),
    steps=st.lists(st.integers(0, 300), max_size=12),
    most=st.integers(1, 9),
)
def test_however_it_is_looked_at_each_instant_is_decided_once(
    cron: str, zone: str, start: int, steps: list[int], most: int
):
    """I14"""
    every = Recurrence(cron, zone)
    begin = at = utc(2027, 1, 1) + timedelta(minutes=start)
    nxt = every.after(begin)
    decided: list[datetime] = []
    for step in steps:
        at += timedelta(minutes=step)
        assert nxt is not None
        found = due(nxt, every, ON_TIME, at=at, most=most)
        decided += [*found.missed, *([found.fires] if found.fires else [])]
        nxt = found.next_at
    whole = list(takewhile(lambda instant: instant <= at, every.instants(begin)))
    assert decided == whole[: len(decided)]
    assert nxt == (whole[len(decided)] if len(decided) < len(whole) else every.after(at))
