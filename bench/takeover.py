"""kill -9 with automatic recovery on: when another worker has the hook running again.

And the takeover of hundreds of deploys at once, beside as many plain enqueues of the engine
with one commit.
"""

import logging
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from dbos import EnqueueOptions

from bench.ratios import Goal, Pair, interleave
from bench.report import Figure, alone, ratio
from bench.sides import Ours
from bench.size import Size
from manent_server.engine.dispatch import APPLICATION, WORKFLOW
from manent_server.engine.version import WORKFLOW_VERSION
from manent_server.store.transaction import Transaction
from manent_server.usecases import recover
from manent_server.usecases.requests import RecoverRequest
from tests.integration.core.running import Running
from tests.rig import core as cores
from tests.rig.core import ADMIN, Core, Ground, long_ago
from tests.rig.postgres import Postgres
from tests.rig.process import until

_AFTER, _BEAT = 6.0, 1.0
_RECOVERY = {"heartbeat_interval": "1s", "stale_after": "3s", "auto_recover_after": "6s"}
_WORKERS: Final = ("w1", "w2")


def of_killed_workers(ours: Ours, size: Size) -> list[Figure]:
    """Two workers and an API: the one that runs the hook is killed, the other goes on."""
    ours.rig.configure({"recovery": _RECOVERY})
    ours.rig.stop(limit=60)
    ours.rig._options["w0"] = ("--no-worker",)  # noqa: SLF001 - the rig's own, once for this
    ours.rig.start()
    for name in _WORKERS:
        ours.rig.start_worker(name)
    taken = [_once(ours) for _ in range(size.kills)]
    shown = ", ".join(f"{seconds:.2f}" for seconds in taken)
    name = f"kill -9 to resumed hook on another worker (auto_recover_after {_AFTER:g}s)"
    goal = Goal(_AFTER + 1.5 * _BEAT)
    return [alone(name, "s", [taken], goal, each=shown, longest=max(taken))]


def _once(ours: Ours) -> float:
    deploy = ours.deploy(environment="other", application="sleeper")
    until(lambda: ours.begins(deploy), what="the hook to begin")
    victim = ours.rig.get(f"/deploys/{deploy}")["executor"]
    ours.rig.kill(victim)
    killed = time.monotonic()
    again = until(lambda: ours.begins(deploy)[1:], what="the hook to begin again", limit=60)
    ours.rig.start(victim, wait=False)
    until(lambda: ours.rig.is_ready(victim), what=f"{victim} ready", limit=120)
    ours.wait([deploy])
    ours.demand_nothing_repeated(deploy)
    return again[0] - killed


def of_many_deploys(folder: Path, settings: Mapping[str, str], size: Size) -> list[Figure]:
    """One takeover of so many deploys in mid-hook, and so many enqueues in one transaction."""
    folder.mkdir()
    logging.getLogger(recover.__name__).disabled = True
    postgres = Postgres(settings=settings)
    ground = cores.lay(postgres.create_database())
    try:
        core = cores.build(ground, cores.read_settings(folder))
        found = interleave(
            size.takeovers,
            lambda: _taken_over(core, size.pending),
            lambda: _enqueued(core, size.pending),
        )
    finally:
        ground.close()
        postgres.close()
    name = f"takeover of {size.pending} deploys, as a rate"
    pairs = [Pair(1 / ours, 1 / base) for ours, base in found]
    return [ratio(name, "1/s", pairs, Goal(0.5, is_floor=True))]


def _taken_over(core: Core, count: int) -> float:
    """Seconds for one recover of a worker with so many deploys, each in mid-hook."""
    _fill(core, count)
    began = time.perf_counter()
    answer = recover.recover(core.desk, RecoverRequest("w1"), caller=ADMIN)
    taken = time.perf_counter() - began
    resumed = [found for found in answer["workflows"] if found["resumable"]]
    if len(resumed) != count:
        raise AssertionError(f"{len(resumed)} of {count} were taken over")
    return taken


def _fill(core: Core, count: int) -> None:
    """A lost worker in the middle of so many hooks; another one lives."""
    Ground(core.engines, core.store, core.dispatcher).clear()
    core.configure()
    running = Running(core)
    running.hand_out(running.errand())
    core.worker("w2")
    core.set_worker("w1", heartbeat_at=long_ago())
    with core.store.write() as tx:
        for table, key in (("deploys", "id"), ("slots", "deploy"), ("steps", "deploy")):
            _multiply(tx, table, key, count)
        _multiply(tx, "attempts", "deploy", count)


def _multiply(tx: Transaction, name: str, key: str, count: int) -> None:
    """Copies of the rows of one deploy under further ids, each in a place of its own."""
    table = getattr(tx.tables, name)
    rows = [dict(row) for row in tx.connection.execute(sa.select(table)).mappings()]
    copies = [
        row | {key: _further(row[key], number), **_own(row, number)}
        for number in range(1, count)
        for row in rows
    ]
    tx.connection.execute(table.insert(), copies)


def _further(name: str, number: int) -> str:
    """An id that is not the one it was made of, whatever that ends with: it has no x."""
    return f"{name[:-5]}x{number:04}"


def _own(row: dict[str, Any], number: int) -> dict[str, Any]:
    """What no two rows may share."""
    own: dict[str, Any] = {"application": f"a{number}", "number": number + 1, "place": number}
    if "lock_file" in row:
        own["id"] = _further(row["id"], number)
    return {name: value for name, value in own.items() if name in row}


def _enqueued(core: Core, count: int) -> float:
    """Seconds for so many enqueues by the engine's own call, with one commit."""
    client = core.dispatcher.client
    began = time.perf_counter()
    with core.store.write() as tx:
        for _ in range(count):
            name = uuid.uuid4().hex
            options: EnqueueOptions = {
                "workflow_name": WORKFLOW,
                "queue_name": "default",
                "workflow_id": name,
                "app_version": WORKFLOW_VERSION,
                "application_name": APPLICATION,
            }
            client.enqueue_in_transaction(tx.connection, options, name, 1)
    return time.perf_counter() - began
