"""What a process remembers of the times in which its database did not answer."""

import time

import pytest

from manent_server.store.repeat import Outages


@pytest.fixture
def outages() -> Outages:
    return Outages("postgresql://db/manent")


def away(outages: Outages, *, seconds: float) -> None:
    outages.began(OSError("connection refused"), since=time.monotonic() - seconds)


def test_nothing_is_missing_while_it_answers(outages: Outages):
    outages.ended()
    assert outages.within(60) == 0


def test_an_outage_counts_as_far_as_it_lies_in_the_time_asked_for(outages: Outages):
    away(outages, seconds=100)
    assert outages.within(60) == pytest.approx(60, abs=5)
    outages.ended()
    assert outages.within(60) == pytest.approx(60, abs=5)
    assert outages.within(500) == pytest.approx(100, abs=5)


def test_the_second_error_of_an_outage_begins_none(outages: Outages):
    away(outages, seconds=30)
    away(outages, seconds=1)
    assert outages.within(60) == pytest.approx(30, abs=5)


def test_only_the_last_ones_are_kept(outages: Outages):
    for _ in range(1000):
        away(outages, seconds=0)
        outages.ended()
    assert len(outages._past) == 32
