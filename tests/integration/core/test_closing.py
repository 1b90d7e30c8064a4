"""Close: the end of a deploy, in one transaction."""

from typing import Any

import pytest

from manent_server.domain.deploy import Outcome
from manent_server.engine import closing
from manent_server.engine.closing import Ending
from manent_server.plugins.runner import HookEnd
from manent_server.store import work
from tests.integration.core.running import BAD, GOOD, Running
from tests.rig.core import Core, long_ago

PAST = {
    "deploy": "d0",
    "version": "0",
    "artifact": {"url": "file:///0", "sha256": "0" * 64},
    "configuration": {},
    "outputs": {"port": 8},
}
LAST_BAD = HookEnd(result="failed", retryable=False)


def prepared(*targets: str) -> dict[str, Any]:
    artifacts = {t: {"url": "file:///1", "sha256": "1" * 64} for t in targets}
    return {
        "artifacts": artifacts,
        "configuration": {},
        "configuration_digest": "c1",
        "past": dict.fromkeys(targets, PAST),
    }


@pytest.fixture
def running(core: Core) -> Running:
    return Running(core)


def inventory(core: Core) -> dict[str, tuple[str, str | None]]:
    return {row["target"]: (row["state"], row["version"]) for row in core.rows("inventory")}


def test_everything_ends_in_one_transaction(core: Core, running: Running):
    core.set(running.deploy.id, prepared=prepared("web"))
    running.perform("deploy:web")
    running.perform("verify:web")
    assert running.close(Outcome.DEPLOYED)
    row = core.deploy(running.deploy.id)
    assert (row.state, row.outcome, row.phase) == ("SUCCESS", "deployed", None)
    assert row.ended_at is not None
    assert core.slots() == []
    (stock,) = core.rows("inventory")
    assert (stock["version"], stock["sha256"], stock["state"]) == ("1", "1" * 64, "known")
    assert (stock["configuration"], stock["outputs"]) == ("c1", {"port": 80})
    assert (stock["deploy"], stock["since"]) == (row.id, row.ended_at)
    (ended,) = [row for row in core.rows("audit") if row["action"] == "deploy.ended"]
    assert ended["detail"]["outcome"] == "deployed"


def test_repeated_it_changes_nothing(core: Core, running: Running):
    """I8: an ended deploy never changes again."""
    running.perform("deploy:web")
    assert running.close()
    before = core.deploy(running.deploy.id), core.rows("audit"), core.rows("inventory")
    assert running.close(Outcome.DEPLOYED)
    assert (core.deploy(running.deploy.id), core.rows("audit"), core.rows("inventory")) == before


def test_a_close_of_an_older_epoch_is_dropped(core: Core, running: Running):
    with core.store.write() as tx:
        core.dispatcher.hand_back(tx, running.deploy)
    assert running.close()
    assert core.deploy(running.deploy.id).state == "ENQUEUED"


def test_a_deploy_that_is_not_there_has_ended(core: Core):
    with core.store.write() as tx:
        assert closing.close(tx, Ending("0" * 20, None, Outcome.CANCELLED))


def test_it_waits_while_an_attempt_may_still_be_at_work(core: Core, running: Running):
    errand = running.errand()
    running.hand_out(errand)
    assert not running.close()
    assert core.deploy(running.deploy.id).state == "PENDING"
    assert core.slots() == [running.deploy.id]
    running.finish(errand, LAST_BAD)
    assert running.close()


def test_a_lease_that_has_passed_does_not_hold_it_up(core: Core, running: Running):
    errand = running.errand()
    running.hand_out(errand)
    with core.store.write() as tx:
        work.update_attempt(tx, errand.id, lease_until=long_ago())
    assert running.close()


def test_steps_that_never_began_are_skipped(core: Core, running: Running):
    running.perform("deploy:web", LAST_BAD)
    running.close()
    assert {name: row.state for name, row in core.steps(running.deploy.id).items()} == {
        "prepare": "skipped",
        "deploy:web": "failed",
        "verify:web": "skipped",
    }


