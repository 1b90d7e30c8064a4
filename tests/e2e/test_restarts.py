"""kill -9 of the worker at every step boundary: what is done stays done, the rest goes on."""

import random
import time
from pathlib import Path

import pytest

from tests.rig.ledger import Ledger
from tests.rig.matrix import alternating, mostly
from tests.rig.process import until
from tests.rig.serve import Config, Rig

pytestmark = [pytest.mark.e2e, pytest.mark.each_database]

HOOKS = ("deploy", "verify", "rollback")
# The steps of the plan with a hook, in order: two waves of one target each.
STEPS = (("deploy", "a"), ("verify", "a"), ("deploy", "b"), ("verify", "b"))
QUICK = {"attempts": 2, "initial": "100ms", "factor": 1, "cap": "1s", "total": "1m"}


def config(ledger: Ledger) -> Config:
    walk = {"targets": ("a", "b"), "waves": [1, "rest"], "hooks": HOOKS, "retry": QUICK}
    return {
        # A start waits until the row of the one before is stale.
        "recovery": {"heartbeat_interval": "300ms", "stale_after": "1s"},
        "applications": {name: ledger.application(**walk) for name in ("walk", "back")},
    }


def has_ended(rig: Rig, deploy: str, count: int) -> bool:
    return sum(run.ended is not None for run in rig.ledger.runs(deploy=deploy)) >= count


def crash(rig: Rig, deploy: str, count: int, offset: float) -> None:
    """Kill the worker as soon as so many hooks have ended, and start it again."""
    until(lambda: has_ended(rig, deploy, count), what=f"{count} hooks to end")
    time.sleep(offset)
    rig.kill()
    rig.start()


def check(rig: Rig, deploy: str, expected: list[tuple[str, str]]) -> None:
    """Each step once, the interrupted one at most once more, in the order of the plan."""
    runs = rig.ledger.runs(deploy=deploy)
    order: list[tuple[str, str]] = []
    for run in runs:
        step = (run.hook, run.target)
        if not order or order[-1] != step:
            order.append(step)
    assert order == expected, order
    assert len(runs) <= len(expected) + 1
    attempts = rig.get(f"/deploys/{deploy}/attempts")["items"]
    hooks = [a for a in attempts if a["step"] != "prepare"]
    results = [attempt["result"] for attempt in hooks]
    assert set(results) <= {"succeeded", "interrupted", "not_started", "failed"}, results
    assert results.count("interrupted") + results.count("not_started") <= 1
    ended = [attempt["step"] for attempt in hooks if attempt["result"] == "succeeded"]
    assert len(ended) == len(set(ended)), "a finished step was begun again"
    assert rig.ledger.overlaps() == []


@pytest.mark.parametrize(
    ("shared", "done"), alternating(range(len(STEPS) + 1)), indirect=["shared"]
)
def test_a_crash_at_a_step_boundary_repeats_nothing_that_ended(shared: Rig, done: int) -> None:
    """B07: killed right after the end of each step; two more deploys behind it go on."""
    offset = random.uniform(0, 0.05)  # noqa: S311 - where exactly is luck, on purpose
    shared.ledger.tell({"sleep": 0.1}, application="walk")
    deploys = [shared.deploy(f"1.{n}", application="walk")["id"] for n in range(3)]
    crash(shared, deploys[0], done, offset)
    for deploy in deploys:
        ended = shared.ended(deploy, limit=60)
        assert ended["outcome"] == "deployed", (offset, ended)
        check(shared, deploy, list(STEPS))
    firsts = [shared.ledger.runs(deploy=deploy)[0].started for deploy in deploys]
    assert firsts == sorted(firsts)


@pytest.mark.soak
@pytest.mark.parametrize("turn", range(50))
def test_fifty_crashes_at_step_boundaries_lose_nothing(shared: Rig, turn: int) -> None:
    """B07: fifty repetitions at random offsets."""
    done = turn % (len(STEPS) + 1)
    test_a_crash_at_a_step_boundary_repeats_nothing_that_ended(shared, done)


@pytest.mark.parametrize(("shared", "done"), alternating([3, 4]), indirect=["shared"])
def test_a_crash_during_the_way_back_goes_on_backwards(shared: Rig, done: int) -> None:
    """Killed after the failure and after the first rollback: no target is undone twice."""
    assert shared.deployed("good", application="back")["outcome"] == "deployed"
    shared.ledger.tell({"sleep": 0.1}, application="back")
    shared.ledger.tell({"exit": 65}, application="back", hook="deploy", target="b")
    shared.ledger.tell({"exit": 0}, application="back", hook="deploy", version="good")
    deploy = shared.deploy(f"bad.{done}", application="back")["id"]
    crash(shared, deploy, done, random.uniform(0, 0.05))  # noqa: S311 - as above
    ended = shared.ended(deploy, limit=60)
    assert (ended["state"], ended["outcome"]) == ("ERROR", "rolled_back")
    way = [("deploy", "a"), ("verify", "a"), ("deploy", "b"), ("rollback", "b"), ("rollback", "a")]
    check(shared, deploy, way)
    stock = shared.get("/inventory", application="back")["items"]
    assert {(row["version"], row["state"]) for row in stock} == {("good", "known")}


@mostly("postgres")
def test_two_crashes_of_one_deploy_lose_neither(shared: Rig) -> None:
    """The worker dies at a boundary, and again inside of the next hook."""
    shared.ledger.tell({"sleep": 0.2}, application="walk")
    shared.ledger.tell({"sleep": 30, "tick": 0.05}, application="walk", hook="deploy",
                       target="b", attempt=1, version="twice")  # fmt: skip
    deploy = shared.deploy("twice", application="walk")["id"]
    crash(shared, deploy, 1, 0.0)
    until(
        lambda: shared.ledger.runs(deploy=deploy, hook="deploy", target="b"), what="the next",
    )  # fmt: skip
    shared.kill()
    shared.start()
    assert shared.ended(deploy, limit=60)["outcome"] == "deployed"
    ends = [(run.hook, run.target) for run in shared.ledger.runs(deploy=deploy) if run.ended]
    assert sorted(set(ends)) == sorted(STEPS)
    assert len(ends) <= len(STEPS) + 1
    assert len(shared.ledger.runs(deploy=deploy, hook="deploy", target="b")) == 2
    assert shared.ledger.overlaps() == []


def test_no_folder_of_a_dead_attempt_is_left(shared: Rig) -> None:
    """What crashes leave behind is tidied by the next start or the end of the deploy."""
    ended = shared.deployed("tidy", application="walk")
    folders = {Path(run.workdir) for run in shared.ledger.runs(deploy=ended["id"])}
    assert folders
    until(lambda: not any(folder.exists() for folder in folders), what="tidying")
