"""Thousands of deploys that wait for approval: what they cost, and whether one of them is slower.

They are copies of one that really waits, made in the database: row, approval and alarm.
"""

import time
from pathlib import Path
from typing import Any

import psycopg

from bench.processes import resident
from bench.ratios import Goal, Pair
from bench.report import Figure, alone, ratio
from bench.sides import Ours
from bench.size import Size
from tests.rig.process import until

_MEMORY, _SPEED = Goal(5.0), Goal(1.5)
_SETTLE = 70.0
"""Longer than the survey waits between two looks at everything."""


def for_approval(ours: Ours, size: Size) -> list[Figure]:
    """Memory and threads of `serve`, and the time from a decision to the first hook."""
    approver = _Approver(ours)
    alone_took = [approver.decided() for _ in range(size.deploys)]
    before = _cost(ours.pid)
    _fill(ours, approver.waiting(), size.waiting)
    time.sleep(_SETTLE if size.waiting > size.burst * 10 else 2.0)
    among_took = [approver.decided() for _ in range(size.deploys)]
    after = _cost(ours.pid)
    pairs = [Pair(one, other) for one, other in zip(among_took, alone_took, strict=True)]
    grown, threads = after[0] - before[0], after[1] - before[1]
    name = f"{size.waiting} deploys waiting for approval"
    return [
        alone(f"{name}: more memory of serve", "MB", [[grown]], _MEMORY, threads=threads),
        ratio(f"{name}: decision to first hook, beside none", "ms", pairs, _SPEED),
    ]


class _Approver:
    """A person who may approve."""

    def __init__(self, ours: Ours) -> None:
        self._ours = ours
        given = ["token", "create", "boss", "--role", "approver", "--kind", "person"]
        token = ours.rig.server_cli(given, check=True).stdout.strip()
        self._headers = {"Authorization": f"Bearer {token}"}

    def waiting(self) -> str:
        """A deploy that waits for approval."""
        deploy = self._ours.deploy(environment="asked", application="asked")
        until(lambda: self._asked(deploy), what="people to be asked", limit=60)
        return deploy

    def _asked(self, deploy: str) -> list[dict[str, Any]]:
        found = self._ours.rig.get("/approvals", deploy=deploy, state="waiting")
        return list(found["items"])

    def decided(self) -> float:
        """Milliseconds from the decision to the first hook."""
        deploy = self.waiting()
        path = f"/approvals/{self._asked(deploy)[0]['id']}/decisions"
        began = time.monotonic()
        answer = self._ours.rig.http(
            "POST", path, json={"decision": "approve"}, headers=self._headers
        )
        answer.raise_for_status()
        begins = until(lambda: self._ours.begins(deploy), what="the hook to begin", limit=60)
        self._ours.wait([deploy])
        return (begins[0] - began) * 1000


def _cost(pid: int) -> tuple[float, int]:
    """Megabytes and threads."""
    return resident(pid), len(list(Path(f"/proc/{pid}/task").iterdir()))


def _fill(ours: Ours, deploy: str, count: int) -> None:
    """So many more like this one."""
    with psycopg.connect(ours.rig.database_url) as connection:
        for statement in _COPIES:
            connection.execute(statement, {"deploy": deploy, "count": count})


_COPIES = (
    """INSERT INTO manent.deploys SELECT (jsonb_populate_record(d, jsonb_build_object(
    'id', lpad(to_hex(n), 20, '0'), 'root', lpad(to_hex(n), 20, '0'), 'number', d.number + n))).*
    FROM manent.deploys d, generate_series(1, %(count)s::int) n WHERE d.id = %(deploy)s""",
    """UPDATE manent.environments SET next_number = next_number + %(count)s
    WHERE name = (SELECT environment FROM manent.deploys WHERE id = %(deploy)s)""",
    """INSERT INTO manent.approvals SELECT (jsonb_populate_record(a, jsonb_build_object(
    'id', lpad(to_hex(n), 20, '0'), 'deploy', lpad(to_hex(n), 20, '0')))).*
    FROM manent.approvals a, generate_series(1, %(count)s::int) n WHERE a.deploy = %(deploy)s""",
    """INSERT INTO manent.wakes SELECT lpad(to_hex(n), 20, '0'), w.at, w.reason
    FROM manent.wakes w, generate_series(1, %(count)s::int) n WHERE w.deploy = %(deploy)s""",
)
