"""Schedules on a database that shows the time a test sets."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from manent_server.usecases import fire, pause, schedule, timetable
from manent_server.usecases.desk import Desk
from manent_server.usecases.requests import ScheduleRequest
from tests.rig.clocked import Clock, clocked
from tests.rig.core import ADMIN, Core

NOON = datetime(2027, 6, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


@dataclass
class Plans:
    """The schedules of a core, and the clock they go by."""

    core: Core
    desk: Desk
    clock: Clock

    def make(self, name: str = "nightly", application: str = "shop", **more: Any) -> dict[str, Any]:
        """Make a schedule: every ten minutes unless told otherwise."""
        asked: dict[str, Any] = {
            "environment": "staging",
            "cron": "*/10 * * * *",
            "version": None if {"newest", "source"} & set(more) else "1",
            **more,
        }
        return schedule.schedule(
            self.desk, ScheduleRequest(name, application, **asked), caller=ADMIN
        )

    def look(self, by: timedelta = timedelta(0)) -> int:
        """Let time pass, then what the loop does."""
        self.clock.forward(by)
        return fire.fire_due(self.desk)

    def runs(self, name: str = "nightly") -> list[dict[str, Any]]:
        """What became of its instants, the oldest first."""
        found: list[dict[str, Any]] = timetable.runs(self.desk, name, limit=500)["items"]
        return found[::-1]

    def results(self, name: str = "nightly") -> list[str]:
        """The same in words."""
        return [run["result"] for run in self.runs(name)]

    def fired(self, name: str = "nightly") -> list[str]:
        """The deploys it asked for."""
        return [run["deploy"] for run in self.runs(name) if run["result"] == "fired"]

    def pause(self, name: str = "nightly", **more: Any) -> dict[str, Any]:
        """Pause it."""
        return pause.pause(self.desk, name, caller=ADMIN, **more)

    def resume(self, name: str = "nightly") -> dict[str, Any]:
        """Resume it."""
        return pause.resume(self.desk, name, caller=ADMIN)

    def delete(self, name: str = "nightly") -> dict[str, Any]:
        """Delete it."""
        return pause.delete(self.desk, name, caller=ADMIN)

    def end(self, deploy: str, **values: Any) -> None:
        """Let a deploy have ended."""
        ended = {"state": "SUCCESS", "outcome": "deployed", "phase": None, "ended_at": NOON}
        self.core.set(deploy, **{**ended, **values})

    def audited(self, action: str) -> list[dict[str, Any]]:
        """What the record says."""
        rows = self.core.rows("audit")
        return [dict(row) for row in rows if row["action"] == action]


def plans(core: Core, at: datetime = NOON) -> Plans:
    """Schedules of a core, one second after `at`."""
    desk, clock = clocked(core, at + timedelta(seconds=1))
    return Plans(core, desk, clock)
