"""Lost: a stop is recorded, or the heartbeat is older than allowed."""

import pytest

from manent_server.domain.liveness import is_lost
from tests.unit.domain.values import NOON, seconds


@pytest.mark.parametrize(("age", "lost"), [(0, False), (20, False), (20.001, True), (-5, False)])
def test_a_silent_worker_is_lost(*, age: float, lost: bool):
    beat = NOON - seconds(age)
    found = is_lost(heartbeat_at=beat, stopped_at=None, at=NOON, stale_after=seconds(20))
    assert found == lost


def test_a_worker_that_signed_off_is_lost_at_once():
    assert is_lost(heartbeat_at=NOON, stopped_at=NOON, at=NOON, stale_after=seconds(20))
