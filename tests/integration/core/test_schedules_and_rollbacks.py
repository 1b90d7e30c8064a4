"""What a schedule brings, and that it never undoes a rollback."""

from pathlib import Path

import pytest
import sqlalchemy as sa

from manent_server.store import history
from manent_server.usecases import cancel, roll_back
from manent_server.usecases.requests import CancelRequest, RollbackRequest
from tests.integration.core.crew import Hand, ended, place
from tests.integration.core.planning import MINUTE, Plans, plans
from tests.rig.core import ADMIN, Core, long_ago
from tests.rig.fake_runner import BAD

TEN = 10 * MINUTE


@pytest.fixture
def hand(core: Core, tmp_path: Path) -> Hand:
    place(core, (("web",),))
    return Hand(core, tmp_path, core.worker())


@pytest.fixture
def made(core: Core) -> Plans:
    """By a clock near the present one, so that what people ask for comes in order."""
    at = core.at()
    return plans(core, at + TEN - (at - long_ago()) % TEN)


def bring(core: Core, hand: Hand, version: str, *, fails: bool = False) -> str:
    """A person deploys a version."""
    if fails:
        hand.runner.ends["deploy:web"] = [BAD]
    deploy = core.submit(version=version)
    hand.run(deploy)
    assert ended(core, deploy)[0] == ("ERROR" if fails else "SUCCESS")
    return deploy


def go_back(core: Core, hand: Hand | None, to: str | None = None) -> str:
    """A person rolls back; without a hand the rollback is not run yet."""
    request = RollbackRequest("shop", "staging", to=to, reason="bad")
    deploy = str(roll_back.roll_back(core.desk, request, caller=ADMIN)["id"])
    if hand is not None:
        hand.run(deploy)
        assert ended(core, deploy) == ("SUCCESS", "deployed")
    return deploy


def next_result(made: Plans) -> tuple[str, str | None]:
    """What becomes of the next instant; what it asks for never runs."""
    made.look(TEN)
    run = made.runs()[-1]
    if run["deploy"]:
        cancel.cancel(made.core.desk, run["deploy"], CancelRequest(), caller=ADMIN)
    return run["result"], run["reason"]


FIRED = ("fired", None)
HELD = ("skipped", "rolled_back")


def test_a_schedule_does_not_undo_a_rollback(core: Core, hand: Hand, made: Plans):
    bring(core, hand, "1")
    bring(core, hand, "2")
    made.make(version="2")
    assert next_result(made) == FIRED
    back = go_back(core, hand)
    assert next_result(made) == HELD
    assert back in made.runs()[-1]["detail"]
    assert made.audited("schedule.skipped")[-1]["detail"]["reason"] == "rolled_back"
    bring(core, hand, "2", fails=True)
    assert next_result(made) == HELD
    bring(core, hand, "2")
    assert next_result(made) == FIRED


def test_a_rollback_that_waits_counts_and_one_that_was_cancelled_does_not(
    core: Core, hand: Hand, made: Plans
):
    bring(core, hand, "1")
    bring(core, hand, "2")
    made.make(version="2")
    back = go_back(core, None)
    assert next_result(made) == HELD
    cancel.cancel(core.desk, back, CancelRequest(), caller=ADMIN)
    assert next_result(made) == FIRED


def test_a_newer_version_lets_an_older_one_be_brought_again(core: Core, hand: Hand, made: Plans):
    for version in ("1", "2", "3"):
        bring(core, hand, version)
    made.make(version="3")
    go_back(core, hand)
    bring(core, hand, "1")
    assert next_result(made) == HELD
    bring(core, hand, "4")
    assert next_result(made) == FIRED


def test_an_automatic_rollback_counts(core: Core, hand: Hand, made: Plans):
    bring(core, hand, "1")
    failed = bring(core, hand, "2", fails=True)
    assert core.deploy(failed).outcome == "rolled_back"
    made.make(version="2")
    assert next_result(made) == HELD
    bring(core, hand, "2")
    assert next_result(made) == FIRED


def test_every_version_a_rollback_passed_is_given_up(core: Core, hand: Hand, made: Plans):
    for version in ("1", "2", "3"):
        bring(core, hand, version)
    go_back(core, hand, to="1")
    for version in ("3", "2"):
        made.make(f"v{version}", version=version)
    made.make("v1", version="1")
    made.look(TEN)
    assert [made.results(f"v{version}") for version in ("3", "2", "1")] == [
        ["skipped"],
        ["skipped"],
        ["fired"],
    ]


