"""Any history of requests, marks, automation and rollbacks: the gates hold, and say why.

What is expected is kept apart from the code under test, by the marks and ends alone.
"""

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as effort
from hypothesis import strategies as st

from manent_server.domain.deploy import Outcome
from manent_server.domain.errors import Conflict
from manent_server.domain.marks import Sort
from manent_server.domain.promotion import Rule
from manent_server.domain.rules import COLLISIONS, Rules
from manent_server.engine import prelude
from manent_server.engine.identity import Identity
from manent_server.engine.prelude import Verdict
from manent_server.settings import Settings
from manent_server.store import work
from manent_server.store.deploys import Deploy
from manent_server.usecases import explain, mark, plan, roll_back, wake
from manent_server.usecases.auto_promote import AutoPromotion
from manent_server.usecases.requests import DeployRequest, MarkRequest, RollbackRequest
from manent_server.usecases.survey import Survey
from tests.integration.core.running import BAD, GOOD, Running
from tests.rig import core as cores
from tests.rig.core import ADMIN, Core

PLACES = ("staging", "production")
VERSIONS = ("1", "2", "3")
place = st.sampled_from(PLACES)
STEPS = st.one_of(
    st.tuples(
        st.just("ask"),
        place,
        st.sampled_from(VERSIONS),
        st.sampled_from(("request", "schedule")),
        st.sampled_from(COLLISIONS),
    ),
    st.tuples(st.just("mark"), st.sampled_from(list(Sort)), place, st.sampled_from(VERSIONS)),
    st.tuples(st.just("lift")),
    st.tuples(st.just("back"), place, st.booleans()),
    st.tuples(
        st.just("run"),
        place,
        st.sampled_from((Outcome.DEPLOYED, Outcome.DEPLOYED, Outcome.FAILED, Outcome.ROLLED_BACK)),
    ),
    st.tuples(st.just("automation")),
)


@dataclass
class World:
    """One installation, and what a person would remember of it."""

    core: Core
    auto: AutoPromotion
    survey: Survey
    marks: dict[str, tuple[Sort, str, str]] = field(default_factory=dict)
    given_up: dict[str, set[str]] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)

    def do(self, what: str, *given: Any) -> None:
        """One step, then what a server does by itself, then every promise."""
        getattr(self, what)(*given)
        self.survey.round()
        wake.wake_due(self.core.desk)
        self.look()

    def ask(self, where: str, version: str, origin: str, collision: str) -> None:
        request = DeployRequest("shop", where, version, collision=collision)
        would = plan.plan(self.core.desk, request, caller=ADMIN)
        code = None
        try:
            self.core.submit("shop", where, version, origin=origin, collision=collision)
        except Conflict as refused:
            code = refused.code
        else:
            self.first.setdefault(version, len(self.first))
        if origin == "request":
            assert code == (would["refusal"] or {}).get("code")

    def mark(self, sort: Sort, where: str, version: str) -> None:
        banned = version if sort == Sort.VETO else None
        environment = None if sort == Sort.STOP else where
        request = MarkRequest(sort, "x", None, environment, banned)
        made = mark.put(self.core.desk, request, caller=ADMIN)
        self.marks[made["id"]] = (sort, where, version)

    def lift(self) -> None:
        if self.marks:
            one = next(iter(self.marks))
            mark.lift(self.core.desk, self.marks.pop(one)[0], one, caller=ADMIN)

    def back(self, where: str, veto: bool) -> None:  # noqa: FBT001 - drawn by place
        good = [row for row in self.rows(where) if row["state"] == "SUCCESS"]
        request = RollbackRequest("shop", where, reason="bad", veto=veto)
        try:
            roll_back.roll_back(self.core.desk, request, caller=ADMIN)
        except Conflict:
            return
        live = max(good, key=lambda row: row["epoch"])["version"]
        self.given_up.setdefault(where, set()).add(live)
        if veto:
            (newest,) = [
                one["id"]
                for one in mark.standing(self.core.desk, Sort.VETO)["items"]
                if one["id"] not in self.marks
            ]
            self.marks[newest] = (Sort.VETO, where, live)

    def automation(self) -> None:
        self.auto.round()

    def run(self, where: str, outcome: Outcome) -> None:
        """Begin what has its place and run it to an end."""
        for deploy in self.core.slots(where):
            row = self.core.deploy(deploy)
            closed = self.closed(row)
            worker = self.core.worker()
            claim = self.core.claim(deploy, row.dispatch, worker)
            with self.core.store.write() as tx:
                start = prelude.begin(tx, claim, self.core.dispatcher)
            if start.deploy is not None and start.verdict == Verdict.RUN:
                assert not closed, f"it runs although {closed}"
                self.finish(start.deploy, worker, outcome)

    def finish(self, row: Deploy, worker: Identity, outcome: Outcome) -> None:
        assert row.origin == "request" or row.version not in self.given_up.get(row.environment, ())
        running = Running.__new__(Running)
        running.core, running.worker, running.handed = self.core, worker, {}
        good = [one for one in self.rows(row.environment) if one["state"] == "SUCCESS"]
        last = max(good, key=lambda one: one["epoch"], default=None)
        self.core.set(row.id, replaces=last["id"] if last else None)
        running.deploy = row
        with self.core.store.write() as tx:
            work.write_steps(tx, row, running.plan(row).steps())
        acting = "rollback" if row.kind == "rollback" else "deploy"
        running.perform(f"{acting}:web", GOOD if outcome == Outcome.DEPLOYED else BAD)
        if outcome == Outcome.DEPLOYED:
            running.perform("verify:web")
        if row.kind == "rollback" and outcome == Outcome.ROLLED_BACK:
            outcome = Outcome.FAILED
        running.close(outcome)
        self.remember(row, outcome)
        self.core.admission(row.environment)

    def remember(self, row: Deploy, outcome: Outcome) -> None:
        lost = self.given_up.setdefault(row.environment, set())
        if outcome == Outcome.ROLLED_BACK:
            lost.add(row.version)
        elif outcome == Outcome.DEPLOYED and row.kind != "rollback":
            mine = self.first.get(row.version, 0)
            older = {one for one in lost if self.first.get(one, 0) < mine}
            lost -= older | ({row.version} if row.origin == "request" else set())

    def rows(self, where: str) -> list[Any]:
        return [row for row in self.core.rows("deploys") if row["environment"] == where]

    def closed(self, row: Deploy) -> list[Sort]:
        """What a person would say keeps it back."""
        held = [
            Sort.HOLD
            for one in mark.standing(self.core.desk, Sort.HOLD)["items"]
            if one["automatic"] and one["environment"] == row.environment
        ]
        found = [
            sort
            for sort, where, version in self.marks.values()
            if sort == Sort.STOP or (where == row.environment and self.binds(sort, version, row))
        ]
        return found + (held if row.origin != "request" else [])

    def binds(self, sort: Sort, version: str, row: Deploy) -> bool:
        if sort == Sort.HOLD:
            return row.origin != "request"
        if sort == Sort.VETO:
            return row.version == version
        return sort == Sort.LOCK or not row.order_body["returns"]

    def look(self) -> None:
        """Whatever waits has a reason, and one that has none does not wait."""
        for found in self.core.rows("deploys"):
            if found["ended_at"] is not None or found["started_at"] is not None:
                continue
            row = self.core.deploy(found["id"])
            why = explain.explain(self.core.desk, row.id)
            gates = {gate["gate"] for gate in why["gates"]}
            assert why["summary"]
            assert set(self.closed(row)) <= gates
            if row.state == "DELAYED":
                assert gates, "it waits for nothing"
                assert row.phase not in (None, "queued")


