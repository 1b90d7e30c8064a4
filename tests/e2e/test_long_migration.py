"""A migration that takes long: who does it, who waits, and what a kubelet sees of it."""

import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import httpx2
import psycopg
import pytest

from manent_server.store.migrate import LOCK
from tests.rig.process import Process, until
from tests.rig.serve import BIN, Rig

pytestmark = [pytest.mark.e2e, pytest.mark.postgres, pytest.mark.xdist_group("long-migration")]

PODS = ("manent-worker-0", "manent-worker-1")
# Sequences keep what a transaction that is taken back has drawn: every beginning is counted.
SLOW = """
CREATE SEQUENCE public.begun;
CREATE FUNCTION public.dawdle() RETURNS event_trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM nextval('public.begun');
  PERFORM pg_sleep({seconds});
END $$;
CREATE EVENT TRIGGER slow ON ddl_command_end WHEN TAG IN ('CREATE SCHEMA')
  EXECUTE FUNCTION public.dawdle();
"""
# One of ours and one of the execution library's: each is made in one go.
SCHEMAS = 2


def ask(url: str) -> int | None:
    """The status of a probe; None while nobody answers."""
    try:
        return httpx2.get(url, trust_env=False, timeout=2).status_code
    except httpx2.TransportError:
        return None


def begun(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT last_value, is_called FROM public.begun").fetchone()
    return int(row[0]) if row and row[1] else 0


@contextmanager
def job_of(rig: Rig, name: str) -> Iterator[Process]:
    """The migration job of a chart."""
    job = Process(
        [str(BIN / "manent-server"), "migrate", "--wait", "10m"],
        log=rig.folder / f"{name}.log",
        environ={**rig._environ, "MANENT_CONFIG": str(rig.config_file())},
        is_exact=True,
    )
    try:
        yield job
    finally:
        job.end()


class Pods:
    """Processes that start at once on an empty database, and the migration job beside them."""

    def __init__(self, rig: Rig, seconds: float) -> None:
        self.rig = rig
        with psycopg.connect(rig.database_url, autocommit=True) as connection:
            connection.execute(SLOW.format(seconds=seconds))
        rig.write_config()
        rig.start(wait=False)
        for pod in PODS:
            rig.start_worker(pod, wait=False)
        self.urls = [rig.metrics_url(name) for name in ("w0", *PODS)]

    def watch(self, job: Process, *, liveness: float) -> None:
        """Look at all of them until the job has ended; a kubelet would end one at `liveness`."""
        heard = dict.fromkeys(self.urls, time.monotonic())
        listens: set[str] = set()
        while job.is_running():
            for url in self.urls:
                if (alive := ask(f"{url}/livez")) is not None:
                    listens.add(url)
                    assert alive == 200
                    heard[url] = time.monotonic()
                assert url not in listens or time.monotonic() - heard[url] < liveness
                if ask(f"{url}/readyz") == 200:
                    # Whoever is ready is so because the work is done.
                    assert begun(self.rig.database_url) == SCHEMAS
            time.sleep(0.2)
        assert listens == set(self.urls)


def check(rig: Rig, *, seconds: float, liveness: float) -> None:
    began = time.monotonic()
    pods = Pods(rig, seconds)
    with job_of(rig, "job") as job:
        pods.watch(job, liveness=liveness)
        assert job.exit_code == 0, job.output()
    assert time.monotonic() - began >= SCHEMAS * seconds
    for name in ("w0", *PODS):
        until(lambda name=name: rig.is_ready(name), what=f"{name} ready", limit=60)
    assert begun(rig.database_url) == SCHEMAS
    logs: Mapping[str, str] = {name: rig.logs(name) for name in ("w0", *PODS)}
    migrated = [name for name, text in logs.items() if "migrated the database" in text]
    assert len(migrated) + ("applied" in job.output()) == 1
    assert any("waiting for another process that migrates" in text for text in logs.values())


def test_nobody_is_killed_for_a_long_migration(tmp_path: Path, postgres_url: str) -> None:
    """B133: alive throughout, ready when it is done, begun once; those that wait likewise."""
    options = ("--no-worker",)
    with closing(Rig(tmp_path, postgres_url, options=options)) as rig:
        check(rig, seconds=7.5, liveness=7)


def test_a_job_that_is_told_to_end_ends_what_it_has_begun(
    tmp_path: Path, postgres_url: str
) -> None:
    """B133: an upgrade of the chart takes the Job before it away; one that waits goes at once."""
    with (
        closing(Rig(tmp_path, postgres_url)) as rig,
        psycopg.connect(postgres_url, autocommit=True) as connection,
    ):
        rig.write_config()
        connection.execute("SELECT pg_advisory_lock(%s)", [LOCK])
        with job_of(rig, "waiting") as job:
            until(lambda: "waiting for another process" in job.output(), what="the lock", limit=90)
            assert job.stop(limit=60) == 75, job.output()
            assert "another process is migrating" in job.output()
        connection.execute(SLOW.format(seconds=0.8))
        connection.execute("SELECT pg_advisory_unlock(%s)", [LOCK])
        with job_of(rig, "working") as job:
            until(lambda: begun(postgres_url) >= 1, what="its first revision", limit=90)
            assert job.stop(limit=60) == 0, job.output()
            assert "engine" in job.output()
        assert begun(postgres_url) == SCHEMAS


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_nobody_is_killed_for_a_very_long_migration(tmp_path: Path, postgres_url: str) -> None:
    """B133: two minutes, longer than any limit of a statement; liveness 40 s."""
    with closing(Rig(tmp_path, postgres_url, options=("--no-worker",))) as rig:
        check(rig, seconds=60, liveness=40)