def test_what_a_schedule_brought_is_no_persons_word(core: Core, hand: Hand, made: Plans):
    bring(core, hand, "1")
    made.make(version="2")
    made.look(TEN)
    core.admit()
    (deploy,) = made.fired()
    hand.run(deploy)
    assert ended(core, deploy) == ("SUCCESS", "deployed")
    go_back(core, hand)
    assert next_result(made) == HELD
    made.make("newest", newest=True, version=None)
    made.look(TEN)
    assert made.runs("newest")[-1]["reason"] == "rolled_back"


def test_a_cancel_with_rollback_counts(core: Core, hand: Hand, made: Plans):
    bring(core, hand, "1")
    hand.runner.held.add("deploy:web")
    deploy = core.submit(version="2")
    trip = hand.begin(deploy)
    hand.runner.await_running("deploy:web")
    cancel.cancel(core.desk, deploy, CancelRequest(rollback=True), caller=ADMIN)
    hand.runner.release("deploy:web")
    trip.join()
    assert core.deploy(deploy).outcome == "cancelled"
    made.make(version="2")
    assert next_result(made) == HELD


def test_another_place_is_another_matter(core: Core, hand: Hand, made: Plans):
    bring(core, hand, "1")
    bring(core, hand, "2")
    go_back(core, hand)
    made.make(version="2", environment="production")
    assert next_result(made) == FIRED


def test_what_waits_when_its_version_is_given_up_does_not_run(core: Core, hand: Hand, made: Plans):
    """Whoever lifts the hold: it has ended, linked to what gave its version up."""
    bring(core, hand, "1")
    hand.runner.held.add("deploy:web")
    hand.runner.ends["deploy:web"] = [BAD]
    failing = core.submit(version="2")
    trip = hand.begin(failing)
    hand.runner.await_running("deploy:web")
    made.make(version="2")
    made.look(TEN)
    (waiting,) = made.fired()
    hand.runner.release("deploy:web")
    trip.join()
    assert core.deploy(failing).outcome == "rolled_back"
    row = core.deploy(waiting)
    assert (row.outcome, row.superseded_by) == ("superseded", failing)


# What is brought


def test_the_newest_is_the_version_that_was_first_accepted_last(core: Core, made: Plans):
    with core.store.read() as tx:
        assert history.newest_accepted(tx, "shop") is None
    made.make(newest=True)
    made.look(TEN)
    assert made.runs()[-1]["reason"] == "nothing_to_deploy"
    for version in ("1", "2", "1"):
        core.submit(version=version, environment="production")
    core.submit("mail", version="9")
    made.look(TEN)
    assert core.deploy(made.fired()[-1]).version == "2"


def test_what_runs_elsewhere_is_brought_as_it_is_there(core: Core, hand: Hand, made: Plans):
    made.make(environment="production", source="staging")
    made.look(TEN)
    assert made.runs()[-1]["reason"] == "nothing_to_deploy"
    bring(core, hand, "1")
    bring(core, hand, "2", fails=True)
    made.look(TEN)
    row = core.deploy(made.fired()[-1])
    assert (row.version, row.environment) == ("1", "production")
    made.end(row.id)
    with core.store.write() as tx:
        tx.connection.execute(sa.update(tx.tables.inventory).values(state="unknown"))
    made.look(TEN)
    assert made.results() == ["skipped", "fired", "skipped"]


def test_two_versions_beside_each_other_are_not_one(core: Core, hand: Hand, made: Plans):
    place(core, (("a",), ("b",)))
    hand.run(core.submit(version="1"))
    hand.run(core.submit(version="2", targets=["a"]))
    made.make(environment="production", source="staging")
    made.look(TEN)
    assert made.runs()[-1]["reason"] == "nothing_to_deploy"


def test_a_hold_keeps_what_a_schedule_asked_for_waiting(core: Core, hand: Hand, made: Plans):
    bring(core, hand, "1")
    bring(core, hand, "2")
    go_back(core, hand)
    made.make(version="1")
    made.look(TEN)
    row = core.deploy(made.fired()[-1])
    assert (row.state, row.phase) == ("DELAYED", "held")
    made.look(TEN)
    assert made.runs()[-1]["reason"] == "overlap"
