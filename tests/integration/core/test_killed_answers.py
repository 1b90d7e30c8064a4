"""A process is killed in the middle of a person's answer: with its key it has one effect."""

import os
import signal
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from manent_server.domain.approval import Rule
from manent_server.domain.question import Answer
from manent_server.store.engine import dispose
from manent_server.usecases import answer, decide, retry, wake
from manent_server.usecases.requests import (
    AnswerRequest,
    Decision,
    IdempotencyKey,
    RerunRequest,
)
from tests.integration.core import approving
from tests.integration.core.crew import Hand, ended, place
from tests.integration.core.test_answers_cut_off import everything
from tests.rig.core import ADMIN, Core
from tests.rig.fake_runner import BAD

# The test's process has threads of pytest; the child forks nothing of theirs and never returns.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")

KEY = IdempotencyKey("k", "/answers", "digest")
# All of it is written but its key, all of it but the COMMIT, and the COMMIT as well.
KEY_WRITTEN, COMMIT, ANSWER_LOST = POINTS = ("key", "commit", "answer")
Points = Iterable[int | str]


@dataclass
class Case:
    """An answer to a deploy that waits, and what is on record once it was given."""

    core: Core
    deploy: str
    give: Callable[[], Any]
    action: str

    def effects(self) -> int:
        """How often it is on record."""
        rows = self.core.rows("audit")
        return len([row for row in rows if row["action"] == self.action])

    def all(self) -> dict[str, Any]:
        """Every row it could change."""
        more = {table: self.core.rows(table) for table in ("approvals", "votes", "keys")}
        return everything(self.core, self.deploy) | more


def in_a_process_killed_at(core: Core, point: int | str, deed: Callable[[], Any]) -> int:
    """SIGKILL there, before the statement is sent; how the process ended."""
    # Connections of SQLite must not be carried into another process.
    dispose(core.engines)
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    try:
        die_at(core, point)
        deed()
        os._exit(0)
    except BaseException:  # noqa: BLE001 - nothing of it may go on in a copy of the test
        traceback.print_exc()
    finally:
        os._exit(1)


def die_at(core: Core, point: int | str) -> None:
    """Die at the n-th statement (a COMMIT is one), or at the first of a place in `POINTS`."""
    sent: list[str] = []

    def count(*words: Any) -> None:
        is_commit = len(words) == 1
        text = "COMMIT" if is_commit else str(words[2])
        is_here = {
            KEY_WRITTEN: "INSERT INTO" in text and "body_digest" in text,
            COMMIT: is_commit,
            ANSWER_LOST: "COMMIT" in sent,
        }
        if len(sent) + 1 == point or is_here.get(point):
            os.kill(os.getpid(), signal.SIGKILL)
        sent.append(text)

    for event in ("before_cursor_execute", "commit"):
        sa.event.listen(core.engines.ours, event, count)


def assert_one_effect(case: Case, points: Points) -> None:
    """Kill it at each point until its effect is there; whoever asks again finds it, once."""
    before = case.all()
    for point in points:
        code = in_a_process_killed_at(case.core, point, case.give)
        assert code == -signal.SIGKILL, point
        if case.effects():
            break
        assert case.all() == before, point
    assert point not in POINTS or point == ANSWER_LOST
    held = case.all()
    for _ in range(2):
        case.give()
        assert case.effects() == 1
    assert case.all() == held


@pytest.fixture(params=["places", pytest.param("statements", marks=pytest.mark.soak)])
def points(request: pytest.FixtureRequest) -> Points:
    """Where it is killed: at three places, or at each statement in turn."""
    return POINTS if request.param == "places" else range(1, 100)


@pytest.fixture
def hand(core: Core, tmp_path: Path) -> Hand:
    place(core, (("a",), ("b",)))
    return Hand(core, tmp_path, core.worker())


@pytest.fixture
def paused(core: Core, hand: Hand) -> str:
    """A deploy that waits for a person."""
    core.change_environment("staging", on_exhausted="pause")
    hand.runner.ends["deploy:b"] = [BAD]
    deploy = core.submit()
    assert hand.run(deploy) is None
    return deploy


def test_a_killed_resolution_with_its_key_has_one_effect(
    core: Core, hand: Hand, paused: str, points: Points
):
    """B07"""
    said = AnswerRequest(Answer.SKIP)
    give = lambda: answer.answer(core.desk, paused, said, caller=ADMIN, key=KEY)  # noqa: E731
    assert_one_effect(Case(core, paused, give, "deploy.answered"), points)
    assert hand.run(paused) is None
    assert ended(core, paused) == ("SUCCESS", "partial")


def test_a_killed_retry_with_its_key_has_one_effect(
    core: Core, hand: Hand, paused: str, points: Points
):
    """B07"""
    request = RerunRequest(None, "again", ())
    give = lambda: retry.retry(core.desk, paused, request, caller=ADMIN, key=KEY)  # noqa: E731
    assert_one_effect(Case(core, paused, give, "deploy.answered"), points)
    assert hand.run(paused) is None
    assert (core.deploy(paused).outcome, core.deploy(paused).pass_number) == ("deployed", 2)


@pytest.mark.parametrize("word", ["approve", pytest.param("reject", marks=pytest.mark.soak)])
def test_a_killed_decision_with_its_key_has_one_effect(
    core: Core, hand: Hand, word: str, points: Points
):
    """B07, B75: whoever dies between COMMIT and admission leaves a wake behind."""
    approving.ask(core, Rule("release", quorum=1))
    deploy = approving.request(core)
    approval = approving.asked(core, deploy)[0]["id"]
    said = Decision(word, "no" if word == "reject" else None)
    give = lambda: decide.decide(core.desk, approval, said, caller=approving.BOB, key=KEY)  # noqa: E731
    assert_one_effect(Case(core, deploy, give, "approval.decided"), points)
    assert [vote["decision"] for vote in core.rows("votes")] == [word]
    if word == "reject":
        assert ended(core, deploy) == ("CANCELLED", "rejected")
        return
    wake.wake_due(core.desk)
    assert hand.run(deploy) is None
    assert ended(core, deploy) == ("SUCCESS", "deployed")
