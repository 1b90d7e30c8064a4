"""What stops a run: a cancel, its deadline."""

import logging
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from manent_server.engine.control import Control
from manent_server.engine.journey import Journey
from manent_server.engine.run import Run
from manent_server.engine.shop import Unwound
from manent_server.settings import ArtifactSource
from manent_server.store.transaction import Transaction
from manent_server.usecases import cancel, wake
from manent_server.usecases.requests import CancelRequest
from tests.integration.core.crew import Hand, ended, good_before, inventory, place
from tests.rig.core import ADMIN, Core, long_ago
from tests.rig.fake_runner import BAD, FakeRunner


@pytest.fixture
def hand(core: Core, tmp_path: Path) -> Hand:
    return Hand(core, tmp_path, core.worker())


@pytest.fixture
def runner(hand: Hand) -> FakeRunner:
    return hand.runner


def test_past_its_deadline_a_deploy_is_brought_back(core: Core, hand: Hand, runner: FakeRunner):
    good_before(core, hand)
    runner.held.add("deploy:web")
    deploy = core.submit()
    trip = hand.begin(deploy)
    runner.await_running("deploy:web")
    core.set(deploy, deadline_at=long_ago())
    hand.watch.look()
    trip.join()
    assert runner.told == [("deploy:web", "timed_out")]
    assert ended(core, deploy) == ("ERROR", "rolled_back")
    assert runner.names() == ["deploy:web", "rollback:web"]
    assert (core.deploy(deploy).error or {})["code"] == "deadline"


def test_past_its_deadline_no_step_begins(core: Core, hand: Hand, runner: FakeRunner):
    runner.held.add("deploy:web")
    deploy = core.submit()
    trip = hand.begin(deploy)
    runner.await_running("deploy:web")
    core.set(deploy, deadline_at=long_ago())
    runner.release("deploy:web")
    trip.join()
    assert ended(core, deploy) == ("ERROR", "failed")
    assert runner.names() == ["deploy:web"]
    assert core.steps(deploy)["verify:web"].state == "failed"


@pytest.mark.parametrize(
    ("rollback", "ran", "state"),
    [
        (False, ["deploy:web"], ("unknown", None)),
        (True, ["deploy:web", "rollback:web"], ("known", "0")),
    ],
)
def test_a_cancel_ends_the_hook_at_work(
    core: Core, hand: Hand, *, rollback: bool, ran: list[str], state: tuple[str, str | None]
):
    """I10"""
    good_before(core, hand)
    hand.runner.held.add("deploy:web")
    deploy = core.submit()
    trip = hand.begin(deploy)
    hand.runner.await_running("deploy:web")
    cancel.cancel(core.desk, deploy, CancelRequest(rollback), caller=ADMIN)
    for _ in range(2):
        hand.watch.look()
    trip.join()
    assert ended(core, deploy) == ("CANCELLED", "cancelled")
    assert hand.runner.names() == ran
    assert hand.runner.told == [("deploy:web", "cancelled")]
    assert inventory(core) == {"web": state}


@pytest.mark.parametrize(
    ("rollback", "ran"), [(False, ["deploy:web"]), (True, ["deploy:web", "rollback:web"])]
)
def test_a_cancel_the_watch_has_not_seen_yet_counts(
    core: Core, hand: Hand, *, rollback: bool, ran: list[str]
):
    """The hook ends by itself before the watch looks: the next hand-out is refused."""
    good_before(core, hand)
    hand.runner.held.add("deploy:web")
    deploy = core.submit()
    trip = hand.begin(deploy)
    hand.runner.await_running("deploy:web")
    cancel.cancel(core.desk, deploy, CancelRequest(rollback), caller=ADMIN)
    hand.runner.release("deploy:web")
    trip.join()
    assert ended(core, deploy) == ("CANCELLED", "cancelled")
    assert hand.runner.names() == ran


def test_a_cancel_after_the_last_step_changes_nothing(core: Core, hand: Hand):
    hand.runner.held.add("verify:web")
    deploy = core.submit()
    trip = hand.begin(deploy)
    hand.runner.await_running("verify:web")
    cancel.cancel(core.desk, deploy, CancelRequest(), caller=ADMIN)
    hand.runner.release("verify:web")
    trip.join()
    assert ended(core, deploy) == ("SUCCESS", "deployed")


def test_a_cancel_with_rollback_lets_an_undoing_finish(core: Core, hand: Hand):
    good_before(core, hand)
    runner = hand.runner
    runner.ends["deploy:web"] = [BAD]
    runner.held.add("rollback:web")
    deploy = core.submit()
    trip = hand.begin(deploy)
    runner.await_running("rollback:web")
    core.set(deploy, deadline_at=long_ago())
    cancel.cancel(core.desk, deploy, CancelRequest(rollback=True), caller=ADMIN)
    hand.watch.look()
    assert runner.told == []
    runner.release("rollback:web")
    trip.join()
    assert ended(core, deploy) == ("CANCELLED", "cancelled")
    assert inventory(core) == {"web": ("known", "0")}


