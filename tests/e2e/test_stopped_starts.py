"""SIGTERM while a server starts: it ends at once, nothing is half done and nobody listed."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import httpx2
import psycopg
import pytest

from tests.rig.process import until
from tests.rig.rules import AtMost
from tests.rig.serve import Rig

pytestmark = pytest.mark.e2e

# A row that a stopped start had left would keep the next one waiting for so long.
SLOW = {"recovery": {"heartbeat_interval": "5s", "stale_after": "1m"}}
# Before Python has come to install a handler the signal ends it.
ENDS = {0, -15}


def starting(rig: Rig) -> None:
    """The process has only just begun."""
    rig.start(wait=False)
    time.sleep(0.3)  # the thing under test: libraries are being loaded


def listening(rig: Rig) -> None:
    """It answers that it lives."""
    rig.start(wait=False)

    def answers() -> bool:
        try:
            return bool(rig._http().get(f"{rig.url}/livez").status_code == 200)
        except httpx2.TransportError:
            return False

    until(answers, what="an answer", limit=60)


def migrating(rig: Rig) -> None:
    """Some of its tables are there, those of the engine are not."""
    rig.start(wait=False)
    file = rig.folder / "manent.db"

    def has_begun() -> bool:
        if not file.exists():
            return False
        with closing(sqlite3.connect(file)) as database:
            found = database.execute("SELECT count(*) FROM sqlite_master WHERE type = 'table'")
            return bool(found.fetchone()[0])

    until(has_begun, what="the first table", limit=60)


@pytest.mark.promise
def test_a_start_is_stopped_at_any_moment(tmp_path: Path, at_most: AtMost) -> None:
    """B130: in its first two seconds and in its migration; the next one is not kept waiting."""
    with closing(Rig(tmp_path, f"sqlite:///{tmp_path / 'manent.db'}", SLOW)) as rig:
        rig.write_config()
        moments: list[Callable[[Rig], None]] = [starting, listening, migrating]
        for moment in moments:
            moment(rig)
            began = time.monotonic()
            assert rig.stop() in ENDS, moment.__name__
            assert time.monotonic() - began < at_most(5, beside=15), moment.__name__
            assert "Traceback" not in rig.process().output(), moment.__name__
        rig.start(wait=False)
        until(rig.is_ready, what="ready", limit=90)
        rig.token = rig.new_token("ci", "admin")
        assert rig.deployed("1")["outcome"] == "deployed"


SPACE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--kill-child")
# Where nobody may make such a space the process is taken for the first one of it.
LOADING = """
import os, time
from manent_server import cli
from manent_server.cli import first
first._FIRST = os.getpid()
cli.app = lambda **_: print("loading", flush=True) or time.sleep(60)
cli.main()
"""


def test_the_first_process_of_a_container_is_stopped_while_it_loads() -> None:
    """B130: the kernel gives such a process no signal that it has no handler for."""
    is_apart = subprocess.run([*SPACE, "true"], capture_output=True, check=False).returncode == 0
    command = [*(SPACE if is_apart else ()), sys.executable, "-c", LOADING]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as outer:
        try:
            assert outer.stdout
            assert outer.stdout.readline() == "loading\n"
            children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()
            os.kill(int(children[0]) if is_apart else outer.pid, signal.SIGTERM)
            assert outer.wait(30) == 128 + signal.SIGTERM
        finally:
            outer.kill()


@pytest.mark.postgres
@pytest.mark.promise
def test_a_migration_that_is_held_up_is_stopped(
    tmp_path: Path, postgres_url: str, at_most: AtMost
) -> None:
    """B130, B131: in the middle of a revision; nothing of it stays."""
    with (
        closing(Rig(tmp_path, postgres_url, SLOW, options=("--no-worker",))) as rig,
        psycopg.connect(postgres_url) as other,
    ):
        other.execute("CREATE SCHEMA manent")
        rig.write_config()
        rig.start(wait=False)
        until(lambda: _is_held_up(postgres_url), what="the migration at the lock", limit=60)
        began = time.monotonic()
        assert rig.stop() == 0
        assert time.monotonic() - began < at_most(5, beside=15)
        other.rollback()
        tables = "SELECT count(*) FROM pg_tables WHERE schemaname IN ('manent', 'dbos')"
        assert other.execute(tables).fetchone() == (0,)
        other.rollback()
        rig.start()
        rig.token = rig.new_token("ci", "admin")
        assert rig.get("/deploys")["items"] == []


def _is_held_up(url: str) -> bool:
    waiting = (
        "SELECT count(*) FROM pg_stat_activity"
        " WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    with psycopg.connect(url) as connection:
        row = connection.execute(waiting).fetchone()
    return row is not None and bool(row[0])
