"""When a failed step is tried again."""

from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from manent_server.domain import retry
from manent_server.domain.order import Retry
from manent_server.domain.retry import Failure
from tests.unit.domain.values import NOON, RETRY, durations, retries, seconds

failures = st.builds(
    Failure,
    number=st.integers(1, 12),
    is_retryable=st.booleans(),
    retry_after=st.none() | durations,
)


@pytest.mark.parametrize(("number", "wait"), [(1, 1), (2, 2), (3, 4), (5, 16), (6, 30), (90, 30)])
def test_pauses_grow_up_to_their_cap(number: int, wait: float):
    assert retry.pause(RETRY, number) == seconds(wait)


def test_a_step_is_tried_as_often_as_its_policy_says():
    tries = [
        retry.next_try(RETRY, Failure(n, is_retryable=True), began_at=NOON, at=NOON)
        for n in (1, 2, 3)
    ]
    assert tries == [NOON + seconds(1), NOON + seconds(2), None]


def test_a_hook_may_ask_for_its_own_wait():
    failure = Failure(1, is_retryable=True, retry_after=seconds(90))
    assert retry.next_try(RETRY, failure, began_at=NOON, at=NOON) == NOON + seconds(90)
    at_once = replace(failure, retry_after=seconds(0))
    assert retry.next_try(RETRY, at_once, began_at=NOON, at=NOON) == NOON


def test_a_permanent_failure_is_the_last():
    failure = Failure(1, is_retryable=False)
    assert retry.next_try(RETRY, failure, began_at=NOON, at=NOON) is None


@given(retries, failures, durations)
@example(replace(RETRY, initial=timedelta(0)), Failure(2, is_retryable=True), timedelta(0))
def test_no_try_begins_before_now_nor_after_the_total(
    policy: Retry, failure: Failure, spent: timedelta
):
    at = NOON + spent
    due = retry.next_try(policy, failure, began_at=NOON, at=at)
    if due is not None:
        assert at <= due <= NOON + policy.total
        assert failure.is_retryable
        assert failure.number < policy.attempts
    elif failure.is_retryable and failure.number < policy.attempts:
        wait = failure.retry_after
        wait = retry.pause(policy, failure.number) if wait is None else wait
        assert at + wait > NOON + policy.total


@given(retries, st.integers(1, 2000))
def test_a_pause_is_never_longer_than_its_cap_nor_shrinks(policy: Retry, number: int):
    pause = retry.pause(policy, number)
    assert timedelta(0) <= pause <= policy.cap
    assert retry.pause(policy, number + 1) >= pause
