"""The way through a plan, with the real rooms of a run and played hooks."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from manent_server.plugins.events import Heartbeat, LogLine
from manent_server.plugins.runner import HookEnd
from manent_server.settings import ArtifactSource
from manent_server.store import logs
from manent_server.usecases import cancel, lock
from manent_server.usecases.requests import CancelRequest, LockRequest
from tests.integration.core.crew import Hand, assert_steps_were_kept
from tests.rig.core import ADMIN, Core, long_ago
from tests.rig.fake_runner import AGAIN, BAD, FakeRunner

WAVES = (("a", "b"), ("c",))


@pytest.fixture
def hand(core: Core, tmp_path: Path) -> Hand:
    return Hand(core, tmp_path, core.worker())


@pytest.fixture
def runner(hand: Hand) -> FakeRunner:
    return hand.runner


def place(core: Core, waves: tuple[tuple[str, ...], ...] = WAVES, **changes: Any) -> None:
    targets: dict[str, Any] = {target: {} for wave in waves for target in wave}
    more = {"max_parallel": 2, "targets": targets} | changes
    core.change_placement("shop", "staging", waves=waves, **more)


def inventory(core: Core) -> dict[str, tuple[str, str | None]]:
    return {row["target"]: (row["state"], row["version"]) for row in core.rows("inventory")}


def log(core: Core, deploy: str) -> list[str]:
    with core.store.read() as tx:
        return [line.text for line in logs.read(tx, deploy, after=0, limit=999, size=10**6)]


def ended(core: Core, deploy: str) -> tuple[str, str | None]:
    row = core.deploy(deploy)
    assert_steps_were_kept(core, deploy)
    return row.state, row.outcome


def good_before(core: Core, hand: Hand, version: str = "0") -> None:
    """A good deploy to go back to."""
    assert hand.run(core.submit(version=version)) is None
    hand.runner.ran.clear()


def test_a_deploy_goes_from_prepare_to_its_end(core: Core, hand: Hand):
    deploy = core.submit()
    assert hand.run(deploy) is None
    assert ended(core, deploy) == ("SUCCESS", "deployed")
    assert hand.runner.names() == ["deploy:web", "verify:web"]
    assert inventory(core) == {"web": ("known", "1")}
    assert core.slots() == []
    lines = log(core, deploy)
    assert lines[0].startswith("runs on w1, epoch ")
    assert lines[-1] == "ended: deployed"
    assert hand.watch.running() == []


def test_a_hook_is_told_what_it_needs(core: Core, hand: Hand):
    place(core, (("web",),), targets={"web": {"token": "secret://env/TOKEN", "n": [1]}})
    good_before(core, hand)
    deploy = core.submit()
    hand.runner.ends["deploy:web"] = [HookEnd(result="succeeded", outputs={"port": 80})]
    hand.run(deploy)
    acting, verify = (ran.context for ran in hand.runner.ran)
    assert acting["version"] == "1"
    assert acting["from_version"] == "0"
    assert acting["previous"] == {"version": "0", "outputs": {}}
    assert acting["options"] == {"token": "s3cr3t-value", "n": [1]}
    assert acting["idempotency_key"] == f"{deploy}/deploy:web/1"
    assert (acting["attempt"], acting["completed"]) == (1, ["prepare"])
    assert acting["epoch"] == core.deploy(deploy).epoch
    assert (acting["outputs"], verify["outputs"]) == ({}, {"port": 80})
    assert verify["completed"] == ["prepare", "deploy:web"]
    assert not Path(acting["workdir"]).exists()


def test_targets_of_a_wave_are_visited_side_by_side(core: Core, hand: Hand, runner: FakeRunner):
    place(core)
    runner.held |= {"deploy:a", "deploy:b"}
    deploy = core.submit()
    trip = hand.begin(deploy)
    runner.await_running("deploy:a", "deploy:b")
    assert "deploy:c" not in runner.names()
    runner.release("deploy:a")
    runner.release("deploy:b")
    trip.join()
    assert ended(core, deploy) == ("SUCCESS", "deployed")
    assert runner.names()[-2:] == ["deploy:c", "verify:c"]


def test_no_more_run_at_once_than_allowed(core: Core, hand: Hand, runner: FakeRunner):
    """I1"""
    place(core, (("a", "b", "c"),), max_parallel=1)
    hand.run(core.submit())
    for one in runner.ran:
        assert not [other for other in runner.ran if other is not one and other.overlaps(one)]
    assert len(runner.ran) == 6


def test_after_a_failure_what_was_touched_is_brought_back(
    core: Core, hand: Hand, runner: FakeRunner
):
    place(core, (("a",), ("b", "c"), ("d",)), max_parallel=1)
    good_before(core, hand)
    runner.ends["verify:b"] = [BAD]
    deploy = core.submit()
    hand.run(deploy)
    assert ended(core, deploy) == ("ERROR", "rolled_back")
    assert runner.names() == [
        "deploy:a", "verify:a", "deploy:b", "verify:b", "rollback:b", "rollback:a",
    ]  # fmt: skip
    back = runner.ran[-1].context
    assert (back["version"], back["from_version"]) == ("0", "1")
    assert {target: version for target, (_, version) in inventory(core).items()} == dict.fromkeys(
        "abcd", "0"
    )
    error = core.deploy(deploy).error
    assert error == {"step": "verify:b", "code": "no", "message": "no"}
    assert core.steps(deploy)["deploy:d"].state == "skipped"
    assert len(core.rows("holds")) == 1


def test_what_has_no_past_is_not_brought_back(core: Core, hand: Hand, runner: FakeRunner):
    runner.ends["deploy:web"] = [BAD]
    deploy = core.submit()
    hand.run(deploy)
    assert ended(core, deploy) == ("ERROR", "failed")
    assert runner.names() == ["deploy:web"]
    assert inventory(core) == {"web": ("unknown", None)}


def test_a_manual_environment_is_left_as_the_failure_left_it(
    core: Core, hand: Hand, runner: FakeRunner
):
    hand.run(core.submit("shop", "manual", "0"))
    runner.ends["deploy:web"] = [BAD]
    deploy = core.submit("shop", "manual")
    hand.run(deploy)
    assert ended(core, deploy) == ("ERROR", "failed")
    assert "rollback:web" not in runner.names()


def test_every_target_is_tried_when_a_rollback_fails(core: Core, hand: Hand, runner: FakeRunner):
    place(core, (("a",), ("b",)))
    good_before(core, hand)
    runner.ends |= {"deploy:b": [BAD], "rollback:b": [BAD]}
    deploy = core.submit()
    hand.run(deploy)
    assert ended(core, deploy) == ("ERROR", "rollback_failed")
    assert runner.names()[-2:] == ["rollback:b", "rollback:a"]
    assert inventory(core) == {"a": ("known", "0"), "b": ("unknown", None)}
    error = core.deploy(deploy).error or {}
    assert (error["step"], error["rollback"]["step"]) == ("deploy:b", "rollback:b")
    assert [row["automatic"] for row in core.rows("locks")] == [True]


def test_a_failed_hook_is_tried_again(core: Core, hand: Hand, runner: FakeRunner):
    runner.ends["deploy:web"] = [AGAIN, AGAIN]
    deploy = core.submit()
    hand.run(deploy)
    assert ended(core, deploy) == ("SUCCESS", "deployed")
    assert runner.names() == ["deploy:web"] * 3 + ["verify:web"]
    assert [ran.context["attempt"] for ran in runner.ran] == [1, 2, 3, 1]
    keys = {ran.context["idempotency_key"] for ran in runner.ran[:3]}
    assert len(keys) == 1
    assert any("deploy:web failed: busy; tried again at" in line for line in log(core, deploy))


def test_the_checkpoint_of_a_hook_reaches_its_next_attempt(
    core: Core, hand: Hand, runner: FakeRunner
):
    runner.says["deploy:web"] = [
        LogLine("out", "info", "half way"),
        Heartbeat({"at": 5}, {"done": 0.5}),
        Heartbeat(None, None),
        LogLine("err", "info", "oh"),
    ]
    runner.ends["deploy:web"] = [AGAIN]
    deploy = core.submit()
    hand.run(deploy)
    assert [ran.context["checkpoint"] for ran in runner.ran[:2]] == [None, {"at": 5}]
    assert log(core, deploy).count("half way") == 2


def test_a_secret_is_in_no_stored_byte(core: Core, hand: Hand, runner: FakeRunner):
    """I18"""
    place(core, (("web",),), targets={"web": {"token": "secret://env/TOKEN"}})
    secret = "s3cr3t-value"  # noqa: S105 - planted
    runner.says["deploy:web"] = [
        LogLine("out", "info", f"uses {secret}"),
        Heartbeat({"token": secret}, secret),
    ]
    bad = {"code": "no", "message": f"401 for {secret}"}
    runner.ends["deploy:web"] = [HookEnd(result="succeeded", outputs={"url": secret})]
    runner.ends["verify:web"] = [HookEnd(result="failed", error=bad, retryable=False)]
    hand.run(core.submit())
    for table in ("deploys", "steps", "attempts", "logs", "inventory", "audit"):
        assert secret not in str(core.rows(table))


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


def test_prepare_keeps_the_digest_of_what_it_found(core: Core, hand: Hand, tmp_path: Path):
    file = tmp_path / "shop-1.tar"
    file.write_bytes(b"one")
    place(
        core, (("a", "b"),),
        artifact=ArtifactSource(url=f"file://{tmp_path}/shop-{{version}}.tar", sha256=None),
    )  # fmt: skip
    deploy = core.submit()
    hand.run(deploy)
    assert ended(core, deploy) == ("SUCCESS", "deployed")
    digests = {row["sha256"] for row in core.rows("inventory")}
    assert len(digests) == 1
    assert {ran.context["artifact"]["sha256"] for ran in hand.runner.ran} == digests


def test_an_artifact_that_is_not_there_fails_prepare_and_touches_nothing(
    core: Core, hand: Hand, tmp_path: Path
):
    url = f"file://{tmp_path}/gone"
    place(core, (("web",),), artifact=ArtifactSource(url=url, sha256=None))
    deploy = core.submit()
    hand.run(deploy)
    assert ended(core, deploy) == ("ERROR", "failed")
    assert hand.runner.ran == []
    step = core.steps(deploy)["prepare"]
    assert step.state == "failed"
    assert "prepare failed: " in "\n".join(log(core, deploy))
    assert inventory(core) == {}


def test_a_secret_that_is_missing_fails_its_step(core: Core, hand: Hand):
    place(core, (("web",),), targets={"web": {"token": "secret://env/GONE"}})
    deploy = core.submit()
    hand.run(deploy)
    assert ended(core, deploy) == ("ERROR", "failed")
    assert hand.runner.ran == []
    assert (core.deploy(deploy).error or {})["step"] == "deploy:web"
    assert inventory(core) == {}


def test_a_lock_set_since_the_start_holds_the_next_wave_back(core: Core, hand: Hand):
    place(core)
    hand.runner.held.add("deploy:a")
    deploy = core.submit()
    trip = hand.begin(deploy)
    hand.runner.await_running("deploy:a")
    held = lock.lock(core.desk, LockRequest("audit", "shop"), caller=ADMIN)
    hand.runner.release("deploy:a")
    assert trip.join() is None
    row = core.deploy(deploy)
    assert (row.state, row.phase, row.executor) == ("PENDING", "locked", None)
    assert core.slots() == [deploy]
    assert [wake["reason"] for wake in core.rows("wakes")] == ["gate"]
    lock.unlock(core.desk, held["id"], caller=ADMIN)
    with core.store.write() as tx:
        core.dispatcher.dispatch(tx, deploy)
    hand.run(deploy)
    assert ended(core, deploy) == ("SUCCESS", "deployed")
    assert sorted(hand.runner.names()) == [
        "deploy:a", "deploy:b", "deploy:c", "verify:a", "verify:b", "verify:c",
    ]  # fmt: skip


def test_a_short_soak_is_waited_for_and_does_not_count(core: Core, hand: Hand):
    place(core, soak=timedelta(milliseconds=150))
    deploy = core.submit()
    hand.run(deploy)
    assert ended(core, deploy) == ("SUCCESS", "deployed")
    step, row = core.steps(deploy)["soak:1"], core.deploy(deploy)
    assert step.ended_at is not None
    assert step.started_at is not None
    assert step.ended_at - step.started_at >= timedelta(milliseconds=150)
    assert row.deadline_at is not None
    assert row.started_at is not None
    assert row.deadline_at - row.started_at > timedelta(hours=1, milliseconds=149)


def test_a_long_soak_leaves_the_worker_and_goes_on_when_its_time_comes(core: Core, hand: Hand):
    place(core, soak=timedelta(minutes=10))
    deploy = core.submit()
    assert hand.run(deploy) is None
    row = core.deploy(deploy)
    assert (row.state, row.phase, row.executor) == ("PENDING", "soaking", None)
    assert core.slots() == [deploy]
    (wake,) = core.rows("wakes")
    assert wake["at"] - core.at() > timedelta(minutes=9)
    with core.store.write() as tx:
        tx.connection.execute(tx.tables.steps.update().values(started_at=long_ago()).where(
            tx.tables.steps.c.name == "soak:1"
        ))  # fmt: skip
        core.dispatcher.dispatch(tx, deploy, phase=row.phase)
    hand.run(deploy)
    assert core.deploy(deploy).outcome == "deployed"
    assert sorted(hand.runner.names())[:3] == ["deploy:a", "deploy:b", "deploy:c"]
    assert len(hand.runner.ran) == 6


def test_a_soak_that_is_cancelled_with_rollback_ends_at_once(core: Core, hand: Hand):
    place(core)
    good_before(core, hand)
    place(core, soak=timedelta(minutes=10))
    deploy = core.submit()
    hand.run(deploy)
    answer = cancel.cancel(core.desk, deploy, CancelRequest(rollback=True), caller=ADMIN)
    assert answer["dispatch"] == 2
    hand.run(deploy)
    assert ended(core, deploy) == ("CANCELLED", "cancelled")
    assert hand.runner.names()[-2:] == ["rollback:b", "rollback:a"]
    assert {version for _, version in inventory(core).values()} == {"0"}


def test_a_long_wait_for_the_next_try_leaves_the_worker(core: Core, hand: Hand):
    later = HookEnd(result="failed", error={"code": "x"}, retry_after=timedelta(minutes=5))
    retry = core.settings.applications["shop"].environments["staging"].retry
    place(core, (("web",),), retry=type(retry)(
        attempts=3, initial=retry.initial, factor=1, cap=retry.cap, total=timedelta(hours=1)
    ))  # fmt: skip
    hand.runner.ends["deploy:web"] = [later]
    deploy = core.submit()
    assert hand.run(deploy) is None
    assert [wake["reason"] for wake in core.rows("wakes")] == ["retry"]
    assert core.deploy(deploy).executor is None
    with core.store.write() as tx:
        tx.connection.execute(tx.tables.steps.update().values(next_try_at=long_ago()))
        core.dispatcher.dispatch(tx, deploy)
    hand.run(deploy)
    assert ended(core, deploy) == ("SUCCESS", "deployed")
    assert [ran.context["attempt"] for ran in hand.runner.ran] == [1, 2, 1]


def test_a_failure_beside_a_long_wait_decides(core: Core, hand: Hand):
    place(core, (("a", "b"),))
    good_before(core, hand)
    later = HookEnd(result="failed", error={"code": "x"}, retry_after=timedelta(seconds=30))
    place(core, (("a", "b"),))
    hand.runner.ends |= {"deploy:a": [BAD], "deploy:b": [later]}
    deploy = core.submit()
    trip = hand.begin(deploy)
    trip.thread.join(0.3)
    with core.store.write() as tx:
        tx.connection.execute(tx.tables.steps.update().values(next_try_at=long_ago()).where(
            tx.tables.steps.c.name == "deploy:b"
        ))  # fmt: skip
    trip.join()
    assert ended(core, deploy)[1] == "rolled_back"


def test_another_attempt_in_the_place_is_waited_for(core: Core, hand: Hand):
    """I1"""
    deploy = core.submit()
    other = core.submit("mail", "production")
    hand.run(other)
    with core.store.write() as tx:
        attempts = tx.tables.attempts
        tx.connection.execute(
            attempts.update().values(application="shop", environment="staging", ended_at=None)
        )
    trip = hand.begin(deploy)
    trip.thread.join(0.3)
    assert trip.thread.is_alive()
    assert not [ran for ran in hand.runner.ran if ran.context["deploy"] == deploy]
    with core.store.write() as tx:
        tx.connection.execute(tx.tables.attempts.update().values(ended_at=tx.now()))
    trip.join()
    assert core.deploy(deploy).outcome == "deployed"


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
