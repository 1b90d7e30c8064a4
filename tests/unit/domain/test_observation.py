"""Silence counts only as far as the watcher itself has seen it."""

from datetime import timedelta

from manent_server.domain.observation import Beat, Observation
from tests.unit.domain.values import NOON, seconds

OLD = Beat("i1", NOON - timedelta(hours=1))


def silence(seen: Observation, beat: Beat = OLD) -> float:
    return seen.silence("w1", beat).total_seconds()


def watch(seen: Observation, *instants: float, beat: Beat = OLD) -> Observation:
    for instant in instants:
        seen.note({"w1": beat}, asked=instant, answered=instant + 0.1)
    return seen


def test_an_old_heartbeat_seen_for_the_first_time_is_no_silence():
    """R13: after an outage of the database every heartbeat is old."""
    assert silence(watch(Observation(seconds(1)), 100)) == 0


def test_silence_is_counted_from_the_answer_that_first_showed_the_heartbeat():
    seen = watch(Observation(seconds(1)), 100, 100.5, 101, 101.5)
    assert round(silence(seen), 3) == 1.4


def test_a_gap_between_two_answers_begins_the_silence_anew():
    """R13: a watcher that was stopped, or was not answered, has seen nothing meanwhile."""
    seen = watch(Observation(seconds(1)), 100, 100.9, 101.8, 104)
    assert silence(seen) == 0
    assert round(silence(watch(seen, 104.5)), 3) == 0.4


def test_a_slow_answer_is_a_gap_too():
    seen = watch(Observation(seconds(1)), 100)
    seen.note({"w1": OLD}, asked=100.5, answered=101.2)
    assert silence(seen) == 0


def test_another_heartbeat_or_another_start_begins_anew():
    seen = watch(Observation(seconds(1)), 100, 100.5)
    moved = Beat("i1", OLD.heartbeat_at + seconds(1))
    assert silence(seen, moved) == 0
    restarted = Beat("i2", OLD.heartbeat_at)
    watch(seen, 101, beat=restarted)
    assert (silence(seen), silence(seen, restarted)) == (0, 0)


def test_of_a_stranger_nothing_is_known():
    assert Observation(seconds(1)).silence("nobody", OLD) == timedelta(0)