def lived(core: Core, steps: list[tuple[Any, ...]]) -> None:
    core.worker()
    rules = Rules(promotion=Rule(("staging",)), auto_promote=True)
    core.change_environment("production", rules=rules)
    world = World(core, AutoPromotion(core.desk), Survey(core.desk))
    for step in steps:
        world.do(*step)


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Any:
    made = cores.lay(f"sqlite:///{tmp_path_factory.mktemp('histories') / 'manent.db'}")
    yield made
    made.close()


CLOSED_MEANWHILE = [
    ("ask", "staging", "1", "request", "queue"),
    ("mark", Sort.LOCK, "staging", "1"),
    ("run", "staging", Outcome.DEPLOYED),
]
"""The gate closes between the admission and the first step."""
TAKEN_BACK = [
    ("ask", "staging", "1", "request", "queue"),
    ("run", "staging", Outcome.DEPLOYED),
    ("ask", "staging", "2", "request", "queue"),
    ("run", "staging", Outcome.DEPLOYED),
    ("ask", "staging", "2", "schedule", "queue"),
    ("back", "staging", False),
    ("run", "staging", Outcome.DEPLOYED),
    ("run", "staging", Outcome.DEPLOYED),
    ("ask", "staging", "2", "schedule", "queue"),
    ("run", "staging", Outcome.DEPLOYED),
]
"""Automation that was waiting, and some that comes later, would bring back what was taken away."""


@example(steps=CLOSED_MEANWHILE)
@example(steps=TAKEN_BACK)
@effort(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(steps=st.lists(STEPS, min_size=10, max_size=14))
def test_no_history_breaks_a_promise_of_the_gates(
    ground: cores.Ground, settings: Settings, steps: list[tuple[Any, ...]]
):
    """I5, I9: nothing runs at a closed gate, nothing waits without a reason."""
    lived(cores.build(ground, settings), steps)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@effort(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEPS, min_size=20, max_size=40))
def test_no_long_history_breaks_a_promise_of_the_gates(
    ground: cores.Ground, settings: Settings, steps: list[tuple[Any, ...]]
):
    """I5, I9"""
    lived(cores.build(ground, settings), steps)
