"""The approvals of an environment."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from manent_server.domain.approval import Rule
from manent_server.settings import Settings


def environment(tier: str, rules: str) -> str:
    return f"environments: {{e: {{tier: {tier}, approvals: {rules}}}}}"


def test_what_is_left_out_has_its_default(load: Callable[[str], Settings]) -> None:
    """A program nobody knows is refused in tier production alone, unless it is said."""
    for tier, default in (("production", "refuse"), ("staging", "allow")):
        text = environment(tier, "[{name: a}, {name: b, unknown_requester: allow, expires: null}]")
        found = load(text).environments["e"].rules.approvals
        assert found == (
            Rule("a", expires=timedelta(days=1), unknown_requester=default),
            Rule("b", unknown_requester="allow"),
        )


def test_everything_is_read(load: Callable[[str], Settings]) -> None:
    rule = "{name: a, quorum: 2, from: [sre, bot], required: [boss], expires: 1h}"
    (found,) = load(environment("staging", f"[{rule}]")).environments["e"].rules.approvals
    assert found == Rule(
        "a", 2, ("sre", "bot"), ("boss",), timedelta(hours=1), unknown_requester="allow"
    )


def test_what_is_wrong_is_named(errors: Callable[[str], list[dict[str, Any]]]) -> None:
    """B116"""
    for rules, where, words in (
        ("[{name: a}, {name: a}]", "approvals", "two rules of one name"),
        ("[{quorum: 1}]", "approvals", "the key name is missing"),
        ("[{name: a, quorum: 0}]", "quorum", "1 or more"),
        ("[{name: a, form: [x]}]", "form", "did you mean from?"),
    ):
        (found,) = errors(environment("staging", rules))
        assert where in found["path"], found
        assert words in found["message"], found
