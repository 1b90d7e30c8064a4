"""Rules of an environment that are read live at every check, as they lie in its row."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from manent_server.domain import approval, promotion
from manent_server.domain.promotion import Rule
from manent_server.domain.windows import Window

FINISH = "finish"
WAVE = "wave"
WAIT = "wait"
REFUSE = "refuse"
QUEUE = "queue"
LATEST = "latest"
REJECT = "reject"
CANCEL_RUNNING = "cancel_running"
COLLISIONS = (QUEUE, LATEST, REJECT, CANCEL_RUNNING)
"""Wait behind it; take the place of what waits; be refused; cancel what runs and wait for it."""
PASSABLE = ("approval", "freeze", "window", "promotion", "soak")
"""Gates a rollback may be let through."""


@dataclass(frozen=True)
class Rules:
    """When deploys may start, what a freeze does to those that run, what a rollback passes.

    `if_blocked`: what becomes of a request that meets a closed gate; `collision`: of one that
    meets another deploy of its application. `promotion`: what a version has to show first;
    `auto_promote`: whatever shows it is taken up. `approvals`: who has to agree first.
    """

    windows: tuple[Window, ...] = ()
    freeze_running: str = FINISH
    rollback_passes: tuple[str, ...] = PASSABLE
    if_blocked: str = WAIT
    collision: str = QUEUE
    promotion: Rule | None = None
    auto_promote: bool = False
    approvals: tuple[approval.Rule, ...] = ()


def dump(rules: Rules) -> dict[str, Any]:
    """As JSON, for the row."""
    return {
        "windows": [
            {
                "allows": window.allows,
                "rule": window.rule,
                "duration": window.duration.total_seconds(),
                "timezone": window.timezone,
                "reason": window.reason,
            }
            for window in rules.windows
        ],
        "freeze_running": rules.freeze_running,
        "rollback_passes": list(rules.rollback_passes),
        "if_blocked": rules.if_blocked,
        "collision": rules.collision,
        "promotion": promotion.dump(rules.promotion),
        "auto_promote": rules.auto_promote,
        "approvals": approval.dump(rules.approvals),
    }


def load(body: Mapping[str, Any]) -> Rules:
    """From the row; what an older release did not write has its default."""
    default = Rules()
    return Rules(
        windows=tuple(
            Window(
                window["allows"],
                window["rule"],
                timedelta(seconds=window["duration"]),
                window["timezone"],
                window.get("reason"),
            )
            for window in body.get("windows", ())
        ),
        freeze_running=body.get("freeze_running", default.freeze_running),
        rollback_passes=tuple(body.get("rollback_passes", default.rollback_passes)),
        if_blocked=body.get("if_blocked", default.if_blocked),
        collision=body.get("collision", default.collision),
        promotion=promotion.load(body.get("promotion")),
        auto_promote=body.get("auto_promote", default.auto_promote),
        approvals=approval.load(body.get("approvals")),
    )
