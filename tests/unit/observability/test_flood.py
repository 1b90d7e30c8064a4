"""A library that repeats itself during an outage does not fill the log."""

import logging
from datetime import timedelta

import pytest

from manent_server.observability.flood import FloodFilter


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def flood(clock: Clock) -> FloodFilter:
    return FloodFilter(["noisy"], most=3, window=timedelta(minutes=1), clock=clock)


def record(name: str, level: int = logging.WARNING, text: str = "lost %s") -> logging.LogRecord:
    return logging.LogRecord(name, level, __file__, 1, text, ("it",), None)


def test_only_the_first_few_of_a_minute_pass(flood: FloodFilter) -> None:
    passed = [flood.filter(record("noisy.child")) for _ in range(500)]

    assert passed == [True] * 3 + [False] * 497


def test_the_next_minute_says_how_many_were_kept_back(flood: FloodFilter, clock: Clock) -> None:
    for _ in range(10):
        flood.filter(record("noisy"))
    clock.now = 60.0
    first = record("noisy")

    assert flood.filter(first)
    assert first.getMessage() == "lost it (7 more were kept back)"


def test_a_quiet_minute_is_not_mentioned(flood: FloodFilter, clock: Clock) -> None:
    flood.filter(record("noisy"))
    clock.now = 61.0
    later = record("noisy")

    assert flood.filter(later)
    assert later.getMessage() == "lost it"


def test_levels_count_apart_and_other_loggers_not_at_all(flood: FloodFilter) -> None:
    for _ in range(10):
        flood.filter(record("noisy"))

    assert flood.filter(record("noisy", logging.ERROR))
    assert flood.filter(record("noisy", logging.INFO))
    assert all(flood.filter(record("noisier")) for _ in range(10))
