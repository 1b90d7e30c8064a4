"""Prune: beside a raw DELETE of as many rows, and beside deploys, killed half-way.

One part deletes from a database of its own, in slices, what the product may delete; and in
turns with it, by known ids and in batches with one commit each, as many deploys with the same
rows. The other lets a whole prune work on the database of a server that deploys.
"""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any, Final

import sqlalchemy as sa

from bench import flood
from bench.flood import Flood
from bench.listing import laid
from bench.ratios import Goal, Pair, interleave
from bench.report import Figure, alone, ratio
from bench.sides import Ours
from bench.size import Size
from manent_server.domain.access import MANENT
from manent_server.domain.errors import Unavailable
from manent_server.domain.retention import Policy
from manent_server.retention.prune import Pruner
from manent_server.store import tables
from tests.rig.core import Core
from tests.rig.postgres import Postgres
from tests.rig.process import Process, until
from tests.rig.serve import BIN

_BATCH: Final = 200
_AGE: Final = 100
_POLICY: Final = Policy(timedelta(days=90), 1)
_DEPLOYS: Final = 20
_RATE, _DELAY = Goal(0.5, is_floor=True), Goal(2.0)


def beside_a_delete(folder: Path, settings: Mapping[str, str], size: Size) -> list[Figure]:
    """Deploys deleted in a second, after the survey of what stays, beside a plain DELETE."""
    folder.mkdir()
    postgres = Postgres(settings=settings)
    history = Flood(size.pruned, log_rows=size.log_rows, has_work=True, age=_AGE)
    # One release of each place stays.
    slice_ = (size.pruned - flood.PLACES) // (2 * size.pairs + 1)
    try:
        with laid(postgres, folder / "core", history) as core:
            pairs = interleave(
                size.pairs, lambda: _pruned(core, slice_), lambda: _deleted(core, slice_)
            )
    finally:
        postgres.close()
    name = f"prune of deploys with {size.log_rows} log rows, beside a batched DELETE"
    return [ratio(name, "deploys/s", [Pair(*pair) for pair in pairs], _RATE, of=slice_)]


def _pruned(core: Core, count: int) -> float:
    began, first = 0.0, 0

    def is_enough() -> bool:
        nonlocal began, first
        gone = pruner._tally.deploys  # noqa: SLF001 - to end it after a slice
        if gone and not first:
            # The survey of what stays is over: it takes the same time however much is deleted.
            began, first = time.perf_counter(), gone
        return gone >= count

    pruner = Pruner(core.desk, _POLICY, caller=MANENT, stop=is_enough)
    try:
        pruner.run()
    except Unavailable:
        gone = pruner._tally.deploys - first  # noqa: SLF001 - see above
        return gone / (time.perf_counter() - began)
    raise AssertionError("the history is shorter than its slices")


def _deleted(core: Core, count: int) -> float:
    """The oldest, by ids that are known, with all that is theirs."""
    with core.store.read() as tx:
        t, d = tx.tables, tx.tables.deploys
        wanted = sa.select(d.c.id).order_by(d.c.requested_at, d.c.id).limit(count)
        ids = list(tx.connection.execute(wanted).scalars())
    began = time.perf_counter()
    for first in range(0, len(ids), _BATCH):
        batch = ids[first : first + _BATCH]
        with core.store.write() as tx:
            for table in (t.logs, t.attempts, t.steps, t.wakes):
                tx.connection.execute(sa.delete(table).where(table.c.deploy.in_(batch)))
            tx.connection.execute(sa.delete(d).where(d.c.id.in_(batch)))
    return len(ids) / (time.perf_counter() - began)


def beside_deploys(ours: Ours, size: Size) -> list[Figure]:
    """The wait for the first hook while a prune works, beside none; it is killed half-way."""
    template = ours.submit(0)
    ours.wait([template])
    history = Flood(size.pruned, log_rows=size.log_rows, has_work=True, age=_AGE)
    flood.pour(ours.rig.database_url, tables.build("postgresql"), template, history)
    idle = _delays(ours)
    before = _old(ours)
    first = _Pruner(ours, "first")
    busy = _delays(ours)
    until(lambda: _old(ours) < before / 2 or not first.is_running(), what="half", limit=3600)
    first.kill()
    left = _old(ours)
    second = _Pruner(ours, "second")
    busy += _delays(ours) if second.is_running() else []
    until(lambda: not second.is_running(), what="the prune to end", limit=3600)
    _demand_record(ours, before - _old(ours))
    name = f"start of a deploy while {size.pruned} old ones are pruned, beside none"
    detail = {"killed_at": left, "of": before, "left": _old(ours), "tries": second.tries}
    return [
        ratio(name, "ms", [Pair(one, median(idle)) for one in busy], _DELAY, **detail),
        alone("the same, slowest", "ms", [[max(busy)]], None),
    ]


class _Pruner:
    """`admin prune` as a process of its own, asked again while another may be at work."""

    def __init__(self, ours: Ours, name: str) -> None:
        self._ours, self._name, self.tries = ours, name, 0
        self._start()

    def _start(self) -> None:
        rig = self._ours.rig
        words = ["admin", "prune", "--local", "--max-age", "2160h", "--keep-releases", "1"]
        environ = {**rig._environ, "MANENT_CONFIG": str(rig.config_file())}  # noqa: SLF001 - of the rig
        log = rig.folder / f"prune-{self._name}-{self.tries}.log"
        command = [str(BIN / "manent-server"), *words]
        self._process = Process(command, log=log, environ=environ, is_exact=True)
        self.tries += 1

    def is_running(self) -> bool:
        """Whether it works still, or will once the lease of a dead one has ended."""
        if self._process.is_running():
            return True
        if self._process.exit_code and "another prune is at work" in self._process.last_words():
            time.sleep(1)
            self._start()
            return True
        if self._process.exit_code:
            raise AssertionError(self._process.last_words())
        return False

    def kill(self) -> None:
        """In the middle of a batch."""
        if self._process.is_running():
            self._process.kill()


def _delays(ours: Ours) -> list[float]:
    """Milliseconds from the 202 to the first hook of so many deploys; all have to succeed."""
    asked = []
    for number in range(_DEPLOYS):
        name = ours.submit(number)
        asked.append((name, time.monotonic()))
        time.sleep(0.3)
    ours.wait([name for name, _ in asked])
    return [(ours.begins(name)[0] - at) * 1000 for name, at in asked]


def _old(ours: Ours) -> int:
    query = "SELECT count(*) FROM manent.deploys WHERE application LIKE 'app-%%'"
    return int(ours.rows.query(query)[0][0])


def _demand_record(ours: Ours, gone: int) -> None:
    """Each deleted deploy is counted by a record, those of the killed prune too."""
    query = "SELECT record::jsonb -> 'detail' ->> 'deploys' FROM manent.audit WHERE action = %s"
    counts: Sequence[Any] = ours.rows.query(query, "retention.deleted")
    found = Counter[str]()
    for (count,) in counts:
        found["deploys"] += int(count)
    if found["deploys"] != gone:
        raise AssertionError(f"{gone} deploys are gone, {found['deploys']} on record")
