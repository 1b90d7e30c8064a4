"""The order: what was accepted, frozen, as JSON that outlives the code that wrote it."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from manent_server.domain import approval, promotion
from manent_server.domain.promotion import Rule

SHAPE = 1
# What admission alone reads: no worker walks differently for it.
OF_ADMISSION = frozenset({"returns", "collision", "promotion", "approvals"})


@dataclass(frozen=True)
class Retry:
    """How often a step is tried: `attempts` in all, waits growing by `factor` up to `cap`.

    No try begins later than `total` after the first one of its step.
    """

    attempts: int
    initial: timedelta
    factor: float
    cap: timedelta
    total: timedelta


@dataclass(frozen=True)
class ArtifactOrder:
    """Where the artifact is (`{version}` and its like not yet filled in) and its pinned digest."""

    url: str
    sha256: str | None


@dataclass(frozen=True)
class Limits:
    """Times of one deploy: per hook, for the whole, between waves; and hooks side by side."""

    timeout: timedelta
    deadline: timedelta
    soak: timedelta
    max_parallel: int


@dataclass(frozen=True)
class Order:
    """Everything a worker needs to know of a deploy, decided when it was accepted.

    `hooks` are those the plugin offered then; with `current_configuration` a rollback takes
    today's configuration instead of that of the deploy it goes back to; with `follows_live` its
    version is the one that is live when its turn comes; `targets` map a name to
    the plugin's options, secrets as references; `waves` name the targets in the order in which
    they are visited; on targets `once` names, `deploy` and `rollback` must not happen twice;
    `pauses`: a step that has used up its tries waits for a person; `returns`: it is a rollback to
    what ran before, not to a version somebody named; `collision`: what happens when it meets
    another deploy of its application there; `promotion`: what its version had to show first;
    `approvals`: who has to agree before it may start.
    """

    plugin: str
    plugin_build: str
    hooks: frozenset[str]
    artifact: ArtifactOrder | None
    targets: Mapping[str, Mapping[str, Any]]
    waves: tuple[tuple[str, ...], ...]
    limits: Limits
    retry: Retry
    automatic_rollback: bool
    current_configuration: bool = False
    follows_live: bool = False
    once: frozenset[str] = frozenset()
    pauses: bool = False
    returns: bool = False
    collision: str = "queue"
    promotion: Rule | None = None
    approvals: tuple[approval.Rule, ...] = ()
    shape: int = SHAPE


def dump(order: Order) -> dict[str, Any]:
    """The order as JSON; durations in seconds."""
    limits, retry = order.limits, order.retry
    artifact = order.artifact
    return {
        "shape": order.shape,
        "plugin": order.plugin,
        "plugin_build": order.plugin_build,
        "hooks": sorted(order.hooks),
        "artifact": artifact and {"url": artifact.url, "sha256": artifact.sha256},
        "targets": {name: dict(options) for name, options in order.targets.items()},
        "waves": [list(wave) for wave in order.waves],
        "limits": {
            "timeout": limits.timeout.total_seconds(),
            "deadline": limits.deadline.total_seconds(),
            "soak": limits.soak.total_seconds(),
            "max_parallel": limits.max_parallel,
        },
        "retry": {
            "attempts": retry.attempts,
            "initial": retry.initial.total_seconds(),
            "factor": retry.factor,
            "cap": retry.cap.total_seconds(),
            "total": retry.total.total_seconds(),
        },
        "automatic_rollback": order.automatic_rollback,
        "current_configuration": order.current_configuration,
        "follows_live": order.follows_live,
        "once": sorted(order.once),
        "pauses": order.pauses,
        "returns": order.returns,
        "collision": order.collision,
        "promotion": promotion.dump(order.promotion),
        "approvals": approval.dump(order.approvals),
    }


def load(body: Mapping[str, Any]) -> Order:
    """Read what `dump` wrote.

    Raises:
        ValueError: A shape this build does not know.
    """
    if body["shape"] != SHAPE:
        raise ValueError(f"order of shape {body['shape']}; this build reads {SHAPE}")
    limits, retry, artifact = body["limits"], body["retry"], body["artifact"]
    return Order(
        plugin=body["plugin"],
        plugin_build=body["plugin_build"],
        hooks=frozenset(body["hooks"]),
        artifact=ArtifactOrder(artifact["url"], artifact["sha256"]) if artifact else None,
        # JSONB sorts keys: the waves alone say in which order targets are visited.
        targets=dict(body["targets"]),
        waves=tuple(tuple(wave) for wave in body["waves"]),
        limits=Limits(
            timeout=timedelta(seconds=limits["timeout"]),
            deadline=timedelta(seconds=limits["deadline"]),
            soak=timedelta(seconds=limits["soak"]),
            max_parallel=limits["max_parallel"],
        ),
        retry=Retry(
            attempts=retry["attempts"],
            initial=timedelta(seconds=retry["initial"]),
            factor=retry["factor"],
            cap=timedelta(seconds=retry["cap"]),
            total=timedelta(seconds=retry["total"]),
        ),
        automatic_rollback=body["automatic_rollback"],
        current_configuration=body["current_configuration"],
        follows_live=body.get("follows_live", False),
        once=frozenset(body.get("once", ())),
        pauses=body.get("pauses", False),
        returns=body.get("returns", False),
        collision=body.get("collision", "queue"),
        promotion=promotion.load(body.get("promotion")),
        approvals=approval.load(body.get("approvals")),
    )


def digest(value: Any) -> str:
    """SHA-256 of the canonical JSON of a value."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def only(order: Order, targets: Sequence[str]) -> Order:
    """The order for some of its targets; waves left empty are dropped."""
    keep = set(targets)
    waves = tuple(tuple(t for t in wave if t in keep) for wave in order.waves)
    return replace(
        order,
        targets={name: options for name, options in order.targets.items() if name in keep},
        waves=tuple(wave for wave in waves if wave),
    )
