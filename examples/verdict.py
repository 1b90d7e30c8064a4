"""What must be true when the demo is over."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

Place = tuple[str, str]
Object = Mapping[str, Any]

_PROMISED = (
    ("staging", "v1", "deployed", 0),
    ("production", "v1", "deployed", 0),
    ("staging", "v2", "deployed", 0),
    ("production", "v2", "deployed", 0),
    ("production", "v3", "rolled_back", 3),
)
_LAST_GOOD = "v2"
_TOUCHED = ("production", "web-1")


class Happened(Protocol):
    """What the demo has noted."""

    deploys: list[dict[str, Any]]
    """As the API shows them, in the order they were asked for."""
    attempts: dict[str, list[dict[str, Any]]]
    """By the deploy's id."""
    exit_codes: list[int]
    """Of `manent deploy`."""
    inventory: list[dict[str, Any]]
    """At the end."""
    before: dict[Place, Object]
    """What each service answered before v3."""
    after: dict[Place, Object]
    """What each service answers at the end."""


def faults(happened: Happened) -> list[str]:
    """A sentence for each thing that is not as promised."""
    broken = happened.attempts[happened.deploys[-1]["id"]]
    return [
        *_of_ends(happened),
        *_of_attempts(broken),
        *_of_services(happened.before, happened.after),
        *_of_inventory(happened.inventory, places=len(happened.after)),
    ]


def _of_ends(happened: Happened) -> Iterator[str]:
    ends = zip(_PROMISED, happened.deploys, happened.exit_codes, strict=True)
    for (environment, version, outcome, code), deploy, given in ends:
        if (deploy["outcome"], given) != (outcome, code):
            yield (
                f"{version} to {environment} ended {deploy['outcome']} with exit code {given}, "
                f"not {outcome} with {code}."
            )


def _of_attempts(attempts: Sequence[Object]) -> Iterator[str]:
    visited = {attempt["target"] for attempt in attempts}
    if visited != {_TOUCHED[1]}:
        yield f"v3 visited {', '.join(sorted(visited)) or 'nothing'}, not {_TOUCHED[1]} alone."
    ends = {(attempt["hook"], attempt["result"]) for attempt in attempts}
    for hook, result in (("verify", "failed"), ("rollback", "succeeded")):
        if (hook, result) not in ends:
            yield f"v3 has no {hook} that {result}."


def _of_services(before: Mapping[Place, Object], after: Mapping[Place, Object]) -> Iterator[str]:
    for place, answer in after.items():
        name = "/".join(place)
        if answer.get("version") != _LAST_GOOD:
            yield f"{name} says it is {answer.get('version')}, not {_LAST_GOOD}."
        if place != _TOUCHED and answer.get("pid") != before[place].get("pid"):
            yield f"{name} was restarted, and v3 never was its business."


def _of_inventory(inventory: Sequence[Object], *, places: int) -> Iterator[str]:
    if len(inventory) != places:
        yield f"the inventory has {len(inventory)} targets, not {places}."
    for item in inventory:
        if (item["version"], item["state"]) != (_LAST_GOOD, "known"):
            yield (
                f"the inventory has {item['version']} ({item['state']}) on "
                f"{item['environment']}/{item['target']}, not {_LAST_GOOD}."
            )
