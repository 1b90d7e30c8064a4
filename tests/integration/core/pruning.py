"""Deploys of long ago, and a prune of them."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from manent_server.domain.deploy import Outcome
from manent_server.retention import prune
from manent_server.usecases.requests import PruneRequest
from tests.integration.core.running import Running
from tests.rig.core import ADMIN, Core

DAY = timedelta(days=1)
OLD = PruneRequest(max_age=90 * DAY, keep_releases=10)


def good(core: Core, version: str, **more: Any) -> str:
    running = Running(core, version=version, **more)
    earlier = [row for row in core.rows("deploys") if row["state"] == "SUCCESS"]
    mine = [row for row in earlier if row["environment"] == running.deploy.environment]
    last = max(mine, key=lambda row: int(row["epoch"]), default=None)
    core.set(running.deploy.id, replaces=last and last["id"])
    running.perform("deploy:web")
    running.perform("verify:web")
    running.close(Outcome.DEPLOYED)
    return running.deploy.id


def bad(core: Core, version: str, **more: Any) -> str:
    running = Running(core, version=version, **more)
    running.close(Outcome.FAILED)
    return running.deploy.id


def aged(core: Core, deploy: str, days: float) -> str:
    """A deploy as if it had ended that many days ago."""
    at = core.at() - days * DAY
    core.set(deploy, requested_at=at - timedelta(minutes=1), ended_at=at)
    core.set_delivery(deploy, "SUCCESS")
    return deploy


def old_good(core: Core, version: str, days: float, **more: Any) -> str:
    return aged(core, good(core, version, **more), days)


def old_bad(core: Core, version: str, days: float, **more: Any) -> str:
    return aged(core, bad(core, version, **more), days)


def pruned(core: Core, request: PruneRequest = OLD, **more: Any) -> dict[str, Any]:
    return prune.prune(core.desk, request, caller=ADMIN, **more)


def dry(request: PruneRequest) -> PruneRequest:
    return replace(request, dry_run=True, explain=True)


def left(core: Core) -> set[str]:
    return {str(row["id"]) for row in core.rows("deploys")}
