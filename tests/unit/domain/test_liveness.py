"""Lost: a stop is recorded, or the heartbeat is older than allowed."""

import pytest

from manent_server.domain.liveness import attempt_lease, is_lost, lease_length, loop_lease
from tests.unit.domain.values import NOON, seconds


@pytest.mark.parametrize(("age", "lost"), [(0, False), (20, False), (20.001, True), (-5, False)])
def test_a_silent_worker_is_lost(*, age: float, lost: bool):
    beat = NOON - seconds(age)
    found = is_lost(heartbeat_at=beat, stopped_at=None, at=NOON, stale_after=seconds(20))
    assert found == lost


def test_a_worker_that_signed_off_is_lost_at_once():
    assert is_lost(heartbeat_at=NOON, stopped_at=NOON, at=NOON, stale_after=seconds(20))


@pytest.mark.parametrize(
    ("after", "lease"), [(6, 4.5), (15, 13.5), (120, 108), (600, 540), (1, -0.5)]
)
def test_a_lease_ends_a_tenth_and_at_least_a_second_and_a_half_before_the_takeover(
    *, after: float, lease: float
):
    assert lease_length(seconds(after)) == seconds(lease)
    assert attempt_lease(seconds(after)) == seconds(lease)


def test_without_automatic_recovery_the_lease_of_an_attempt_has_no_end():
    assert attempt_lease(seconds(0)) is None


@pytest.mark.parametrize(("beat", "after", "lasts"), [(15, 0, 45), (15, 600, 45), (1, 5, 2.5)])
def test_the_lease_of_a_loop_is_three_heartbeats_and_at_most_half_of_the_silence(
    *, beat: float, after: float, lasts: float
):
    assert loop_lease(seconds(beat), seconds(after)) == seconds(lasts)
