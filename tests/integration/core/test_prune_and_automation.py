"""Retention leaves automation what it decides by: what is newest, was tried, or was given up."""

import pytest

from manent_server.domain.deploy import Outcome
from manent_server.domain.errors import Conflict
from manent_server.usecases import cancel, roll_back
from manent_server.usecases.auto_promote import AutoPromotion
from manent_server.usecases.requests import CancelRequest, PruneRequest, RollbackRequest
from tests.integration.core.planning import MINUTE, Plans, plans
from tests.integration.core.pruning import DAY, aged, bad, good, left, old_bad, old_good, pruned
from tests.integration.core.running import good as staged
from tests.integration.core.test_auto_promotion import automatic, finish
from tests.rig.core import ADMIN, Core, long_ago

TEN = 10 * MINUTE
KEEP_ONE = PruneRequest(max_age=90 * DAY, keep_releases=1)


@pytest.fixture
def made(core: Core) -> Plans:
    """By a clock near the present one, so that what people ask for comes in order."""
    at = core.at()
    return plans(core, at + TEN - (at - long_ago()) % TEN)


def test_an_older_sequence_stays_refused(core: Core) -> None:
    """What carries the highest is old, and what has succeeded since carries none."""
    first = old_good(core, "v1", 200, sequence=7)
    for n in range(3):
        old_good(core, f"w{n}", 150 - n)
    pruned(core, KEEP_ONE)
    assert first in left(core)
    with pytest.raises(Conflict) as refused:
        core.submit(version="v0", sequence=6)
    assert "outdated" in str(refused.value.code)


def test_what_left_targets_out_counts_as_no_release(core: Core) -> None:
    whole = [old_good(core, f"v{n}", 200 - n) for n in range(2)]
    for n in range(2, 5):
        core.set(old_good(core, f"v{n}", 200 - n), outcome="partial")
    request = PruneRequest(max_age=90 * DAY, keep_releases=2)
    pruned(core, request)
    assert set(whole) <= left(core)


@pytest.mark.parametrize("proof", [{"outcome": "rolled_back"}, {"cancel_rollback": True}])
def test_a_version_that_was_given_up_stays_so(core: Core, proof: dict[str, object]) -> None:
    """Also one of which nothing is left but that another release of it is kept."""
    for n in range(3):
        old_good(core, f"v{n}", 200 - n)
    undone = old_bad(core, "v1", 150)
    core.set(undone, handed_out_at=core.at() - 150 * DAY, **proof)
    pruned(core)
    request = RollbackRequest("shop", "staging", to="v1", reason="r")
    with pytest.raises(Conflict, match="was rolled back from"):
        roll_back.roll_back(core.desk, request, caller=ADMIN)


def test_a_schedule_knows_the_newest_version_as_before(core: Core, made: Plans) -> None:
    """One that is much older was asked for again of late."""
    core.set(old_good(core, "1", 300), replaces=None)
    old_good(core, "2", 200, environment="production")
    aged(core, good(core, "1"), 10)
    made.make(newest=True, version=None)
    assert made.look(TEN)
    before = [core.deploy(deploy).version for deploy in made.fired()]
    for deploy in made.fired():
        cancel.cancel(core.desk, deploy, CancelRequest(), caller=ADMIN)
    pruned(core, KEEP_ONE)
    assert made.look(TEN)
    assert [core.deploy(deploy).version for deploy in made.fired()] == [*before, "2"]


def test_a_schedule_never_brings_what_was_given_up_there_long_ago(core: Core, made: Plans) -> None:
    """The version runs elsewhere still, so a schedule may name it."""
    old_good(core, "1", 230)
    old_good(core, "2", 220, environment="production")
    core.set(old_bad(core, "2", 200), outcome="rolled_back")
    made.make(version="2")
    pruned(core, KEEP_ONE)
    made.look(TEN)
    assert made.results() == ["skipped"]


def test_a_promotion_is_not_tried_again_when_its_failure_has_grown_old(core: Core) -> None:
    auto = automatic(core)
    source = staged(core, "1")
    auto.round()
    finish(core, Outcome.FAILED)
    (tried,) = left(core) - {source}
    aged(core, source, 200)
    aged(core, tried, 199)
    aged(core, bad(core, "0", environment="manual"), 198)
    assert pruned(core, KEEP_ONE)["deploys"] == 1
    AutoPromotion(core.desk).round()
    assert left(core) == {source, tried}


def test_nothing_is_kept_for_a_schedule_that_was_deleted(core: Core, made: Plans) -> None:
    old_good(core, "1", 300)
    again = aged(core, good(core, "1"), 10)
    made.make(newest=True, version=None)
    pruned(core, KEEP_ONE)
    assert len(left(core)) == 2
    made.delete()
    pruned(core, KEEP_ONE)
    assert left(core) == {again}
