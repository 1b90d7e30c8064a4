"""What the demo calls a fault: each promise that is broken is named, and nothing else is."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from examples.verdict import faults

ENDS = [
    ("staging", "v1", "deployed", 0),
    ("production", "v1", "deployed", 0),
    ("staging", "v2", "deployed", 0),
    ("production", "v2", "deployed", 0),
    ("production", "v3", "rolled_back", 3),
]
PLACES = [("staging", "web-1"), *(("production", f"web-{number}") for number in (1, 2, 3))]


def service(pid: int, version: str = "v2") -> dict[str, Any]:
    return {"version": version, "pid": pid}


def attempt(hook: str, result: str, target: str = "web-1") -> dict[str, Any]:
    return {"hook": hook, "result": result, "target": target}


@dataclass
class Happened:
    """A demo in which everything is as promised."""

    deploys: list[dict[str, Any]] = field(
        default_factory=lambda: [
            {"id": str(at), "environment": environment, "version": version, "outcome": outcome}
            for at, (environment, version, outcome, _) in enumerate(ENDS)
        ]
    )
    attempts: dict[str, list[dict[str, Any]]] = field(
        default_factory=lambda: {
            "4": [
                attempt("deploy", "succeeded"),
                attempt("verify", "failed"),
                attempt("rollback", "succeeded"),
            ]
        }
    )
    exit_codes: list[int] = field(default_factory=lambda: [code for *_, code in ENDS])
    inventory: list[dict[str, Any]] = field(
        default_factory=lambda: [
            {"environment": environment, "target": target, "version": "v2", "state": "known"}
            for environment, target in PLACES
        ]
    )
    before: dict[tuple[str, str], Any] = field(
        default_factory=lambda: {place: service(at) for at, place in enumerate(PLACES)}
    )
    after: dict[tuple[str, str], Any] = field(
        default_factory=lambda: {place: service(at) for at, place in enumerate(PLACES)}
    )


def test_nothing_is_wrong_when_all_is_as_promised():
    assert faults(Happened()) == []


def test_the_touched_target_alone_may_be_another_process():
    happened = Happened()
    happened.after["production", "web-1"] = service(99)
    assert faults(happened) == []
    happened.after["production", "web-2"] = service(98)
    assert faults(happened) == ["production/web-2 was restarted, and v3 never was its business."]


@pytest.mark.parametrize(("outcome", "code"), [("deployed", 0), ("rolled_back", 0), ("failed", 3)])
def test_another_end_is_named(outcome, code):
    happened = Happened()
    happened.deploys[-1]["outcome"] = outcome
    happened.exit_codes[-1] = code
    said = f"v3 to production ended {outcome} with exit code {code}, not rolled_back with 3."
    assert faults(happened) == [said]


def test_another_version_in_place_is_named():
    happened = Happened()
    happened.after["production", "web-3"] = service(3, "v3")
    happened.inventory[-1]["version"] = "v3"
    assert faults(happened) == [
        "production/web-3 says it is v3, not v2.",
        "the inventory has v3 (known) on production/web-3, not v2.",
    ]


def test_a_target_that_v3_should_not_have_visited_is_named():
    happened = Happened()
    happened.attempts["4"].append(attempt("deploy", "succeeded", "web-2"))
    assert faults(happened) == ["v3 visited web-1, web-2, not web-1 alone."]


def test_a_rollback_that_was_none_is_named():
    happened = Happened()
    happened.attempts["4"].pop()
    assert faults(happened) == ["v3 has no rollback that succeeded."]
