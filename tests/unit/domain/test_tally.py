"""What deploys add up to."""

from collections import Counter
from datetime import UTC, datetime, timedelta

from manent_server.domain import tally
from manent_server.domain.tally import Life

AT = datetime(2027, 1, 31, 18, tzinfo=UTC)


def life(environment: str = "staging", outcome: str | None = "deployed", **at: int) -> Life:
    instants = {name: AT + timedelta(seconds=seconds) for name, seconds in at.items()}
    return Life(
        environment=environment,
        state="SUCCESS" if outcome else "PENDING",
        outcome=outcome,
        requested_at=AT,
        queued_at=instants.get("queued"),
        started_at=instants.get("started"),
        ended_at=instants.get("ended"),
    )


def test_waiting_for_gates_and_for_a_place_are_told_apart() -> None:
    found = tally.begun(life(outcome=None, queued=90, started=92))

    assert found[tally.GATES, "600"] == 1
    assert found[tally.GATES, tally.SUM] == 90_000
    assert found[tally.QUEUE, "5"] == 1
    assert found[tally.QUEUE, tally.SUM] == 2_000


def test_an_end_counts_by_environment_and_outcome() -> None:
    found = tally.ended(life(queued=0, started=1, ended=100_000), known=())

    assert found[tally.ENDED, "staging|deployed"] == 1
    assert found[tally.DEPLOY, "SUCCESS|+Inf"] == 1
    assert not tally.ended(life(outcome=None), known=())


def test_a_deploy_that_never_began_has_no_duration() -> None:
    assert list(tally.ended(life(outcome="expired", ended=9), known=())) == [
        (tally.ENDED, "staging|expired")
    ]


def test_environments_beyond_the_twentieth_are_one() -> None:
    known = [f"e{number}" for number in range(tally.MOST_ENVIRONMENTS)]

    assert (tally.ENDED, "other|deployed") in tally.ended(life("late"), known)
    assert (tally.ENDED, "e7|deployed") in tally.ended(life("e7"), known)


def test_a_histogram_holds_all_it_was_given() -> None:
    tallies = Counter[tally.Key]()
    for seconds in (0, 4, 5, 6, 9_000):
        tallies += tally.spent(tally.DEPLOY, timedelta(seconds=seconds), "SUCCESS")

    (found,) = tally.durations(tally.DEPLOY, tallies)

    assert found.labels == ["SUCCESS"]
    assert found.buckets[0] == ("5", 3)
    assert found.buckets[-2:] == [("7200", 4), ("+Inf", 5)]
    assert found.seconds == 9_015