def test_a_cancel_without_rollback_stops_an_undoing(core: Core, hand: Hand):
    place(core, (("a",), ("b",)))
    good_before(core, hand)
    runner = hand.runner
    runner.ends["verify:b"] = [BAD]
    runner.held.add("rollback:b")
    deploy = core.submit()
    trip = hand.begin(deploy)
    runner.await_running("rollback:b")
    cancel.cancel(core.desk, deploy, CancelRequest(), caller=ADMIN)
    hand.watch.look()
    trip.join()
    assert ended(core, deploy) == ("ERROR", "rollback_failed")
    assert runner.names()[-1] == "rollback:b"
    assert inventory(core) == {"a": ("known", "1"), "b": ("unknown", None)}


def test_a_deploy_that_was_cancelled_before_it_ran_leaves_at_once(core: Core, hand: Hand):
    place(core, (("web",),), artifact=ArtifactSource(url="file:///gone/{version}", sha256=None))
    deploy = core.submit()
    cancel.cancel(core.desk, deploy, CancelRequest(), caller=ADMIN)
    assert hand.run(deploy) is None
    assert hand.runner.ran == []


@pytest.mark.parametrize(
    ("waits", "reason"),
    [({"soak": timedelta(hours=1)}, "soak"), ({"on_exhausted": "pause"}, "cancel")],
)
def test_a_cancel_in_the_very_instant_of_a_wait_is_looked_at_at_once(
    core: Core,
    hand: Hand,
    monkeypatch: pytest.MonkeyPatch,
    waits: dict[str, Any],
    reason: str,
):
    """It finds a run that is on its way out: nobody else would go on with what it asks for."""
    place(core, (("a",), ("b",)))
    good_before(core, hand)
    place(core, (("a",), ("b",)), **({"soak": waits["soak"]} if "soak" in waits else {}))
    if "on_exhausted" in waits:
        core.change_environment("staging", **waits)
        hand.runner.ends["deploy:a"] = [BAD]
    deploy = core.submit()
    let_go = Journey._let_go

    def leave(journey: Journey, run: Run, last: Callable[[Transaction], None]) -> None:
        cancel.cancel(core.desk, deploy, CancelRequest(rollback=True), caller=ADMIN)
        let_go(journey, run, last)

    monkeypatch.setattr(Journey, "_let_go", leave)
    assert hand.run(deploy) is None
    assert core.deploy(deploy).open_question is None
    [found] = core.rows("wakes")
    assert (found["reason"], found["at"] <= core.at()) == (reason, True)
    assert wake.wake_due(core.desk) == 1
    assert hand.run(deploy) is None
    assert ended(core, deploy) == ("CANCELLED", "cancelled")
    assert hand.runner.names()[-1] == "rollback:a"


def test_a_cancel_in_the_very_instant_of_the_start_is_no_error(
    core: Core, hand: Hand, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """It finds a deploy that has begun and has no step yet."""
    deploy = core.submit()
    add = hand.watch.add

    def begun(control: Control) -> None:
        add(control)
        cancel.cancel(core.desk, deploy, CancelRequest(), caller=ADMIN)

    monkeypatch.setattr(hand.watch, "add", begun)
    assert hand.run(deploy) is Unwound
    assert ended(core, deploy) == ("CANCELLED", "cancelled")
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert hand.runner.ran == []


def test_a_rollback_asked_for_by_a_second_cancel_is_done(core: Core, hand: Hand):
    """The run had noted the first one, which wanted none."""
    place(core, (("a",), ("b",)))
    good_before(core, hand)
    runner = hand.runner
    runner.ends["verify:b"] = [BAD]
    runner.held.add("rollback:b")
    deploy = core.submit()
    trip = hand.begin(deploy)
    runner.await_running("rollback:b")
    (control,) = hand.watch.controls()
    control.note_cancel(rollback=False)
    cancel.cancel(core.desk, deploy, CancelRequest(rollback=True), caller=ADMIN)
    runner.release("rollback:b")
    trip.join()
    assert ended(core, deploy) == ("CANCELLED", "cancelled")
    assert runner.names()[-2:] == ["rollback:b", "rollback:a"]
    assert {version for _, version in inventory(core).values()} == {"0"}


def test_a_deadline_that_moved_on_is_heeded(core: Core, hand: Hand):
    hand.runner.held.add("deploy:web")
    deploy = core.submit()
    trip = hand.begin(deploy)
    hand.runner.await_running("deploy:web")
    (control,) = hand.watch.controls()
    control.is_overdue = True
    hand.runner.release("deploy:web")
    trip.join()
    assert ended(core, deploy) == ("SUCCESS", "deployed")
