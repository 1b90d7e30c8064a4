"""The two sides: what accepts work, and the database that tells when it has ended."""

import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Protocol

import httpx2
import psycopg

from bench import history
from bench.configuration import PLACES, configuration
from bench.history import Mark
from tests.rig.ports import free_port
from tests.rig.process import Process, until
from tests.rig.serve import BIN, Config, Rig, path_environment

PLUGIN = Path(__file__).parent / "plugin"
_ROOT = Path(__file__).parents[1]
# Defaults of manent.yml; the bare engine is given the same.
_POLLING, _CONCURRENCY, _POOL = 0.2, 64, 20
_LOOK = 0.003
_LIMIT = 600.0


class Failed(RuntimeError):
    """Work that had to succeed did not."""


class Side(Protocol):
    """Accepts five empty steps and knows when they are done."""

    def submit(self, place: int) -> str:
        """Ask for one; returns its id when it was accepted."""

    def wait(self, names: Sequence[str]) -> float:
        """Wait until all have succeeded; the clock at that moment."""

    def runs(self, names: Sequence[str]) -> list[float]:
        """Seconds from the engine's dequeue of each to its completion."""

    @property
    def pid(self) -> int:
        """Its process."""

    def probe(self) -> float:
        """How long `SELECT 1` takes now."""


class _Rows:
    """One connection that reads what a side has stored."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)

    def wait(self, query: str, names: Sequence[str]) -> float:
        """Ask until the query finds all of the names; it finds (state, count)."""
        end = time.monotonic() + _LIMIT
        states: dict[str, int] = {}
        while time.monotonic() < end:
            states = dict(self._connection.execute(query, [list(names)]).fetchall())
            if states.get("SUCCESS", 0) == len(names):
                return time.monotonic()
            if bad := {"ERROR", "CANCELLED"} & states.keys():
                raise Failed(f"ended as {', '.join(bad)}: {states}")
            time.sleep(_LOOK)
        raise Failed(f"{len(names)} runs have not ended: {states}")

    def runs(self, names: Sequence[str]) -> list[float]:
        """The engine's own times of its workflows, in seconds."""
        query = (
            "SELECT completed_at - started_at_epoch_ms FROM dbos.workflow_status "
            "WHERE workflow_uuid = ANY(%s) AND completed_at IS NOT NULL"
        )

        def ended() -> list[tuple[int]] | None:
            # The engine records the end of a deploy's dispatch a moment after the deploy's own.
            found = self._connection.execute(query, [list(names)]).fetchall()
            return found if len(found) == len(names) else None

        rows = until(ended, what="the engine's rows to end") or []
        return [row[0] / 1000 for row in rows]

    def probe(self) -> float:
        """The median of some round trips, in seconds."""
        taken = []
        for _ in range(50):
            began = time.perf_counter()
            self._connection.execute("SELECT 1").fetchone()
            taken.append(time.perf_counter() - began)
        return median(taken)

    def query(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Any other."""
        return self._connection.execute(query, values).fetchall()


class Ours:
    """manent as a user runs it: one `serve` with its defaults, and the no-op plugin."""

    def __init__(
        self,
        folder: Path,
        url: str,
        *,
        lines: int,
        config: Config | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        folder.mkdir()
        self._marks = folder / "marks"
        whole = configuration(self._marks, lines=lines) | dict(config or {})
        environ = {"PYTHONPATH": str(PLUGIN), **(environ or {})}
        self.rig = Rig(folder, url, whole, environ=environ)
        self.rig.prepare()
        self.rig.start()
        self.rows = _Rows(url)

    def submit(self, place: int) -> str:
        """A deploy to two targets, one after the other: prepare and four hooks."""
        return self.deploy(environment=f"place-{place % PLACES}", application="noop")

    def deploy(self, **fields: Any) -> str:
        """Any deploy; its id."""
        return str(self.rig.deploy(uuid.uuid4().hex[:12], **fields)["id"])

    def wait(self, names: Sequence[str]) -> float:
        """Wait for the deploys' rows."""
        query = "SELECT state, count(*) FROM manent.deploys WHERE id = ANY(%s) GROUP BY state"
        return self.rows.wait(query, names)

    def runs(self, names: Sequence[str]) -> list[float]:
        """Their first dispatches."""
        return self.rows.runs([f"{name}.1" for name in names])

    def marks(self) -> list[Mark]:
        """What the hooks left."""
        return history.read(self._marks)

    def begins(self, deploy: str) -> list[float]:
        """When the hook of the deploy's first target began, each time."""
        mine = [mark for mark in self.marks() if mark.run.startswith(deploy)]
        return [mark.at for mark in mine if (mark.event, mark.step) == ("begin", "deploy:a")]

    def demand_nothing_repeated(self, deploy: str) -> None:
        """Fail where a finished step of the deploy was run again."""
        if history.repeated([mark for mark in self.marks() if mark.run.startswith(deploy)]):
            raise AssertionError(f"a finished step of {deploy} was run again")

    @property
    def pid(self) -> int:
        """Of `serve`."""
        return self.rig.process().pid

    def probe(self) -> float:
        """How long `SELECT 1` takes now."""
        return self.rows.probe()

    def close(self) -> None:
        """End it."""
        self.rig.close()


class Bare:
    """The engine alone."""

    def __init__(self, folder: Path, url: str) -> None:
        folder.mkdir()
        self._marks = folder / "marks"
        port = free_port()
        self._url = f"http://127.0.0.1:{port}"
        self._client = httpx2.Client(trust_env=False, timeout=30.0)
        driver = url.replace("postgresql://", "postgresql+psycopg://")
        words = (driver, port, _POLLING, _CONCURRENCY, _POOL, self._marks)
        self._process = Process(
            [str(BIN / "python"), "-m", "bench.bare", *map(str, words)],
            log=folder / "log",
            environ=path_environment(folder) | {"PYTHONPATH": str(_ROOT)},
        )
        until(self._answers, what="the bare engine", limit=60)
        self.rows = _Rows(url)

    def _answers(self) -> bool:
        if not self._process.is_running():
            raise Failed(self._process.last_words())
        try:
            return self._client.get(self._url).status_code == httpx2.codes.OK
        except httpx2.TransportError:
            return False

    def submit(self, place: int) -> str:
        """A workflow of five steps."""
        name = f"{uuid.uuid4().hex}-{place}"
        self._client.post(f"{self._url}/runs/{name}").raise_for_status()
        return name

    def wait(self, names: Sequence[str]) -> float:
        """Wait for the engine's rows."""
        query = (
            "SELECT status, count(*) FROM dbos.workflow_status "
            "WHERE workflow_uuid = ANY(%s) GROUP BY status"
        )
        return self.rows.wait(query, names)

    def runs(self, names: Sequence[str]) -> list[float]:
        """The workflows themselves."""
        return self.rows.runs(names)

    def marks(self) -> list[Mark]:
        """What the steps left."""
        return history.read(self._marks)

    @property
    def pid(self) -> int:
        """Of its process."""
        return self._process.pid

    def probe(self) -> float:
        """How long `SELECT 1` takes now."""
        return self.rows.probe()

    def close(self) -> None:
        """End it."""
        self._process.end()
        self._client.close()
