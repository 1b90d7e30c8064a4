"""Rerun and retry of an ended deploy: a new one that takes over what still stands."""

from pathlib import Path
from typing import Any

import pytest

from manent_server.domain.access import Caller, everywhere
from manent_server.domain.errors import (
    Conflict,
    KeyReused,
    ManentError,
    NotAllowed,
    NotFound,
    Refused,
)
from manent_server.domain.marks import Sort
from manent_server.settings.values import ArtifactSource
from manent_server.usecases import cancel, inspect, mark, rerun, roll_back
from manent_server.usecases.requests import (
    CancelRequest,
    IdempotencyKey,
    MarkRequest,
    RerunRequest,
    RollbackRequest,
)
from tests.integration.core.crew import (
    Hand,
    ended,
    good_before,
    inventory,
    log,
    place,
)
from tests.integration.core.test_once import say
from tests.rig.core import ADMIN, VIEWER, Core
from tests.rig.fake_runner import BAD, FakeRunner, HookEnd

FIVE = (("t1", "t2", "t3", "t4", "t5"),)


@pytest.fixture
def hand(core: Core, tmp_path: Path) -> Hand:
    return Hand(core, tmp_path, core.worker())


@pytest.fixture
def runner(hand: Hand) -> FakeRunner:
    return hand.runner


def again(core: Core, deploy: str, begin: str | None = None, **more: Any) -> str:
    request = RerunRequest(begin, **more)
    return str(rerun.rerun(core.desk, deploy, request, caller=ADMIN)["id"])


def failed(core: Core, hand: Hand, name: str, **more: Any) -> str:
    """A deploy whose hook of that name failed."""
    hand.runner.ends[name] = [BAD]
    deploy = core.submit(**more)
    assert hand.run(deploy) is None
    hand.runner.ran.clear()
    return deploy


def refusal(core: Core, deploy: str, begin: str | None, kind: type[ManentError]) -> ManentError:
    before = len(core.rows("deploys"))
    with pytest.raises(kind) as refused:
        again(core, deploy, begin)
    assert len(core.rows("deploys")) == before
    return refused.value


def test_from_a_step_on_everything_runs_again(core: Core, hand: Hand):
    """Time travel: five targets done, again from the third."""
    place(core, FIVE, max_parallel=1)
    first = core.submit()
    hand.run(first)
    hand.runner.ran.clear()
    second = again(core, first, "deploy:t3", reason="once more")
    assert hand.run(second) is None
    assert ended(core, second) == ("SUCCESS", "deployed")
    wanted = [f"{hook}:t{n}" for n in (3, 4, 5) for hook in ("deploy", "verify")]
    assert hand.runner.names() == wanted
    row = core.deploy(second)
    assert (row.rerun_of, row.rerun_from, row.root) == (first, "deploy:t3", first)
    assert (row.pass_number, row.reason, row.version) == (2, "once more", "1")
    keys = {ran.context["idempotency_key"] for ran in hand.runner.ran}
    assert keys == {f"{first}/{name}/2" for name in wanted}
    assert core.deploy(first).pass_number == 1
    assert {deploy for _, deploy in stock(core)} == {second}
    assert inventory(core) == {f"t{n}": ("known", "1") for n in range(1, 6)}
    (asked,) = [
        entry
        for entry in core.rows("audit")
        if (entry["deploy"], entry["action"]) == (second, "deploy.requested")
    ]
    assert asked["detail"]["rerun_of"] == first
    assert asked["detail"]["from"] == "deploy:t3"


def test_whoever_may_not_choose_a_place_in_the_queue_reruns_in_the_usual_one(
    core: Core, hand: Hand
):
    """The place was chosen by somebody else, for then."""
    place(core)
    first = core.submit(priority=1)
    hand.run(first)
    for role, priority in (("deployer", 100), ("operator", 1)):
        caller = Caller(role, everywhere(role))
        made = rerun.rerun(core.desk, first, RerunRequest("prepare"), caller=caller)
        assert core.deploy(made["id"]).priority == priority
        hand.run(made["id"])


def stock(core: Core) -> list[tuple[str, str]]:
    return [(row["target"], row["deploy"]) for row in core.rows("inventory")]


