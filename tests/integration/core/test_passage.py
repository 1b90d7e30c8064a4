"""The way through a plan, with the real rooms of a run and played hooks."""

from pathlib import Path

import pytest

from manent_server.domain.secret import Secret
from manent_server.plugins.events import Heartbeat, LogLine
from manent_server.plugins.runner import HookEnd
from manent_server.settings import ArtifactSource
from tests.integration.core.crew import Hand, ended, good_before, inventory, log, place
from tests.rig.core import Core
from tests.rig.fake_runner import BAD, FakeRunner


@pytest.fixture
def hand(core: Core, tmp_path: Path) -> Hand:
    return Hand(core, tmp_path, core.worker())


@pytest.fixture
def runner(hand: Hand) -> FakeRunner:
    return hand.runner


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
    assert acting["options"] == {"token": Secret("s3cr3t-value"), "n": [1]}
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
    assert len(core.rows("marks")) == 1


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
    assert [row["automatic"] for row in core.rows("marks")] == [True]


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
