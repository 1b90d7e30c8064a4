"""A quota: so much in a while, and the rest counted."""

from datetime import timedelta

from manent_server.observability.quota import Quota


def test_what_is_too_much_is_counted_and_told_later():
    now = [0.0]
    quota = Quota(most=2, window=timedelta(seconds=10), clock=lambda: now[0])
    assert [quota.admit("a") for _ in range(5)] == [0, 0, None, None, None]
    assert quota.admit("b") == 0
    now[0] = 10.0
    assert [quota.admit("a") for _ in range(3)] == [3, 0, None]
    now[0] = 40.0
    assert quota.admit("a") == 1
    now[0] = 50.0
    assert quota.admit("a") == 0
