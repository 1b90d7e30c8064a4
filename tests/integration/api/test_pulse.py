"""What is an outage of the database, and what only a late answer."""

import threading
import time
from typing import Any

from manent_server.api.pulse import Limits, Pulse
from manent_server.domain.errors import Unavailable
from tests.rig.process import until

GOOD = {"ready": True, "draining": False, "running": 0, "reasons": []}
LIMITS = Limits(waits=0.05, failing=1.0, pending=2.0, another=0.1)


class Database:
    """Answers, refuses, or keeps the question until it is let go."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.refuses = False
        self.slow = 0.0
        self.asked = 0

    def check(self) -> dict[str, Any]:
        self.asked += 1
        time.sleep(self.slow)
        self.gate.wait(10)
        if self.refuses:
            raise Unavailable("the database does not answer")
        return GOOD


def test_a_slow_answer_is_none_too_few() -> None:
    """B142: it takes longer than anybody waits, and the process stays ready."""
    database, pulse = Database(), Pulse(LIMITS)
    database.slow = 0.3
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        verdict = pulse.ask(database.check)
        assert not verdict.is_outage
        time.sleep(0.05)


def test_a_question_that_hangs_is_an_outage_in_the_end_and_the_next_answer_ends_it() -> None:
    """B142: also while the lost question is still under way."""
    database, pulse = Database(), Pulse(LIMITS)
    lost = threading.Event()
    began = time.monotonic()

    def hangs() -> dict[str, Any]:
        lost.wait(10)
        return GOOD

    assert not pulse.ask(hangs).is_outage
    until(lambda: pulse.ask(hangs).is_outage, what="an outage")
    assert time.monotonic() - began >= LIMITS.pending
    lost.set()
    until(lambda: pulse.ask(database.check).found, what="an answer")
    assert not pulse.ask(database.check).is_outage


def test_not_more_than_three_questions_are_under_way() -> None:
    database, pulse = Database(), Pulse(LIMITS)
    database.gate.clear()
    for _ in range(20):
        pulse.ask(database.check)
    assert database.asked == 3
    database.gate.set()
    until(lambda: pulse.ask(database.check).found, what="an answer")


def test_a_moment_without_answers_is_no_outage() -> None:
    database, pulse = Database(), Pulse(LIMITS)
    assert pulse.ask(database.check).found == GOOD
    database.refuses = True
    verdict = pulse.ask(database.check)
    assert (verdict.found, verdict.is_outage) == (None, False)
    assert verdict.words == "the database does not answer"
    database.refuses = False
    assert pulse.ask(database.check).found == GOOD
    time.sleep(LIMITS.failing)
    database.refuses = True
    assert not pulse.ask(database.check).is_outage
    until(lambda: pulse.ask(database.check).is_outage, what="an outage")


def test_a_failure_that_took_long_is_no_long_outage() -> None:
    """B142: a connection that cannot be made in time, while there are others that answer."""
    database, pulse = Database(), Pulse(LIMITS)
    failed = threading.Event()

    def fails() -> dict[str, Any]:
        time.sleep(LIMITS.failing)
        failed.set()
        raise Unavailable("the database does not answer")

    pulse.ask(fails)
    assert failed.wait(30)
    database.slow = 0.1
    assert not pulse.ask(database.check).is_outage
    database.slow = 0.0
    until(lambda: pulse.ask(database.check).found, what="an answer")
