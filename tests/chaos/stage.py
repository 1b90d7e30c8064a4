"""The system under test: one API process, three workers, one Postgres, a cable for each."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx2
import yaml

from tests.chaos import net
from tests.chaos.cable import Cable, Cables
from tests.chaos.record import Recorder
from tests.rig.postgres import Postgres
from tests.rig.process import Process, until
from tests.rig.serve import MAIN, Rig

WORKERS = ("w1", "w2", "w3")
APART = "w3"
SECRET = "chaos-s3cret+/Qz7wKp0"  # noqa: S105 - planted: it must be found nowhere
# A person may recover long before a lease has ended: successors must wait for it.
BEAT, STALE, RECOVER = 1.0, 3.0, 6.0
HOOKS = ("deploy", "verify", "rollback")
PLACES = {"prod": 2, "stage": 1, "live": 2}
# Where people have to approve, and how many.
GATED = "live"
GATES = {GATED: 2}
# Targets of each application, and how they are walked through.
APPLICATIONS: dict[str, tuple[dict[str, Any], int]] = {
    "ant": ({"targets": {"a": {}}}, 1),
    "bee": ({"targets": {"a": {}, "b": {}}, "waves": [1, "rest"]}, 1),
    "cat": ({"targets": {"a": {}, "b": {}, "c": {}}, "max_parallel": 2}, 2),
    "dog": ({"targets": {"a": {}}}, 1),
}
# Where a client deploys its application.
HOMES = {"dog": ("live", "stage")}
HOME = ("prod", "stage")
_HOOK = Path(__file__).with_name("hook.py")
_FAKETIME = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")


class Stage(Rig):
    """All processes of a run; each reaches the database by a cable of its own."""

    def __init__(
        self,
        folder: Path,
        server: Postgres,
        *,
        recorder: Recorder,
        mutant: str = "",
        strain: str = "",
    ) -> None:
        self.server = server
        self.recorder = recorder
        self.cables = Cables()
        self.net = net.make()
        self.cable = {
            name: Cable(self.cables, server.port, host=self.host(name)) for name in (MAIN, *WORKERS)
        }
        # Nobody may start these again by itself.
        self.down: set[str] = set()
        self.environ: dict[str, Mapping[str, str]] = {}
        super().__init__(
            folder, server.create_database(), configuration(folder),
            options=("--no-worker",), environ={"CHAOS_SECRET": SECRET, **spoilt(mutant, strain)},
        )  # fmt: skip

    def write_config(self, name: str = MAIN) -> None:
        """Each process has a way to the database of its own."""
        super().write_config(name)
        file = self.config_file(name)
        written = yaml.safe_load(file.read_text())
        direct = f"127.0.0.1:{self.server.port}/"
        mine = f"{self.host(name)}:{self.cable[name].port}/"
        written["database"]["url"] = self.database_url.replace(direct, mine)
        written["server"]["metrics_listen"] = self.metrics_url(name).removeprefix("http://")
        file.write_text(yaml.safe_dump(written, sort_keys=False))

    def is_apart(self, name: str) -> bool:
        """Whether a process has a network of its own."""
        return self.net is not None and name == APART

    def host(self, name: str) -> str:
        """Where a process finds this machine."""
        return self.net.host if self.net is not None and name == APART else "127.0.0.1"

    def metrics_url(self, name: str = MAIN) -> str:
        """Address of the metrics listener of a process."""
        found = super().metrics_url(name)
        if self.net is None or name != APART:
            return found
        return found.replace("127.0.0.1", self.net.guest)

    def part(self, name: str) -> None:
        """Cut a worker off: by its interface where it has one, else by its cable."""
        if self.net is not None and name == APART:
            self.net.cut()
        else:
            self.cable[name].set("silent")

    def join(self, name: str) -> None:
        """Let it be reached again."""
        if self.net is not None and name == APART:
            self.net.join()
        self.cable[name].set("pass")

    def command(self, name: str) -> list[str]:
        """How a process is started: one of the workers in a network of its own."""
        prefix = self.net.prefix if self.net is not None and name == APART else []
        return [*prefix, *super().command(name)]

    def open(self) -> None:
        """Start everything, with the recorder's triggers in the database."""
        self.prepare()
        self.recorder.install(self.database_url)
        self.start(wait=False)
        for name in WORKERS:
            self.start_worker(name, wait=False)
        for name in (MAIN, *WORKERS):
            until(lambda name=name: self.is_ready(name), what=f"{name} ready", limit=90.0)

    def supervise(self) -> None:
        """Start again what has ended by itself, as systemd or Kubernetes would."""
        for name in (MAIN, *WORKERS):
            if name not in self.down:
                self.revive(name)

    def revive(self, name: str) -> None:
        """Start a process that has ended; its end is recorded."""
        process = self.process(name)
        if process.is_running():
            return
        self.note_exit(name, process)
        self._own_environ[name] = self.environ.get(name, {})
        self.start(name, wait=False)

    def note_exit(self, name: str, process: Process) -> None:
        """Record how a process ended."""
        self.recorder.exit(name, process.exit_code or 0, process.last_words())

    def person(self, name: str) -> str:
        """A token of a person who may approve."""
        body = {"name": name, "role": "approver", "kind": "person"}
        made = self.http("POST", "/tokens", json=body)
        assert made.status_code == 201, made.text
        token: str = made.json()["token"]
        return token

    def ask(self, path: str, body: Mapping[str, Any], key: str) -> int | None:
        """One request from any thread; its status, or None when no answer came."""
        head = {"Authorization": f"Bearer {self.token}", "Idempotency-Key": key}
        try:
            with httpx2.Client(trust_env=False, timeout=5.0) as http:
                url = f"{self.url}/api/v1{path}"
                return http.post(url, json=dict(body), headers=head).status_code
        except httpx2.HTTPError:
            return None

    def close(self) -> None:
        """End everything."""
        super().close()
        self.cables.close()
        if self.net is not None:
            self.net.close()


