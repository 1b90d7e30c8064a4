"""A server that dies while a person's answer is stored: all of it holds, or nothing of it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from manent_server.usecases import retry
from manent_server.usecases.requests import RerunRequest
from tests.integration.core.crew import Hand, ended, place
from tests.integration.core.test_deaths import die
from tests.integration.core.test_once import SEES, UNTOLD, offer, say
from tests.rig.core import ADMIN, HOOKS, Core
from tests.rig.fake_runner import BAD

TABLES = ("deploys", "steps", "attempts", "audit", "wakes", "slots", "marks", "inventory")


class Dead(BaseException):
    """The process is gone before the statement is sent."""


@contextmanager
def dying_at(core: Core, number: int) -> Iterator[None]:
    """No statement from the n-th on is sent; a COMMIT is one."""
    left = [number]

    def count(*_: Any) -> None:
        left[0] -= 1
        if left[0] <= 0:
            raise Dead

    events = ("before_cursor_execute", "commit")
    for event in events:
        sa.event.listen(core.engines.ours, event, count)
    try:
        yield
    finally:
        for event in events:
            sa.event.remove(core.engines.ours, event, count)


def everything(core: Core, deploy: str) -> dict[str, Any]:
    found: dict[str, Any] = {table: core.rows(table) for table in TABLES}
    return found | {"delivery": core.delivery(deploy)}


def answered_in_the_end(core: Core, deploy: str, answer: Any) -> int:
    """Answer, dying one statement later each time, until the answer holds; how often it died."""
    before = everything(core, deploy)
    for number in range(1, 100):
        try:
            with dying_at(core, number):
                answer()
        except Dead:
            # A COMMIT that was sent has happened; what follows it only reads.
            if core.deploy(deploy).open_question is None:
                return number
            assert everything(core, deploy) == before, number
        else:
            return number
    raise AssertionError("it never holds")


@pytest.fixture
def hand(core: Core, tmp_path: Path) -> Hand:
    place(core, (("a",), ("b",)))
    return Hand(core, tmp_path, core.worker())


@pytest.mark.parametrize(
    ("said", "end"),
    [
        ("retry", ("SUCCESS", "deployed")),
        ("skip", ("SUCCESS", "partial")),
        ("rollback", ("ERROR", "failed")),
    ],
)
def test_an_answer_to_a_pause_is_whole(core: Core, hand: Hand, said: str, end: tuple[str, str]):
    """B07"""
    core.change_environment("staging", on_exhausted="pause")
    hand.runner.ends["deploy:b"] = [BAD]
    deploy = core.submit()
    assert hand.run(deploy) is None
    assert answered_in_the_end(core, deploy, lambda: say(core, deploy, said)) > 5
    assert hand.run(deploy) is None
    assert ended(core, deploy) == end
    assert len([row for row in core.rows("audit") if row["action"] == "deploy.answered"]) == 1


def test_a_retry_of_a_pause_is_whole(core: Core, hand: Hand):
    core.change_environment("staging", on_exhausted="pause")
    hand.runner.ends["deploy:b"] = [BAD]
    deploy = core.submit()
    assert hand.run(deploy) is None
    request = RerunRequest(None, "again", ())
    again = lambda: retry.retry(core.desk, deploy, request, caller=ADMIN)  # noqa: E731
    assert answered_in_the_end(core, deploy, again) > 5
    assert hand.run(deploy) is None
    assert (core.deploy(deploy).outcome, core.deploy(deploy).pass_number) == ("deployed", 2)


@pytest.mark.parametrize("said", ["succeeded", "failed", "retry"])
def test_a_resolution_is_whole(core: Core, hand: Hand, said: str):
    """B07: attempt, step, lock and dispatch together."""
    offer(core, HOOKS | SEES)
    deploy = core.submit()
    again = die(hand, deploy)
    again.runner.ends["observe:a"] = [UNTOLD]
    assert again.run(deploy) is None
    assert answered_in_the_end(core, deploy, lambda: say(core, deploy, said)) > 5
    assert bool(core.rows("marks")) == (said == "failed")
    assert again.run(deploy) is None
    assert core.deploy(deploy).state in {"SUCCESS", "ERROR"}
