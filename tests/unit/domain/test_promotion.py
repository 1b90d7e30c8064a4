"""Which evidence lets a version go on."""

from dataclasses import replace
from datetime import timedelta

import pytest

from manent_server.domain import promotion
from manent_server.domain.promotion import ANY, Rule, Run
from tests.unit.domain.values import NOON

HOUR = timedelta(hours=1)
TARGETS = {"staging": ("a", "b", "c", "d"), "qa": ("a",)}
RULE = Rule(("staging",), soak=HOUR, max_age=5 * HOUR, targets=TARGETS)


def run(target: str = "a", environment: str = "staging", ago: int = 2, **more: str) -> Run:
    at = NOON - ago * HOUR
    values = {"version": "1", "sha256": "f" * 64, "deploy": f"d{ago}"} | more
    return Run(environment, target, since=at, proven_at=at, **values)


WHOLE = [run(target) for target in "abcd"]


def judge(rule: Rule, runs: list[Run], sha256: str | None = None) -> promotion.Evidence:
    return promotion.judge(rule, runs, version="1", sha256=sha256, at=NOON)


def test_what_runs_everywhere_for_long_enough_may_go_on():
    found = judge(RULE, WHOLE)
    assert (found.missing, found.ripe_at) == ((), NOON - HOUR)
    assert found.run in WHOLE


@pytest.mark.parametrize(
    ("rule", "runs", "words"),
    [
        (RULE, [], "runs on 0 of 4 targets in staging, 4 are asked for"),
        (RULE, WHOLE[:3], "runs on 3 of 4"),
        (replace(RULE, share=80), WHOLE[:3], "4 are asked for"),
        (RULE, [*WHOLE[:3], run("d", version="2")], "runs on 3 of 4"),
        (RULE, [*WHOLE[:3], run("d", sha256="0" * 64)], "not one digest in staging"),
        (RULE, [run(target, ago=6) for target in "abcd"], "is older than 5:00:00"),
        (replace(RULE, sources=("elsewhere",)), WHOLE, "has no targets in elsewhere"),
        (replace(RULE, sources=("staging", "qa")), WHOLE, "runs on 0 of 1 targets in qa"),
        (replace(RULE, sources=("staging", "qa"), match=ANY), [], "staging, 4 are asked for"),
        (RULE, [*WHOLE, run("gone")][1:], "runs on 3 of 4"),
    ],
)
def test_what_is_missing_is_said(rule: Rule, runs: list[Run], words: str):
    assert any(words in one for one in judge(rule, runs).missing)


@pytest.mark.parametrize("beside", [run("gone", sha256="0" * 64), run("a", "old", sha256="0" * 64)])
def test_what_runs_where_the_rule_does_not_look_says_nothing(beside: Run):
    """A target that was dropped, an environment that another rule asks about."""
    rule = replace(RULE, targets={**TARGETS, "old": ("a",)})
    assert judge(rule, [*WHOLE, beside]).missing == ()


def test_a_share_is_rounded_up_and_its_last_target_decides_the_soak():
    runs = [run("a", ago=4), run("b", ago=3), run("c", ago=0)]
    found = judge(replace(RULE, share=50), runs)
    assert (found.missing, found.ripe_at) == ((), NOON - 2 * HOUR)
    assert judge(replace(RULE, share=51), runs).ripe_at == NOON + HOUR
    assert judge(replace(RULE, share=1), runs).ripe_at == NOON - 3 * HOUR


def test_all_sources_wait_for_the_last_and_any_for_the_first():
    both = replace(RULE, sources=("staging", "qa"))
    runs = [*WHOLE, run("a", "qa", ago=0)]
    assert judge(both, runs).ripe_at == NOON + HOUR
    assert judge(replace(both, match=ANY), runs).ripe_at == NOON - HOUR
    assert judge(replace(both, match=ANY), runs[-1:]).ripe_at == NOON + HOUR


def test_sources_have_to_agree_on_the_digest():
    both = replace(RULE, sources=("staging", "qa"))
    other = run("a", "qa", sha256="0" * 64)
    assert "not one digest in staging, qa" in judge(both, [*WHOLE, other]).missing[0]


def test_another_digest_is_no_evidence():
    assert judge(RULE, WHOLE, "f" * 64).missing == ()
    assert "runs on 0 of 4" in judge(RULE, WHOLE, "0" * 64).missing[0]


def test_a_rule_is_read_back_as_it_was_written():
    for rule in (RULE, replace(RULE, max_age=None), None):
        assert promotion.load(promotion.dump(rule)) == rule
    assert hash(RULE) == hash(replace(RULE, targets={}))


def test_what_is_lacking_is_never_ripe():
    with pytest.raises(ValueError, match="never ripe"):
        promotion._ripeness(promotion.Evidence(("something",)))
