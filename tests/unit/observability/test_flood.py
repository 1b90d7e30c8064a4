"""A library that repeats itself during an outage does not fill the log."""

import logging
import sys
import traceback
from datetime import timedelta

import pytest
import sqlalchemy as sa

from manent_server.observability.flood import BriefFilter, FloodFilter


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


BOTH = [pytest.param(True, id="in-the-sentence"), pytest.param(False, id="beside-it")]
AWAY = sa.exc.OperationalError("SELECT 1", {}, OSError("refused\n\tIs the server running?"))
CUT = sa.exc.InternalError("COMMIT", {}, OSError("idle-in-transaction timeout"))
FULL = sa.exc.TimeoutError("QueuePool limit of size 5 overflow 10 reached")


def caught(error: Exception, *, spells: bool, name: str = "noisy.child") -> logging.LogRecord:
    """What a library logs of an error: its trace in the sentence, or beside it."""
    try:
        raise error
    except type(error):
        text = f"polling failed: {traceback.format_exc()}" if spells else "polling failed"
        trace = None if spells else sys.exc_info()
        made = logging.LogRecord(name, logging.WARNING, __file__, 1, text, (), trace)
        assert BriefFilter(["noisy"]).filter(made)
    return made


@pytest.mark.parametrize("spells", BOTH)
@pytest.mark.parametrize("error", [AWAY, CUT, FULL], ids=["away", "cut", "pool"])
def test_a_database_that_is_away_is_told_in_one_line(error: Exception, *, spells: bool) -> None:
    made = caught(error, spells=spells)

    words = str(error).partition("\n")[0]
    assert made.getMessage() == f"polling failed: {type(error).__name__}: {words}"
    assert "refused" in words or "idle" in words or "QueuePool" in words
    assert made.exc_info is None


@pytest.mark.parametrize("spells", BOTH)
def test_the_trace_of_a_fault_stands_beside_its_sentence(*, spells: bool) -> None:
    made = caught(KeyError("x"), spells=spells)

    assert made.getMessage() == "polling failed"
    assert made.exc_info is not None
    assert isinstance(made.exc_info[1], KeyError)


@pytest.mark.parametrize("spells", BOTH)
def test_what_others_log_is_theirs(*, spells: bool) -> None:
    made = caught(AWAY, spells=spells, name="manent.loops")

    assert ("Traceback" in made.getMessage(), bool(made.exc_info)) == (spells, not spells)


def test_a_record_without_an_error_is_left_as_it_is() -> None:
    made = record("noisy")
    try:
        raise AWAY
    except sa.exc.OperationalError:
        BriefFilter(["noisy"]).filter(made)

    assert (made.getMessage(), made.args) == ("lost it", ("it",))


@pytest.mark.parametrize(("text", "given"), [("lost %d", "it"), ("%(it)s", ()), ("%z", "it")])
def test_a_sentence_that_does_not_fit_its_arguments_harms_nobody(text: str, given: object) -> None:
    """The library's thread would end by what it says."""
    made = logging.LogRecord("noisy", logging.WARNING, __file__, 1, text, (given,), None)
    assert BriefFilter(["noisy"]).filter(made)
