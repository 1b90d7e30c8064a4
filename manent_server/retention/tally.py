"""What a prune has deleted, or would, and why the rest stays; as the API says it."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from manent_server.domain import duration
from manent_server.domain.retention import Kept, Policy
from manent_server.store.retention import Old

_SHOWN: Final = 1000


@dataclass
class Tally:
    """What was deleted or would be, and what stays."""

    policy: Policy
    is_dry: bool
    deploys: int = 0
    approvals: int = 0
    runs: int = 0
    kept: Counter[Kept] = field(default_factory=Counter)
    shown: list[tuple[Old, Kept]] = field(default_factory=list)

    def keep(self, row: Old, reason: Kept) -> None:
        """One that stays."""
        self.kept[reason] += 1
        if len(self.shown) < _SHOWN:
            self.shown.append((row, reason))

    def answer(self, *, explains: bool = False) -> dict[str, Any]:
        """As the API says it."""
        body: dict[str, Any] = {
            "dry_run": self.is_dry,
            "max_age": duration.show(self.policy.max_age),
            "keep_releases": self.policy.keep_releases,
            "deploys": self.deploys,
            "approvals": self.approvals,
            "schedule_runs": self.runs,
            "workflows": self.deploys + self.approvals + self.runs,
            "kept": {str(reason): count for reason, count in sorted(self.kept.items())},
        }
        if explains:
            body["explained"] = [
                {
                    "id": row.id,
                    "application": row.application,
                    "environment": row.environment,
                    "number": row.number,
                    "version": row.version,
                    "reason": str(reason),
                }
                for row, reason in self.shown
            ]
        return body
