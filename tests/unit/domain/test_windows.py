"""Windows: recurring hours in which deploys may, or may not, start."""

import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manent_server.domain import windows
from manent_server.domain.windows import Window

HOURS = timedelta(hours=1)
OFFICE = Window(
    allows=True,
    rule="FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=9",
    duration=8 * HOURS,
    timezone="Europe/Rome",
)
FRIDAY = Window(
    allows=False,
    rule="FREQ=WEEKLY;BYDAY=FR;BYHOUR=15",
    duration=2 * HOURS,
    timezone="Europe/Rome",
    reason="weekend",
)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(
    ("instant", "since", "until"),
    [
        ("2026-11-30T09:00+01:00", None, None),
        ("2026-11-30T08:59+01:00", "2026-11-27T17:00+01:00", "2026-11-30T09:00+01:00"),
        ("2026-11-30T17:00+01:00", "2026-11-30T17:00+01:00", "2026-12-01T09:00+01:00"),
        # Denied at the end of the last day of the week: open again on Monday.
        ("2026-11-27T15:00+01:00", "2026-11-27T15:00+01:00", "2026-11-30T09:00+01:00"),
        # In summer the same hours of the clock are others of UTC.
        ("2026-07-06T08:59+02:00", "2026-07-03T17:00+02:00", "2026-07-06T09:00+02:00"),
        ("2026-07-06T09:00+02:00", None, None),
    ],
)
def test_deny_beats_allow(instant: str, since: str | None, until: str | None):
    shut = windows.shut((OFFICE, FRIDAY), at=at(instant))
    assert (shut is None) == (until is None)
    if shut is not None and since is not None and until is not None:
        assert (shut.since, shut.until) == (at(since), at(until))


def test_a_window_is_as_long_as_it_says_across_a_change_of_clocks():
    night = Window(
        allows=False, rule="FREQ=DAILY;BYHOUR=1", duration=4 * HOURS, timezone="Europe/Rome"
    )
    # 2027-10-31 has 02:00-03:00 twice, 2027-03-28 not at all.
    shut = windows.shut((night,), at=at("2027-10-31T01:30+02:00"))
    assert shut is not None
    assert shut.until == at("2027-10-31T01:00+02:00") + 4 * HOURS
    shut = windows.shut((night,), at=at("2027-03-28T01:30+01:00"))
    assert shut is not None
    assert shut.until == at("2027-03-28T01:00+01:00") + 4 * HOURS


def test_an_instant_in_a_missing_hour_is_moved_after_it():
    night = Window(
        allows=False, rule="FREQ=DAILY;BYHOUR=2;BYMINUTE=30", duration=HOURS, timezone="Europe/Rome"
    )
    assert windows.shut((night,), at=at("2027-03-28T01:29:59+00:00")) is None
    shut = windows.shut((night,), at=at("2027-03-28T01:30+00:00"))
    assert shut is not None
    assert shut.until == at("2027-03-28T02:30+00:00")


def test_a_weekly_window_keeps_its_day_in_its_own_zone():
    """Late on Sunday in Winnipeg is Monday in UTC."""
    sunday = Window(
        allows=False,
        rule="FREQ=WEEKLY;BYDAY=SU;BYHOUR=22",
        duration=2 * HOURS,
        timezone="America/Winnipeg",
    )
    assert windows.shut((sunday,), at=at("2027-01-11T05:00+00:00")) is not None
    assert windows.shut((sunday,), at=at("2027-01-10T05:00+00:00")) is None


def test_denied_for_good_says_that_no_opening_is_known():
    always = Window(allows=False, rule="FREQ=DAILY", duration=timedelta(days=2), timezone="UTC")
    shut = windows.shut((always,), at=datetime(2027, 1, 1, tzinfo=UTC))
    assert shut is not None
    assert shut.until is None


@pytest.mark.parametrize(
    ("rule", "wrong"),
    [
        ("FREQ=WEEKLY;BYDAY=MO", None),
        ("DTSTART:20270101T220000\nRRULE:FREQ=DAILY;INTERVAL=3", None),
        ("FREQ=SOMETIMES", "is no recurrence rule"),
        ("every monday", "is no recurrence rule"),
        ("FREQ=DAILY;UNTIL=20270101T000000Z", "local times"),
        ("FREQ=MINUTELY", "more than 24 times a day"),
        # Four tenths of a second: all years are looked through.
        pytest.param("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "never occurs", marks=pytest.mark.soak),
    ],
)
def test_a_rule_that_cannot_be_used_is_said_to_be(rule: str, wrong: str | None):
    found = windows.check_rule(rule)
    assert (found is None) == (wrong is None)
    assert wrong is None or wrong in (found or "")


_WINDOWS = st.lists(
    st.builds(
        Window,
        allows=st.booleans(),
        rule=st.sampled_from(
            ["FREQ=DAILY;BYHOUR=9", "FREQ=WEEKLY;BYDAY=MO,WE", "FREQ=MONTHLY;BYMONTHDAY=1,28"]
        ),
        duration=st.integers(1, 60).map(lambda hours: hours * HOURS),
        timezone=st.sampled_from(["UTC", "Europe/Rome", "America/Chicago"]),
    ),
    max_size=3,
).map(tuple)


@given(
    _WINDOWS, st.integers(0, 24 * 365).map(lambda n: datetime(2027, 1, 1, tzinfo=UTC) + n * HOURS)
)
def test_it_opens_when_it_says_and_not_before(found: tuple[Window, ...], instant: datetime):
    shut = windows.shut(found, at=instant)
    if shut is None or shut.until is None:
        return
    assert windows.shut(found, at=shut.until) is None
    assert windows.shut(found, at=shut.until - timedelta(seconds=1)) is not None
    assert shut.since is None or shut.since <= instant


def test_an_opening_that_never_comes_is_looked_for_in_no_time():
    """It is asked in transactions, which hold locks meanwhile."""
    never = Window(allows=False, rule="FREQ=DAILY", duration=48 * HOURS, timezone="UTC")
    began = time.process_time()
    for day in range(5):
        shut = windows.shut((never,), at=at("2026-11-30T08:00+00:00") + day * 24 * HOURS)
        assert shut is not None
        assert shut.until is None
    assert time.process_time() - began < 1


def test_what_opens_in_a_far_future_is_looked_for_no_further():
    leap = Window(
        allows=True, rule="FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", duration=HOURS, timezone="UTC"
    )
    shut = windows.shut((leap,), at=at("2026-11-30T08:00+00:00"))
    assert shut is not None
    assert shut.until == at("2028-02-29T00:00+00:00")