def test_a_step_that_waited_for_its_next_try_has_failed(core: Core, running: Running):
    running.perform("deploy:web", BAD)
    running.close()
    assert core.steps(running.deploy.id)["deploy:web"].state == "failed"


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([], None),
        ([("deploy:web", HookEnd(result="not_started"))], None),
        ([("deploy:web", BAD)], ("unknown", None)),
        ([("deploy:web", GOOD)], ("unknown", None)),
        ([("deploy:web", GOOD), ("verify:web", LAST_BAD)], ("unknown", None)),
        ([("deploy:web", GOOD), ("verify:web", GOOD)], ("known", "1")),
        ([("deploy:web", LAST_BAD), ("rollback:web", GOOD)], ("known", "0")),
        ([("deploy:web", LAST_BAD), ("rollback:web", LAST_BAD)], ("unknown", None)),
        (
            [("deploy:web", GOOD), ("verify:web", GOOD), ("rollback:web", BAD)],
            ("unknown", None),
        ),
    ],
)
def test_the_inventory_says_what_is_known(
    core: Core,
    running: Running,
    steps: list[tuple[str, HookEnd]],
    expected: tuple[str, str | None] | None,
):
    """I16"""
    core.set(running.deploy.id, prepared=prepared("web"))
    running.undo("web")
    for name, end in steps:
        running.perform(name, end)
    running.close()
    assert inventory(core).get("web") == expected


def test_an_undoing_that_never_began_leaves_what_was_reached(core: Core, running: Running):
    running.perform("deploy:web")
    running.perform("verify:web")
    running.undo("web")
    running.close()
    assert inventory(core) == {"web": ("known", "1")}


def test_what_was_brought_back_is_described_by_its_past(core: Core, running: Running):
    core.set(running.deploy.id, prepared=prepared("web"))
    running.undo("web")
    running.perform("deploy:web", LAST_BAD)
    running.perform("rollback:web")
    running.close(Outcome.ROLLED_BACK)
    (stock,) = core.rows("inventory")
    # The digest is its past's; the outputs are the rollback's own, where it gave any.
    assert (stock["version"], stock["sha256"], stock["outputs"]) == ("0", "0" * 64, {"port": 80})


def test_only_touched_targets_are_written(core: Core):
    core.change_placement("shop", "staging", targets={"a": {}, "b": {}}, waves=(("a",), ("b",)))
    running = Running(core)
    running.perform("deploy:a", LAST_BAD)
    running.close()
    assert inventory(core) == {"a": ("unknown", None)}


def test_the_next_deploy_writes_over_what_was_known(core: Core, running: Running):
    running.perform("deploy:web", LAST_BAD)
    running.close()
    again = Running(core, version="2")
    again.perform("deploy:web")
    again.perform("verify:web")
    again.close(Outcome.DEPLOYED)
    assert inventory(core) == {"web": ("known", "2")}


def test_a_rollback_that_failed_locks_its_application_there(core: Core, running: Running):
    running.close(Outcome.ROLLBACK_FAILED, error={"code": "no"})
    (lock,) = core.rows("marks")
    assert (lock["application"], lock["environment"], lock["automatic"]) == (
        "shop",
        "staging",
        True,
    )
    assert f"staging#{running.deploy.number} ended rollback_failed" in lock["reason"]
    assert core.deploy(core.submit("shop")).phase == "locked"
    assert core.deploy(core.submit("mail")).phase == "dispatched"


def test_a_deploy_that_was_rolled_back_holds_automation_back(core: Core, running: Running):
    running.close(Outcome.ROLLED_BACK)
    (hold,) = core.rows("marks")
    assert (hold["application"], hold["environment"], hold["deploy"]) == (
        "shop",
        "staging",
        running.deploy.id,
    )
    assert hold["sort"] == "hold"


@pytest.mark.parametrize(
    ("outcome", "lifted"), [(Outcome.DEPLOYED, True), (Outcome.CANCELLED, False)]
)
def test_a_good_rollback_lifts_the_automatic_lock(core: Core, outcome: Outcome, *, lifted: bool):
    Running(core).close(Outcome.ROLLBACK_FAILED)
    other = Running(core, "mail")
    other.close(Outcome.ROLLBACK_FAILED)
    with core.store.write() as tx:
        tx.connection.execute(tx.tables.marks.update().values(created_at=long_ago()))
    running = Running(core, "news")
    core.set(running.deploy.id, kind="rollback", application="shop")
    running.close(outcome)
    locks = {row["application"]: row["lifted_by"] for row in core.rows("marks")}
    assert locks == {"shop": "ann" if lifted else None, "mail": None}


def test_a_rollback_stands_as_its_own_hook_left_it(core: Core):
    running = Running(core)
    core.set(running.deploy.id, kind="rollback")
    running.deploy = core.deploy(running.deploy.id)
    with core.store.write() as tx:
        work.write_steps(tx, running.deploy, running.plan(running.deploy).steps())
    running.perform("rollback:web")
    running.perform("verify:web")
    running.close(Outcome.DEPLOYED)
    assert inventory(core) == {"web": ("known", "1")}
