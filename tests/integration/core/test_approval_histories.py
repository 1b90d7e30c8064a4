"""Any history of requests, votes, changes and starts: nothing starts that was not approved.

What is expected is kept apart from the code under test: who said what about which content.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as effort
from hypothesis import strategies as st

from manent_server.domain.approval import Rule
from manent_server.domain.errors import ManentError
from manent_server.settings import ArtifactSource, Settings
from manent_server.usecases import decide, tokens, wake
from manent_server.usecases.requests import Decision, TokenRequest
from tests.integration.core.approving import (
    ANN,
    ask,
    asked,
    list_people,
    person,
    program,
    request,
    resolve,
)
from tests.integration.core.crew import Hand
from tests.rig import core as cores
from tests.rig.core import ADMIN, Core

PEOPLE = ("ann", "bob", "eve", "joe")
who = st.sampled_from(PEOPLE)
STEPS = st.one_of(
    st.tuples(st.just("ask"), st.sampled_from(("ann", "ci for bob")), st.sets(who, max_size=2)),
    st.tuples(st.just("approve"), st.lists(who, min_size=2, max_size=4)),
    st.tuples(st.just("approve"), st.lists(who, min_size=2, max_size=4)),
    st.tuples(st.just("vote"), who, st.just("reject")),
    st.tuples(st.just("publish")),
    st.tuples(st.just("leave"), who),
    st.tuples(st.just("revoke"), who),
    st.tuples(st.just("start")),
)


@dataclass
class World:
    """One installation, and what a person would remember of it."""

    core: Core
    hand: Hand
    folder: Path
    content: int = 0
    members: set[str] = field(default_factory=lambda: set(PEOPLE))
    barred: dict[str, set[str]] = field(default_factory=dict)
    said: dict[str, list[tuple[str, str, int, str]]] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)
    votes: list[dict[str, Any]] = field(default_factory=list)

    def begin(self) -> None:
        artifact = ArtifactSource(url=f"file://{self.folder}/{{version}}", sha256=None)
        self.core.change_placement("shop", "staging", artifact=artifact)
        ask(self.core, Rule("release", quorum=2, members=("sre",)))
        self._write_people()
        self.publish()
        for name in PEOPLE:
            self._sign_in(name)

    def _write_people(self) -> None:
        groups = {name: ["sre"] if name in self.members else [] for name in PEOPLE}
        known = {
            name: {"groups": found, "handles": [f"{name}-1"]} for name, found in groups.items()
        }
        list_people(self.core, **known)

    def publish(self) -> None:
        self.content += 1
        (self.folder / "5").write_text(f"content {self.content}")

    def leave(self, name: str) -> None:
        self.members.discard(name)
        self._write_people()

    def _sign_in(self, name: str) -> None:
        request = TokenRequest(name, "approver", kind="person")
        self.tokens[name] = tokens.create(self.core.desk, request, caller=ADMIN)["id"]

    def revoke(self, name: str) -> None:
        """Their token is revoked, and they have another one."""
        tokens.revoke(self.core.desk, self.tokens[name], caller=ADMIN)
        self._sign_in(name)

    def ask(self, by: str, authors: set[str]) -> None:
        caller = ANN if by == "ann" else program("ci", acts_for="bob")
        changes = [{"id": "c", "author": f"{a}-1", "at": "2027-01-01T00:00:00Z"} for a in authors]
        deploy = request(self.core, "5", by=caller, changes=changes, digest=self.digest)
        self.barred[deploy] = authors | {"ann" if by == "ann" else "bob"}
        self.said[deploy] = []

    def digest(self, url: str, sha256: str | None) -> str:
        return self.hand.shop.artifacts.digest(url, sha256)

    def approve(self, names: list[str]) -> None:
        for number, name in enumerate(names):
            self.vote(name, "approve", channel=("cli", "slack")[number % 2])

    def vote(self, name: str, decision: str, channel: str = "cli") -> None:
        for deploy in self.said:
            for one in asked(self.core, deploy):
                groups = ["sre"] if name in self.members else []
                session = self.tokens[name]
                caller = person(name, *groups, channel=channel, session=session)
                # The content that is asked about is the one it was last resolved with.
                about = self.core.deploy(deploy).resolved["content"]["artifacts"]["web"]["sha256"]
                try:
                    given = Decision(decision, "because")
                    answer = decide.decide(self.core.desk, one["id"], given, caller=caller)
                except ManentError:
                    continue
                if answer["message"] == "recorded":
                    self.said[deploy].append((name, decision, about, session))

    def start(self) -> None:
        for deploy in self.said:
            if self.core.deploy(deploy).state == "ENQUEUED":
                self.hand.run(deploy)

    def do(self, what: str, *given: Any) -> None:
        """One step, then what a server does by itself, then every promise."""
        before = set(self.hand.runner.names())
        begun = {one for one in self.said if self.core.deploy(one).handed_out_at}
        getattr(self, what)(*given)
        resolve(self.core, self.digest)
        wake.wake_due(self.core.desk)
        self.look(begun)
        assert before <= set(self.hand.runner.names())

    def look(self, begun: set[str]) -> None:
        rows = sorted(self.core.rows("votes"), key=lambda row: (row["at"], row["id"]))
        known = {row["id"]: row for row in rows}
        assert [known.get(vote["id"]) for vote in self.votes] == self.votes, "a decision changed"
        self.votes = rows
        for deploy, said in self.said.items():
            row = self.core.deploy(deploy)
            assert (row.outcome == "rejected") == any(one[1] == "reject" for one in said)
            if row.handed_out_at is not None and deploy not in begun:
                self.approved(deploy, row.prepared["artifacts"]["web"]["sha256"])

    def approved(self, deploy: str, brought: str) -> None:
        agreed = {
            name
            for name, decision, about, session in self.said[deploy]
            if about == brought and session == self.tokens[name]
        }
        counting = (agreed & self.members) - self.barred[deploy]
        assert len(counting) >= 2, (deploy, self.said[deploy], self.barred[deploy])
        assert not any(one[1] == "reject" for one in self.said[deploy])


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[cores.Ground]:
    found = cores.lay(f"sqlite:///{tmp_path_factory.mktemp('histories') / 'manent.db'}")
    yield found
    found.close()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shelf")


def lived(core: Core, folder: Path, steps: list[tuple[Any, ...]]) -> World:
    world = World(core, Hand(core, folder, core.worker()), folder)
    world.begin()
    for step in steps:
        world.do(*step)
    return world


def test_a_history_in_which_all_goes_well_starts(
    ground: cores.Ground, settings: Settings, folder: Path
) -> None:
    """The promises below are not kept by nothing ever starting."""
    steps = [
        ("ask", "ann", {"bob"}),
        ("approve", ["bob", "eve", "eve"]),
        ("start",),
        ("approve", ["joe"]),
        ("publish",),
        ("start",),
        ("approve", ["joe", "eve"]),
        ("leave", "joe"),
        ("start",),
    ]
    world = lived(cores.build(ground, settings), folder, steps)
    [deploy] = world.said
    assert world.core.deploy(deploy).phase == "awaiting_approval", "joe has left before the start"
    good = [step for step in steps if step[0] not in ("leave", "publish")]
    world = lived(cores.build(ground, settings), folder, good)
    assert world.core.deploy(next(iter(world.said))).outcome == "deployed"


@example(steps=[("approve", ["ann", "bob"]), ("start",)])
@example(steps=[("approve", ["bob", "bob"]), ("start",)])
@example(steps=[("approve", ["bob", "eve"]), ("publish",), ("start",)])
@example(steps=[("approve", ["bob", "eve"]), ("leave", "eve"), ("start",)])
@example(steps=[("approve", ["bob", "eve"]), ("revoke", "eve"), ("start",)])
@example(steps=[("approve", ["bob"]), ("vote", "eve", "reject"), ("approve", ["joe"]), ("start",)])
@effort(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(steps=st.lists(STEPS, min_size=9, max_size=12))
def test_nothing_starts_that_was_not_approved(
    ground: cores.Ground, settings: Settings, folder: Path, steps: list[tuple[Any, ...]]
) -> None:
    """I8, I9: quorum on its content, nobody excluded, nobody twice, no decision changes."""
    lived(cores.build(ground, settings), folder, [("ask", "ann", set()), *steps])


@pytest.mark.soak
@pytest.mark.timeout(3600)
@effort(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=st.lists(STEPS, min_size=15, max_size=40))
def test_nothing_starts_in_a_long_history_that_was_not_approved(
    ground: cores.Ground, settings: Settings, folder: Path, steps: list[tuple[Any, ...]]
) -> None:
    """I8, I9"""
    lived(cores.build(ground, settings), folder, [("ask", "ann", set()), *steps])
