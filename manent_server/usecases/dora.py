"""DORA: how often deploys come, how many fail, how long both take to be made good."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from manent_server.domain import dora, schedule
from manent_server.domain.dora import Figures, Spread, Window
from manent_server.domain.errors import Invalid
from manent_server.store import dora as rows
from manent_server.store.dora import Hole
from manent_server.usecases import inspect
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import DoraRequest

MOST = 50_000
"""Deploys that are counted for one answer."""


def figures(desk: Desk, request: DoraRequest) -> dict[str, Any]:
    """The figures of each application in each tier, with how much of the time they cover.

    Raises:
        Invalid: A zone that is none, days in the wrong order or too many, or too many deploys.
        NotFound: An application or environment the caller does not see.
    """
    zone = schedule.zone(request.timezone)
    with desk.store.read() as tx:
        window = dora.window(request.first, request.last, zone, at=tx.now())
        place = inspect.place(tx, desk, request.application, request.environment)
        wanted = rows.Wanted(window.start, desk.sight, tier=request.tier, **place)
        ended = rows.ended(tx, wanted, limit=MOST + 1)
        holes = rows.holes(tx, wanted)
        if len(ended) > MOST:
            raise Invalid(
                f"more than {MOST} deploys ended since {window.first}",
                next="name an application, an environment or a later `from`",
            )
    found = dora.figures(ended, window, [(hole.application, hole.tier) for hole in holes])
    return {
        "from": window.first.isoformat(),
        "to": window.last.isoformat(),
        "timezone": request.timezone,
        "days": window.days,
        "items": [_shown(one, window, holes) for one in found],
    }


def _shown(one: Figures, window: Window, holes: Sequence[Hole]) -> dict[str, Any]:
    weeks, key = window.days / 7, (one.application, one.tier)
    return {
        "application": one.application,
        "tier": one.tier,
        "environments": list(one.environments),
        "deploys": one.deploys,
        "successful": one.successful,
        "failed": one.failed,
        "frequency": {
            "per_day": one.successful / window.days,
            "per_week": one.successful / weeks,
        },
        "change_failure_rate": one.failure_rate,
        "time_to_restore": {**_spread(one.restore), "unrestored": one.unrestored},
        "lead_time": {
            **_spread(one.lead), "negative": one.negative, "unexplained": one.unexplained
        },
        "months": [vars(month) for month in one.months],
        "coverage": _coverage(
            [hole.until for hole in holes if (hole.application, hole.tier) == key], window
        ),
    }  # fmt: skip


def _spread(spread: Spread) -> dict[str, Any]:
    return {
        "count": spread.count,
        "median_seconds": spread.median,
        "mean_seconds": spread.mean,
    }


def _coverage(gone_until: Sequence[datetime], window: Window) -> dict[str, Any]:
    """From which day on the history they were counted from is whole."""
    if not gone_until:
        return {"complete": True, "since": window.first.isoformat()}
    return {"complete": False, "since": window.day_after(max(gone_until)).isoformat()}
