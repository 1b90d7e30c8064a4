"""An answer in bounded time."""

import threading
import time

import pytest

from manent_server.observability.prompt import NotInTime, Prompt


def test_many_who_ask_at_once_are_one_question() -> None:
    asked: list[int] = []
    prompt = Prompt(lambda: asked.append(1) or len(asked))

    assert [prompt() for _ in range(5)] == [1] * 5
    assert asked == [1]


def test_what_is_old_is_asked_anew() -> None:
    asked: list[int] = []
    prompt = Prompt(lambda: asked.append(1) or len(asked), fresh=0)

    assert prompt() == 1
    assert prompt() == 2


def test_whoever_does_not_answer_is_waited_for_once_and_by_one_thread() -> None:
    go = threading.Event()
    asked: list[int] = []

    def ask() -> int:
        asked.append(1)
        go.wait(60)
        return len(asked)

    lasting = Prompt(ask, fresh=60, patience=0.3)
    began = time.monotonic()
    for _ in range(100):
        with pytest.raises(NotInTime):
            lasting()
    assert time.monotonic() - began < 15  # a hundred times that patience is twice as much
    assert asked == [1]

    brief = Prompt(ask, fresh=0, patience=0.01)
    for _ in range(5):
        with pytest.raises(NotInTime):
            brief()
    assert asked == [1, 1]
    go.set()


def test_a_failure_stands_for_a_while_and_is_no_answer() -> None:
    asked: list[int] = []

    def ask() -> int:
        asked.append(1)
        raise RuntimeError("postgresql://manent:hunter22@db")

    prompt = Prompt(ask)
    for _ in range(3):
        with pytest.raises(NotInTime):
            prompt()
    assert asked == [1]
