"""A rerun: what is carried over, what runs again."""

import pytest

from manent_server.domain import plan as plans
from manent_server.domain import rerun
from manent_server.domain.deploy import Kind
from manent_server.domain.errors import Conflict, NotFound
from tests.unit.domain import values

PLAN = plans.build(values.order(("a", "b"), ("c",), soak=5), Kind.DEPLOY)
NAMES = [step.name for step in PLAN.steps()]


def kept(*succeeded: str, undone: tuple[str, ...] = ()) -> frozenset[str]:
    return rerun.kept(PLAN, succeeded=succeeded, undone=undone)


def test_what_comes_before_is_carried_and_the_rest_runs_again():
    parts = rerun.split(PLAN, "deploy:b", kept(*NAMES))
    assert [step.name for step in parts.carried] == ["prepare", "deploy:a", "verify:a"]
    assert [step.name for step in parts.again] == NAMES[3:]


def test_from_the_first_step_nothing_is_carried():
    parts = rerun.split(PLAN, "prepare", kept())
    assert parts.carried == ()
    assert [step.name for step in parts.again] == NAMES


def test_what_was_rolled_back_does_not_stand():
    """R21: a pass after a rollback begins no later than the first step rolled back."""
    found = kept(*NAMES[:5], undone=("a",))
    assert found == {"prepare", "deploy:b", "verify:b"}
    first = rerun.first_open(PLAN, found)
    assert first is not None
    assert first.name == "deploy:a"


def test_a_step_without_a_standing_result_is_not_carried():
    with pytest.raises(Conflict, match="deploy:b comes before deploy:c") as refused:
        rerun.split(PLAN, "deploy:c", kept("prepare", "deploy:a", "verify:a"))
    assert refused.value.code == "step_not_succeeded"
    assert refused.value.next == "begin at deploy:b or before it"


def test_a_retry_of_a_success_has_nowhere_to_begin():
    assert rerun.first_open(PLAN, kept(*NAMES)) is None


@pytest.mark.parametrize(
    ("name", "advice"), [("deploy:aa", "did you mean deploy:a?"), ("x", "its steps: prepare, ")]
)
def test_an_unknown_step_is_answered_with_the_nearest(name: str, advice: str):
    with pytest.raises(NotFound) as refused:
        rerun.split(PLAN, name, kept())
    assert advice in refused.value.next
