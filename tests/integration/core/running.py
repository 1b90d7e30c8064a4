"""A deploy that passed its prelude, worked on by hand."""

from dataclasses import replace
from typing import Any

from manent_server.domain import order as orders
from manent_server.domain import plan
from manent_server.domain.deploy import Kind, Outcome
from manent_server.domain.plan import Plan
from manent_server.engine import closing, handout, prelude
from manent_server.engine.closing import Ending
from manent_server.engine.handout import Errand, HandOut, Result
from manent_server.plugins.runner import HookEnd
from manent_server.store import work
from manent_server.store.deploys import Deploy
from manent_server.store.work import StepRow
from tests.rig.core import Core, new_id

GOOD = HookEnd(result="succeeded", outputs={"port": 80})
BAD = HookEnd(result="failed", error={"code": "no", "message": "no"})


class Running:
    """A deploy that passed its prelude, its plan recorded."""

    def __init__(self, core: Core, application: str = "shop", **more: Any) -> None:
        self.core = core
        self.worker = core.worker()
        self.handed: dict[str, int] = {}
        self.deploy = self.begin(core.submit(application, **more))

    def begin(self, deploy: str) -> Deploy:
        claim = self.core.claim(deploy, self.core.deploy(deploy).dispatch, self.worker)
        with self.core.store.write() as tx:
            row = prelude.begin(tx, claim, self.core.dispatcher).deploy
            assert row is not None
            steps = self.plan(row).steps()
            work.write_steps(tx, row, steps)
        return row

    def plan(self, row: Deploy) -> Plan:
        return plan.build(orders.load(row.order_body), Kind(row.kind))

    def errand(self, name: str = "deploy:web", **changes: Any) -> Errand:
        order = orders.load(self.deploy.order_body)
        targets = plan.in_order(order, order.targets)
        forward = self.plan(self.deploy).steps()
        backward = plan.undo(order, targets, after=20) if self.deploy.kind != "rollback" else ()
        steps = [*forward, *backward]
        errand = Errand(
            id=new_id(),
            deploy=self.deploy,
            step=next(step for step in steps if step.name == name),
            plugin="fake",
            identity=self.worker,
            lock_file=self.core.lock_file(),
            is_undo=name in {step.name for step in backward},
        )
        return replace(errand, **changes)

    def hand_out(self, errand: Errand) -> HandOut:
        with self.core.store.write() as tx:
            answer = handout.hand_out(tx, errand)
        self.handed[errand.id] = answer.attempt
        return answer

    def finish(self, errand: Errand, end: HookEnd, *, overdue: bool = False) -> StepRow | None:
        policy = orders.load(self.deploy.order_body).retry
        with self.core.store.write() as tx:
            return handout.finish(
                tx, Result(errand, self.handed.get(errand.id, 0), end, policy, is_overdue=overdue)
            )

    def step(self, name: str = "deploy:web") -> StepRow:
        return self.core.steps(self.deploy.id)[name]

    def perform(self, name: str, end: HookEnd = GOOD) -> StepRow | None:
        """Hand a step out and end it."""
        errand = self.errand(name)
        assert self.hand_out(errand).refusal is None
        return self.finish(errand, end)

    def undo(self, *targets: str) -> None:
        """Record the steps that bring targets back."""
        order = orders.load(self.deploy.order_body)
        with self.core.store.write() as tx:
            work.write_steps(tx, self.deploy, plan.undo(order, targets, after=20))

    def close(self, outcome: Outcome = Outcome.FAILED, **more: Any) -> bool:
        """Close the deploy as its run would."""
        ending = Ending(self.deploy.id, self.deploy.epoch, outcome, **more)
        with self.core.store.write() as tx:
            return closing.close(tx, ending)


def good(core: Core, version: str) -> str:
    """A deploy of `shop` that succeeded, after the one that had before; its id."""
    running = Running(core, version=version)
    core.set(
        running.deploy.id,
        prepared={"artifacts": {"web": {"url": "u", "sha256": version * 64}}},
        replaces=next(
            (
                row["id"]
                for row in sorted(core.rows("deploys"), key=lambda row: -row["epoch"])
                if row["state"] == "SUCCESS"
            ),
            None,
        ),
    )
    running.perform("deploy:web")
    running.perform("verify:web")
    running.close(Outcome.DEPLOYED)
    return running.deploy.id