def test_what_is_carried_over_keeps_its_result(core: Core, hand: Hand, runner: FakeRunner):
    place(core, FIVE, max_parallel=1)
    runner.ends["deploy:t1"] = [HookEnd(result="succeeded", outputs={"port": 80})]
    first = core.submit()
    hand.run(first)
    second = again(core, first, "verify:t1")
    runner.ran.clear()
    hand.run(second)
    steps = core.steps(second)
    assert (steps["deploy:t1"].state, steps["deploy:t1"].carried_from) == ("succeeded", first)
    assert steps["deploy:t1"].ended_at == core.steps(first)["deploy:t1"].ended_at
    assert steps["verify:t1"].carried_from is None
    assert runner.ran[0].context["outputs"] == {"port": 80}
    assert runner.ran[0].context["completed"] == ["prepare", "deploy:t1"]
    assert core.attempts(second)[0].step == "verify:t1"
    after = {row["target"]: row for row in core.rows("inventory")}
    assert after["t1"]["outputs"] == {"port": 80}
    shown = inspect.steps(core.desk, second)["items"]
    assert [step["carried_from"] for step in shown[:3]] == [first, first, None]
    third = again(core, second, "deploy:t3")
    hand.run(third)
    assert core.deploy(third).pass_number == 3
    assert core.deploy(third).root == first
    # Who performed a step is remembered however often it is carried over.
    assert core.steps(third)["deploy:t1"].carried_from == first
    assert core.steps(third)["verify:t1"].carried_from == second
    since = {row["target"]: row["since"] for row in core.rows("inventory")}
    assert since["t2"] < since["t3"]
    assert since["t1"] < since["t3"]


def test_a_retry_begins_at_the_first_step_that_did_not_succeed(core: Core, hand: Hand):
    place(core, (("a",), ("b",), ("c",)))
    core.change_environment("staging", rollback="manual")
    first = failed(core, hand, "deploy:b")
    assert ended(core, first) == ("ERROR", "failed")
    plan = rerun.plan(core.desk, first)
    assert plan["from"] == "deploy:b"
    assert plan["carried"] == ["prepare", "deploy:a", "verify:a"]
    assert plan["again"] == ["deploy:b", "verify:b", "deploy:c", "verify:c"]
    assert (plan["pass"], plan["version"], plan["of"]) == (2, "1", first)
    assert len(core.rows("deploys")) == 1
    second = again(core, first)
    hand.run(second)
    assert ended(core, second) == ("SUCCESS", "deployed")
    assert hand.runner.names() == plan["again"]
    assert inventory(core) == dict.fromkeys("abc", ("known", "1"))
    said = f"carried over from deploy {first}: prepare, deploy:a, verify:a"
    assert said in log(core, second)


def test_after_a_rollback_it_begins_no_later_than_what_was_rolled_back(core: Core, hand: Hand):
    """R21"""
    place(core, (("a",), ("b",), ("c",)))
    good_before(core, hand)
    first = failed(core, hand, "deploy:b", version="2")
    assert ended(core, first) == ("ERROR", "rolled_back")
    assert rerun.plan(core.desk, first)["from"] == "deploy:a"
    error = refusal(core, first, "deploy:b", Conflict)
    assert (error.code, error.facts["step"]) == ("step_not_succeeded", "deploy:a")
    second = again(core, first)
    hand.run(second)
    assert ended(core, second) == ("SUCCESS", "deployed")
    assert inventory(core) == dict.fromkeys("abc", ("known", "2"))


def test_when_it_fails_too_everything_its_root_changed_goes_back(core: Core, hand: Hand):
    """The target carried over goes back with the others, to what ran before the first pass."""
    place(core, (("a",), ("b",), ("c",)))
    good_before(core, hand)
    core.change_environment("staging", rollback="manual")
    first = failed(core, hand, "deploy:b", version="2")
    assert inventory(core) == {"a": ("known", "2"), "b": ("unknown", None), "c": ("known", "0")}
    second = again(core, first)
    hand.runner.held.add("deploy:c")
    trip = hand.begin(second)
    hand.runner.await_running("deploy:c")
    assert core.deploy(second).prepared["past"]["a"]["version"] == "0"  # type: ignore[index]
    cancel.cancel(core.desk, second, CancelRequest(rollback=True), caller=ADMIN)
    hand.watch.look()
    assert trip.join() is None
    assert ended(core, second) == ("CANCELLED", "cancelled")
    assert hand.runner.names()[-3:] == ["rollback:c", "rollback:b", "rollback:a"]
    assert {ran.context["version"] for ran in hand.runner.ran[-3:]} == {"0"}
    assert inventory(core) == dict.fromkeys("abc", ("known", "0"))


