"""The golden trace: how this workflow version walks through representative deploys.

It is stored. A change of the interpretation without a new `WORKFLOW_VERSION` fails here: deploys
in flight would be gone on with by a worker that reads their steps differently.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from manent_server.domain import order as orders
from manent_server.domain import plan
from manent_server.domain.deploy import Kind
from manent_server.engine.version import WORKFLOW_VERSION, versions
from manent_server.usecases import cancel, rerun, roll_back
from manent_server.usecases.requests import CancelRequest, RerunRequest, RollbackRequest
from tests.integration.core.crew import Hand, place
from tests.rig.core import ADMIN, Core
from tests.rig.fake_runner import AGAIN, BAD, GOOD, HookEnd
from tests.unit.domain import values

STORED = Path(__file__).parent / "golden" / f"{WORKFLOW_VERSION}.json"
WAVES = (("a", "b"), ("c",))
Trace = dict[str, Any]


def plans() -> Trace:
    """What is planned for orders of every kind, from the order alone."""
    found: Trace = {}
    for hooks in (("deploy",), ("deploy", "verify"), ("deploy", "rollback", "verify")):
        for soak in (0, 5):
            order = values.order(*WAVES, hooks=hooks, soak=soak)
            for kind in Kind:
                steps = plan.build(order, kind).steps()
                undo = plan.undo(order, ("a", "c"), after=len(steps))
                name = f"{kind} {'+'.join(hooks)} soak {soak}"
                found[name] = [
                    [step.position, step.name, step.hook, step.wave] for step in (*steps, *undo)
                ]
    body = orders.dump(replace(values.order(("a",)), artifact=None))
    found["order"] = {key: body[key] for key in body if key not in orders.OF_ADMISSION}
    return found


def walk(core: Core, hand: Hand, deploy: str) -> Trace:
    """One deploy, step by step and hook by hook, without what differs from run to run."""
    hand.runner.ran.clear()
    hand.run(deploy)
    row = core.deploy(deploy)
    steps = sorted(core.steps(deploy).values(), key=lambda step: step.position)
    return {
        "ended": [row.state, row.outcome, row.pass_number],
        "steps": [
            [s.position, s.name, s.hook, s.state, s.failures, s.carried_from is not None]
            for s in steps
        ],
        "hooks": [
            {
                "hook": ran.name,
                "key": ran.context["idempotency_key"].removeprefix(row.root),
                **{
                    name: ran.context[name]
                    for name in ("kind", "version", "from_version", "attempt", "completed")
                },
                "outputs": ran.context["outputs"],
                "previous": ran.context["previous"],
            }
            for ran in hand.runner.ran
        ],
        "inventory": sorted(
            [item["target"], item["state"], item["version"], item["outputs"]]
            for item in core.rows("inventory")
        ),
    }


def walks(core: Core, hand: Hand) -> Trace:
    """Deploys one after the other in one place: each finds what those before it left."""
    place(core, WAVES, max_parallel=1, soak=timedelta(milliseconds=1))
    hand.runner.ends["deploy:a"] = [HookEnd(result="succeeded", outputs={"port": 80})]
    found = {"waves, soak and verify": walk(core, hand, core.submit(version="1"))}
    hand.runner.ends = {"deploy:b": [AGAIN, AGAIN, GOOD], "verify:c": [BAD]}
    found["retries, then rolled back"] = walk(core, hand, core.submit(version="2"))
    hand.runner.ends = {"verify:b": [BAD], "rollback:a": [BAD]}
    found["rollback that fails"] = walk(core, hand, core.submit(version="3"))
    back = roll_back.roll_back(core.desk, RollbackRequest("shop", "staging"), caller=ADMIN)
    found["back by hand"] = walk(core, hand, back["id"])
    core.change_environment("staging", rollback="manual")
    hand.runner.ends = {"deploy:c": [BAD]}
    failed = core.submit(version="4")
    found["failed and left so"] = walk(core, hand, failed)
    again = rerun.rerun(core.desk, failed, RerunRequest(), caller=ADMIN)["id"]
    found["retry of it"] = walk(core, hand, again)
    once_more = rerun.rerun(core.desk, again, RerunRequest("verify:a"), caller=ADMIN)["id"]
    found["again from a step"] = walk(core, hand, once_more)
    redeploy = core.submit(version=None, kind="redeploy", targets=("c",))
    found["redeploy of one target"] = walk(core, hand, redeploy)
    return found


def cancelled(core: Core, hand: Hand) -> Trace:
    """A cancel with rollback in the second wave."""
    deploy = core.submit(version="5")
    act: Callable[..., Any] = hand.runner.call

    def call(*given: Any, **more: Any) -> Any:
        if given[0].hook == "deploy" and given[0].context["target"] == "c":
            cancel.cancel(core.desk, deploy, CancelRequest(rollback=True), caller=ADMIN)
            hand.watch.look()
        return act(*given, **more)

    hand.runner.call = call  # type: ignore[method-assign]
    try:
        return walk(core, hand, deploy)
    finally:
        hand.runner.call = act  # type: ignore[method-assign]


def test_the_interpretation_changes_with_the_workflow_version_only(
    sqlite_core: Core, tmp_path: Path
):
    """B134: raise WORKFLOW_VERSION and store a new trace, or undo the change."""
    hand = Hand(sqlite_core, tmp_path, sqlite_core.worker())
    trace = {"plans": plans(), "walks": walks(sqlite_core, hand)}
    trace["walks"]["cancelled on the way"] = cancelled(sqlite_core, hand)
    text = json.dumps(trace, indent=1, sort_keys=True) + "\n"
    if not STORED.exists():
        new = tmp_path / STORED.name
        new.write_text(text)
        pytest.fail(f"workflow version {WORKFLOW_VERSION} has no trace yet: cp {new} {STORED}")
    stored = json.loads(STORED.read_text())
    assert json.loads(text) == stored, "the interpretation changed: raise WORKFLOW_VERSION"


def test_every_version_this_build_can_run_has_a_trace():
    kept = {path.stem for path in STORED.parent.glob("*.json")}
    assert set(versions()) <= kept
