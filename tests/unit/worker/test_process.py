"""The main thread of a server process: what signals ask of it."""

import signal
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest

from manent_server.worker.process import Switches

LONG = timedelta(seconds=80)


@pytest.fixture
def switches() -> Iterator[Switches]:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    found = Switches()
    found.listen()
    yield found
    signal.set_wakeup_fd(-1)
    for number, handler in before.items():
        signal.signal(number, handler)


def deliver(number: signal.Signals) -> threading.Thread:
    """Give the signal to a thread that is not the main one, as the kernel may."""

    def receive() -> None:
        signal.pthread_kill(threading.get_ident(), number)

    thread = threading.Timer(0.05, receive)
    thread.start()
    return thread


@pytest.mark.timeout(60)
def test_a_signal_that_another_thread_was_given_ends_the_wait(switches: Switches):
    """I17: one that is sent to a frozen process may go to any of its threads."""
    thread = deliver(signal.SIGTERM)
    assert switches.wait(LONG)
    assert switches.is_ended
    thread.join()


@pytest.mark.timeout(60)
def test_a_reload_wakes_without_ending(switches: Switches):
    thread = deliver(signal.SIGHUP)
    assert not switches.wait(LONG)
    assert switches.is_reload
    thread.join()


@pytest.mark.timeout(60)
def test_a_reload_asked_for_while_the_process_began_is_made(switches: Switches):
    """What waited then has taken the word that woke it."""
    thread = deliver(signal.SIGHUP)
    assert not switches.wait(LONG)
    thread.join()
    assert switches.attend(switches.lose) == 75
    assert not switches.is_reload


@pytest.mark.timeout(60)
def test_a_reload_asked_for_by_another_thread_wakes_too(switches: Switches):
    thread = threading.Timer(0.05, switches.ask_reload)
    thread.start()
    assert not switches.wait(LONG)
    assert switches.is_reload
    thread.join()


def test_what_is_lost_ends_the_wait(switches: Switches):
    switches.lose()
    assert switches.wait(LONG)
    assert switches.attend(lambda: None) == 75