def test_a_rerun_of_a_success_goes_back_to_that_success(core: Core, hand: Hand):
    """What is carried over was good before: only what ran again is brought back."""
    place(core, (("a",), ("b",)))
    good_before(core, hand)
    first = core.submit(version="2")
    hand.run(first)
    hand.runner.ran.clear()
    hand.runner.ends["verify:b"] = [BAD]
    second = again(core, first, "deploy:b")
    hand.run(second)
    assert ended(core, second) == ("ERROR", "rolled_back")
    assert hand.runner.names() == ["deploy:b", "verify:b", "rollback:b"]
    assert hand.runner.ran[-1].context["version"] == "2"
    assert inventory(core) == dict.fromkeys("ab", ("known", "2"))


def test_what_something_else_has_changed_since_is_not_carried_over(core: Core, hand: Hand):
    place(core, (("a",), ("b",)))
    first, other = core.submit(), core.submit(version="2")
    hand.run(first)
    hand.run(other)
    error = refusal(core, first, "deploy:b", Conflict)
    assert error.code == "carried_changed"
    assert f"deploy {other} has changed it since" in error.detail
    assert error.next == "begin at deploy:a or before it"


def test_what_changes_while_it_waits_ends_it_before_anything_is_touched(core: Core, hand: Hand):
    place(core, (("a",), ("b",)))
    first = core.submit()
    hand.run(first)
    running = again(core, first, "deploy:b")
    waiting = again(core, first, "deploy:b")
    assert core.deploy(waiting).pass_number == 3
    hand.run(running)
    hand.runner.ran.clear()
    hand.run(waiting)
    assert ended(core, waiting) == ("ERROR", "failed")
    assert core.deploy(waiting).error["code"] == "carried_changed"  # type: ignore[index]
    assert hand.runner.names() == []
    assert inventory(core) == dict.fromkeys("ab", ("known", "1"))
    assert {deploy for _, deploy in stock(core)} == {running}


def test_after_a_pause_at_prepare_it_looks_anew_for_what_it_may_carry_over(core: Core, hand: Hand):
    """I3: a retry never does again what the rerun was to leave alone."""
    place(core, (("a",), ("b",)))
    core.change_environment("staging", on_exhausted="pause")
    first = core.submit()
    hand.run(first)
    running, waiting = (again(core, first, "deploy:b") for _ in range(2))
    hand.run(running)
    hand.runner.ran.clear()
    hand.run(waiting)
    assert core.deploy(waiting).phase == "paused"
    say(core, waiting, "retry")
    hand.run(waiting)
    assert (core.deploy(waiting).phase, hand.runner.names()) == ("paused", [])
    with core.store.write() as tx:  # as if the other one had never been there
        tx.connection.execute(tx.tables.inventory.update().values(deploy=first))
    say(core, waiting, "retry")
    hand.run(waiting)
    assert ended(core, waiting) == ("SUCCESS", "deployed")
    assert hand.runner.names() == ["deploy:b", "verify:b"]
    carried = {name for name, step in core.steps(waiting).items() if step.carried_from == first}
    assert carried == {"prepare", "deploy:a", "verify:a"}


def test_a_gate_holds_it_like_any_deploy_and_what_is_carried_waits_with_it(core: Core, hand: Hand):
    place(core, (("a",), ("b",)))
    core.change_environment("staging", rollback="manual")
    first = failed(core, hand, "deploy:b")
    held = mark.put(core.desk, MarkRequest(Sort.LOCK, "wait", environment="staging"), caller=ADMIN)
    second = again(core, first)
    assert core.deploy(second).state == "DELAYED"
    mark.lift(core.desk, Sort.LOCK, held["id"], caller=ADMIN)
    assert core.slots() == [second]
    hand.run(second)
    assert ended(core, second) == ("SUCCESS", "deployed")
    assert hand.runner.names() == ["deploy:b", "verify:b"]


def test_an_interrupted_rerun_goes_on_where_it_was(core: Core, hand: Hand, runner: FakeRunner):
    """I3"""
    place(core, (("a",), ("b",), ("c",)))
    first = core.submit()
    hand.run(first)
    runner.ran.clear()
    second = again(core, first, "deploy:b")
    runner.held.add("deploy:c")
    trip = hand.begin(second)
    runner.await_running("deploy:c")
    hand.crash()
    trip.join()
    later = hand.restart()
    later.run(second)
    assert ended(core, second) == ("SUCCESS", "deployed")
    assert runner.names() == ["deploy:b", "verify:b", "deploy:c"]
    assert later.runner.names() == ["deploy:c", "verify:c"]