def configuration(folder: Path) -> dict[str, Any]:
    """Fast timings, two environments, four applications."""
    python = str(getattr(sys, "_base_executable", sys.executable))
    ledger = folder / "ledger.jsonl"
    options: dict[str, Any] = {
        hook: [python, "-S", "-E", str(_HOOK), str(ledger), hook] for hook in HOOKS
    }
    options["environment"] = {"CHAOS_SECRET": "secret://env/CHAOS_SECRET"}
    retry = {"attempts": 2, "initial": "200ms", "factor": 1, "cap": "1s", "total": "2m"}
    return {
        "recovery": {
            "heartbeat_interval": f"{BEAT:g}s",
            "stale_after": f"{STALE:g}s",
            # As fast as the rules allow with a beat of a second.
            "auto_recover_after": f"{RECOVER:g}s",
        },
        "dbos": {"drain_timeout": "8s", "polling_interval": "200ms"},
        "worker": {"kill_grace": "3s", "warm": 2},
        "environments": {
            name: {"tier": "staging", "concurrency": count, "approvals": _asks(name)}
            for name, count in PLACES.items()
        },
        "applications": {
            name: {
                "plugin": "command",
                "options": options,
                "retry": retry,
                "environments": dict.fromkeys(HOMES.get(name, HOME), where),
            }
            for name, (where, _) in APPLICATIONS.items()
        }
        | {"shop": None, "billing": None},
    }


def _asks(environment: str) -> list[dict[str, Any]]:
    quorum = GATES.get(environment)
    return [] if quorum is None else [{"name": "release", "quorum": quorum, "expires": "1h"}]


def spoilt(mutant: str, strain: str) -> dict[str, str]:
    """Variables that make every process of the stage a mutant, or strain it."""
    place = str(Path(__file__).with_name("site"))
    found = {"CHAOS_MUTANT": mutant, "CHAOS_STRAIN": strain}
    return {**found, "PYTHONPATH": place} if mutant or strain else {}


def faketime(seconds: int) -> dict[str, str] | None:
    """Variables that move a process's wall clock; None where that cannot be had here."""
    if not _FAKETIME.exists():
        return None
    return {
        "LD_PRELOAD": str(_FAKETIME),
        "PYTHONPATH": str(Path(__file__).with_name("site")),
        "FAKETIME": f"{seconds:+d}s",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_RESET": "1",
    }


def settings(seed: int) -> dict[str, Any]:
    """What checkers have to know of the stage."""
    return {
        "seed": seed,
        "concurrency": dict(PLACES),
        "gates": dict(GATES),
        "max_parallel": {name: limit for name, (_, limit) in APPLICATIONS.items()},
        "processors": os.cpu_count(),
        "timings": {"beat": BEAT, "stale": STALE, "recover": RECOVER},
    }
