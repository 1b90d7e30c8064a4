"""The plan: every step of a pass, from the order alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manent_server.domain import plan
from manent_server.domain.deploy import Kind
from manent_server.domain.order import Order
from tests.unit.domain import values

kinds = st.sampled_from(Kind)


def names(order: Order, kind: Kind = Kind.DEPLOY) -> list[str]:
    return [step.name for step in plan.build(order, kind).steps()]


def test_targets_are_visited_wave_by_wave():
    order = values.order(("a", "b"), ("c",), soak=5)
    assert names(order) == [
        "prepare", "deploy:a", "verify:a", "deploy:b", "verify:b", "soak:1", "deploy:c", "verify:c",
    ]  # fmt: skip


def test_a_plugin_that_cannot_verify_has_no_such_steps():
    assert names(values.order(("a",), hooks=("deploy",))) == ["prepare", "deploy:a"]


def test_a_rollback_acts_by_the_rollback_hook():
    steps = plan.build(values.order(("a",)), Kind.ROLLBACK).steps()
    assert [(s.name, s.hook) for s in steps][1:] == [
        ("rollback:a", "rollback"),
        ("verify:a", "verify"),
    ]


def test_a_plugin_without_rollback_deploys_the_older_version():
    order = values.order(("a",), hooks=("deploy",))
    steps = plan.build(order, Kind.ROLLBACK).steps()
    assert [(s.name, s.hook) for s in steps][1:] == [("rollback:a", "deploy")]
    assert [s.hook for s in plan.undo(order, ["a"], after=1)] == ["deploy"]


@given(values.orders(), kinds)
def test_names_are_unique_and_positions_rise_by_one(order: Order, kind: Kind):
    steps = plan.build(order, kind).steps()
    assert len({step.name for step in steps}) == len(steps)
    assert [step.position for step in steps] == list(range(len(steps)))


@given(values.orders(), kinds)
def test_every_target_is_acted_on_once_in_its_wave(order: Order, kind: Kind):
    built = plan.build(order, kind)
    acting = "rollback" if kind == Kind.ROLLBACK else "deploy"
    assert tuple(tuple(v.target for v in wave.visits) for wave in built.waves) == order.waves
    for wave in built.waves:
        for visit in wave.visits:
            first, *rest = visit.steps
            assert first.name == f"{acting}:{visit.target}"
            assert first.hook == plan.acting_hook(order, kind)
            assert [s.name for s in rest] == (
                [f"verify:{visit.target}"] if "verify" in order.hooks else []
            )
            assert {(s.target, s.wave) for s in visit.steps} == {(visit.target, wave.number)}


@given(values.orders(), kinds)
def test_a_soak_stands_between_waves_only(order: Order, kind: Kind):
    waves = plan.build(order, kind).waves
    assert waves[-1].soak is None
    assert all((wave.soak is not None) == bool(order.limits.soak) for wave in waves[:-1])


@given(values.orders(), st.data())
def test_what_was_touched_last_is_undone_first(order: Order, data: st.DataObject):
    touched = plan.in_order(order, data.draw(st.sets(st.sampled_from(sorted(order.targets)))))
    after = max(step.position for step in plan.build(order, Kind.DEPLOY).steps())
    steps = plan.undo(order, touched, after=after)
    assert [step.target for step in steps] == list(reversed(touched))
    assert [step.position for step in steps] == list(range(after + 1, after + 1 + len(touched)))
    assert not {s.name for s in steps} & {s.name for s in plan.build(order, Kind.DEPLOY).steps()}


@pytest.mark.parametrize("found", [["c", "a"], ["a", "c", "stranger"]])
def test_targets_stand_in_the_order_of_the_waves(found: list[str]):
    assert plan.in_order(values.order(("a", "b"), ("c",)), found) == ("a", "c")
