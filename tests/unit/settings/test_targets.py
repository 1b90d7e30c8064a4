"""Targets and waves: every target once, in the order written."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manent_server.settings import Placement
from manent_server.settings.wave import Count, Named, Percent, Rest, Wave, WaveError, resolve
from tests.unit.settings.conftest import BASE, Errors, Load

GROUPS = """
target_groups:
  web: {web-1: {}, web-2: {}, web-3: {keep: 3}}
  db: {db-1: {}}
  shadow: {web-2: {}}
"""
SHOP = "applications: {shop: {plugin: p, options: {keep: 5}, environments: {staging: {%s}}}}"
FOUR = "targets: {a: {}, b: {}, c: {}, d: {}}"


def place(load: Load, keys: str) -> Placement:
    return load(BASE + GROUPS + SHOP % keys).applications["shop"].environments["staging"]


def wrong(errors: Errors, keys: str) -> list[tuple[str, str]]:
    found = errors(BASE + GROUPS + SHOP % keys)
    assert {error["line"] for error in found} == {10}
    prefix = "applications.shop.environments.staging."
    return [(error["path"].removeprefix(prefix), error["message"]) for error in found]


@pytest.mark.parametrize(
    ("targets", "names"),
    [
        ("{b: {}, a: {}}", ["b", "a"]),
        ("web", ["web-1", "web-2", "web-3"]),
        ("[db, web]", ["db-1", "web-1", "web-2", "web-3"]),
        ("[{x: {}}, db, {y: {}}]", ["x", "db-1", "y"]),
    ],
)
def test_targets_are_a_map_a_group_or_both(load: Load, targets: str, names: list[str]) -> None:
    assert list(place(load, f"targets: {targets}").targets) == names


def test_a_targets_own_options_win(load: Load) -> None:
    found = place(load, "targets: web")
    assert [found.targets[f"web-{i}"]["keep"] for i in (1, 2, 3)] == [5, 5, 3]


@pytest.mark.parametrize(
    ("targets", "path", "message"),
    [
        ("wbe", "targets", "there is no target group 'wbe'; did you mean web?"),
        ("[web, wbe]", "targets[1]", "there is no target group 'wbe'; did you mean web?"),
        ("{}", "targets", "names no target"),
        ("[]", "targets", "names no target"),
        ("3", "targets", "must be a map of targets, the name"),
        ("[[web]]", "targets[0]", "must be a map of targets, the name"),
        ("{a: }", "targets.a", "must be a map, and here is nothing: write {}"),
        ("{A: {}}", "targets.A", "'A' is no valid target"),
        ("{rest: {}}", "targets.rest", "'rest' is a word of waves"),
        ("{'1:2': {}}", "targets.'1:2'", "'1:2' is no valid target"),
        ("[web, shadow]", "targets[1]", "target web-2 is in targets twice; first at"),
        ("[{web-1: {}}, web]", "targets[1]", "target web-1 is in targets twice; first at"),
    ],
)
def test_targets_that_are_none_are_refused(
    targets: str, path: str, message: str, errors: Errors
) -> None:
    found = wrong(errors, f"targets: {targets}")
    assert found[0][0] == path
    assert message in found[0][1]


@pytest.mark.parametrize(
    ("waves", "resolved"),
    [
        ("[1, rest]", "a|bcd"),
        ("[1, 25%, rest]", "a|b|cd"),
        ("[26%, rest]", "ab|cd"),
        ("[1%, 1%, 2]", "a|b|cd"),
        ("[50%, 50%]", "ab|cd"),
        ("[75%, 75%]", "abc|d"),
        ("[100%, rest]", "abcd"),
        ("[4]", "abcd"),
        ("[rest]", "abcd"),
        ("[d, rest]", "d|abc"),
        ("[rest, a]", "bcd|a"),
        ("[1, a, rest]", "b|a|cd"),
        ("[[b, d], [a], rest]", "bd|a|c"),
        ("[a, b, c, d]", "a|b|c|d"),
        ("[[a, b, c, d], rest]", "abcd"),
        ("['1%', rest]", "a|bcd"),
        ("null", "abcd"),
    ],
)
def test_waves_take_the_targets_in_the_order_written(load: Load, waves: str, resolved: str) -> None:
    found = place(load, f"{FOUR}, waves: {waves}").waves
    assert "|".join("".join(wave) for wave in found) == resolved


@pytest.mark.parametrize(
    ("waves", "path", "message"),
    [
        ("[1]", "waves", "no wave has b, c, d: add rest"),
        ("[]", "waves", "no wave has a, b, c, d: add rest"),
        ("[25%, 25%]", "waves", "no wave has c, d: add rest"),
        ("[a, [b, a], rest]", "waves[1]", "target a is in two waves"),
        ("[[a, a], rest]", "waves[0]", "target a is in two waves"),
        ("[5]", "waves[0]", "asks for 5 targets, and 4 are left"),
        ("[2, 3]", "waves[1]", "asks for 3 targets, and 2 are left"),
        ("[rest, 1]", "waves[1]", "nothing is left after rest"),
        ("[rest, rest]", "waves[1]", "nothing is left after rest"),
        ("[e, rest]", "waves[0]", "there is no target 'e' here"),
        ("[0, rest]", "waves[0]", "must be a whole number, 1 or more"),
        ("[-1, rest]", "waves[0]", "must be a whole number, 1 or more"),
        ("[0%, rest]", "waves[0]", "must be a whole percentage from 1% to 100%"),
        ("[101%]", "waves[0]", "must be a whole percentage from 1% to 100%"),
        ("[12.5%, rest]", "waves[0]", "must be a whole percentage from 1% to 100%"),
        ("[010%, rest]", "waves[0]", "must be a whole percentage from 1% to 100%"),
        ("[0.25, rest]", "waves[0]", "0.25 is a number: quote it"),
        ("[A, rest]", "waves[0]", "'A' is no valid target"),
        ("[[[a]], rest]", "waves[0][0]", "must be text"),
        ("[{a: 1}]", "waves[0]", "must be text"),
        ("rest", "waves", "must be a list such as [1, 25%, rest]"),
    ],
)
def test_waves_that_do_not_cover_each_target_once_are_refused(
    waves: str, path: str, message: str, errors: Errors
) -> None:
    found = wrong(errors, f"{FOUR}, waves: {waves}")
    assert found[0][0] == path
    assert message in found[0][1]


def test_waves_of_a_template_may_find_fewer_targets(load: Load) -> None:
    """A share or `rest` that leaves nothing is dropped, so that one list fits every environment."""
    found = place(load, "targets: db, waves: [1, 25%, rest]")
    assert found.waves == (("db-1",),)


def test_one_target_and_default_waves(placed: Callable[..., Placement]) -> None:
    assert placed("{plugin: p, targets: {a: {}}}").waves == (("a",),)


WAVES = st.one_of(
    st.builds(Count, st.integers(1, 5)),
    st.builds(Percent, st.integers(1, 100)),
    st.just(Rest()),
    st.builds(Named, st.lists(st.sampled_from("abcdef"), max_size=3).map(tuple)),
)


@given(st.lists(WAVES, max_size=6), st.lists(st.sampled_from("abcdef"), min_size=1, unique=True))
def test_each_target_is_in_exactly_one_wave_or_the_waves_are_refused(
    waves: list[Wave], targets: list[str]
) -> None:
    with suppress(WaveError):
        found = resolve(waves, targets)
        assert sorted(name for wave in found for name in wave) == sorted(targets)
        assert all(found)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ("{password: '${DB}'}", "DB"),
        ("{environment: {X: 'a ${API_TOKEN}'}}", "API_TOKEN"),
        ("{on: ['${SHOP_SECRET}']}", "SHOP_SECRET"),
    ],
)
def test_no_secret_is_filled_into_what_every_deploy_stores(
    errors: Errors, options: str, name: str
) -> None:
    """I18: an order is stored in clear; a reference is looked up for each hook."""
    known = {"DB": "x", "API_TOKEN": "x", "SHOP_SECRET": "x", "HOME": "/h"}
    text = BASE + GROUPS + SHOP % f"targets: {{a: {options}}}"
    [found] = errors(text, environ=known)
    assert f"write secret://env/{name}" in found["message"]