def test_what_never_began_is_done_from_its_first_step(core: Core, hand: Hand):
    core.submit("mail")
    first = core.submit("shop")
    cancel.cancel(core.desk, first, CancelRequest(), caller=ADMIN)
    assert rerun.plan(core.desk, first)["carried"] == []
    hand.run(core.slots()[0])
    second = again(core, first)
    hand.run(second)
    assert ended(core, second) == ("SUCCESS", "deployed")
    assert hand.runner.names()[-2:] == ["deploy:web", "verify:web"]


def test_a_rollback_is_rerun_as_a_rollback(core: Core, hand: Hand, runner: FakeRunner):
    place(core, (("a",), ("b",)))
    good_before(core, hand)
    hand.run(core.submit(version="2"))
    back = roll_back.roll_back(core.desk, RollbackRequest("shop", "staging"), caller=ADMIN)["id"]
    runner.ends["rollback:b"] = [BAD]
    hand.run(back)
    assert ended(core, back) == ("ERROR", "rollback_failed")
    runner.ran.clear()
    second = again(core, back)
    row = core.deploy(second)
    assert (row.kind, row.rollback_to) == ("rollback", core.deploy(back).rollback_to)
    hand.run(second)
    assert ended(core, second) == ("SUCCESS", "deployed")
    assert runner.names() == ["rollback:b", "verify:b"]
    assert inventory(core) == dict.fromkeys("ab", ("known", "0"))


def test_the_digest_is_that_of_the_deploy_it_reruns(core: Core, hand: Hand, tmp_path: Path):
    artifact = tmp_path / "app-1.txt"
    artifact.write_text("as it was built")
    url = f"file://{tmp_path}/app-{{version}}.txt"
    place(core, (("a",),))
    core.change_placement("shop", "staging", artifact=ArtifactSource(url=url, sha256=None))
    first = core.submit()
    hand.run(first)
    assert ended(core, first) == ("SUCCESS", "deployed")
    artifact.write_text("pushed anew under the same name")
    second = again(core, first, "prepare")
    hand.run(second)
    before, after = core.deploy(first).prepared, core.deploy(second).prepared
    assert before is not None
    assert after is not None
    assert after["artifacts"] == before["artifacts"]


def test_refusals(core: Core, hand: Hand):
    live = core.submit()
    assert refusal(core, live, "deploy:web", Conflict).code == "deploy_live"
    hand.run(live)
    unknown = refusal(core, live, "deploy:wed", NotFound)
    assert (unknown.code, unknown.next) == ("step_unknown", "did you mean deploy:web?")
    assert refusal(core, live, None, Conflict).code == "nothing_to_retry"
    core.set(live, order_body=core.deploy(live).order_body | {"shape": 2})
    assert refusal(core, live, "deploy:web", Conflict).code == "order_shape_unknown"
    with pytest.raises(NotAllowed):
        rerun.rerun(core.desk, live, RerunRequest("prepare"), caller=VIEWER)


def test_what_a_later_sequence_has_overtaken_is_refused(core: Core, hand: Hand):
    first = core.submit(sequence=1)
    hand.run(first)
    hand.run(core.submit(version="2", sequence=2))
    assert refusal(core, first, "prepare", Refused).code == "outdated"
    assert again(core, first, "prepare", override=("outdated",))


def test_a_place_that_is_gone_from_the_configuration_is_refused(core: Core, hand: Hand):
    first = core.submit()
    hand.run(first)
    left = {name: app for name, app in core.settings.applications.items() if name != "shop"}
    core.configure(applications=left)
    assert refusal(core, first, "prepare", Conflict).code == "place_gone"


def test_one_key_is_one_rerun(core: Core, hand: Hand):
    """I6"""
    first = core.submit()
    hand.run(first)
    key = IdempotencyKey("k", f"/deploys/{first}/rerun", "digest")
    request = RerunRequest("deploy:web")
    once = rerun.rerun(core.desk, first, request, caller=ADMIN, key=key)
    assert rerun.rerun(core.desk, first, request, caller=ADMIN, key=key)["id"] == once["id"]
    other = IdempotencyKey("k", key.path, "another")
    with pytest.raises(KeyReused):
        rerun.rerun(core.desk, first, request, caller=ADMIN, key=other)
