"""Migrations: once, together, under one lock, whoever dies on the way."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.config import Config
from alembic.script import ScriptDirectory

from manent_migrations import FOLDER, revisions
from manent_server.domain.errors import ConfigurationError, StartRefused, Unavailable
from manent_server.engine.migration import library
from manent_server.store import file_lock
from manent_server.store.engine import Engines, connect, dispose
from manent_server.store.migrate import Library, is_current, migrate
from tests.rig.postgres import Postgres

ROOT = Path(__file__).parents[3]
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


def nothing(_engines: Engines, _stop: Callable[[], bool]) -> None:
    """A library whose tables are there at once."""


QUICK = Library(version="1", migrate=nothing)


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts processes that migrate, and leaves none behind."""
    with ExitStack() as stack:

        def begin(url: str, *words: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.integration.store.migrating", url, *words],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield begin


@pytest.fixture
def empty(database_url: str) -> Iterator[Engines]:
    engines = connect(database_url, pool=2, stale_after=MINUTE)
    yield engines
    dispose(engines)


@pytest.fixture
def empty_postgres(postgres_url: str) -> Iterator[Engines]:
    engines = connect(postgres_url, pool=2, stale_after=MINUTE)
    yield engines
    dispose(engines)


def names(engines: Engines) -> set[str]:
    """Tables of ours and of the library, as one name each."""
    with engines.lone.connect() as connection:
        inspector = sa.inspect(connection)
        if engines.dialect == "sqlite":
            return set(inspector.get_table_names())
        return {
            f"{schema}.{table}"
            for schema in ("manent", "dbos")
            for table in inspector.get_table_names(schema=schema)
        }


def test_an_empty_database_gets_both_kinds_of_tables(empty: Engines) -> None:
    report = migrate(empty, library=library(), patience=MINUTE)
    assert report.applied[0] == "0001"
    assert report.dbos
    found = names(empty)
    ours, theirs = (
        ("manent_deploys", "workflow_status")
        if empty.dialect == "sqlite"
        else ("manent.deploys", "dbos.workflow_status")
    )
    assert {ours, theirs} <= found
    assert is_current(empty, library=library())


def test_a_second_time_nothing_is_done(empty: Engines) -> None:
    assert not is_current(empty, library=QUICK)
    assert migrate(empty, library=QUICK).dbos
    again = migrate(empty, library=QUICK)
    assert again.applied == []
    assert not again.dbos


def test_another_release_of_the_library_migrates_again(empty: Engines) -> None:
    migrate(empty, library=QUICK)
    newer = Library(version="2", migrate=nothing)
    assert not is_current(empty, library=newer)
    report = migrate(empty, library=newer)
    assert report.applied == []
    assert report.dbos
    assert is_current(empty, library=QUICK)


def test_a_library_that_fails_is_asked_again_next_time(empty: Engines) -> None:
    def fail(_engines: Engines, _stop: Callable[[], bool]) -> None:
        raise StartRefused("no")

    with pytest.raises(StartRefused):
        migrate(empty, library=Library(version="1", migrate=fail))
    assert migrate(empty, library=QUICK).dbos


@pytest.mark.postgres
def test_listen_and_notify_stay_out(empty_postgres: Engines) -> None:
    migrate(empty_postgres, library=library(), patience=MINUTE)
    with empty_postgres.lone.connect() as connection:
        # Our own guard the record and notify nobody.
        query = (
            "SELECT count(*) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid "
            "WHERE NOT t.tgisinternal AND c.relnamespace <> 'manent'::regnamespace"
        )
        assert connection.exec_driver_sql(query).scalar_one() == 0


def test_five_processes_start_together_on_an_empty_database(
    empty: Engines, database_url: str, start: Start
) -> None:
    """B131: every step is done once, and all are ready."""
    processes = [start(database_url) for _ in range(5)]
    said = [process.communicate(timeout=90) for process in processes]
    assert [process.returncode for process in processes] == [0] * 5, said
    assert len([out for out, _ in said if "0001" in out]) == 1
    assert len([out for out, _ in said if "dbos" in out]) == 1
    assert is_current(empty, library=library())


def test_a_process_killed_in_the_middle_of_a_revision_leaves_nothing_half_done(
    empty: Engines, database_url: str, start: Start
) -> None:
    """B131: no manual repair after the kill."""
    word = "manent_slots_place"
    doomed = start(database_url, word)
    doomed.communicate(timeout=60)
    assert doomed.returncode == -signal.SIGKILL
    assert not [name for name in names(empty) if name.endswith("deploys")]
    assert "0001" in migrate(empty, library=QUICK, patience=MINUTE).applied


def test_a_process_killed_while_the_library_migrates_is_followed_up(
    empty: Engines, database_url: str, start: Start
) -> None:
    """B131: the next process finishes the work."""
    doomed = start(database_url)
    first_child(doomed.pid)
    doomed.kill()
    assert migrate(empty, library=library(), patience=MINUTE).dbos


@pytest.mark.postgres
def test_the_librarys_migration_ends_with_the_process_that_holds_the_lock(
    empty_postgres: Engines, postgres_url: str, start: Start
) -> None:
    """B131: nothing migrates on without the lock."""
    migrate(empty_postgres, library=QUICK)
    with empty_postgres.lone.connect() as connection, connection.begin() as transaction:
        # The child waits for this one's end: both want the same schema.
        connection.exec_driver_sql("SET idle_in_transaction_session_timeout = 0")
        connection.exec_driver_sql("CREATE SCHEMA dbos")
        doomed = start(postgres_url)
        child = first_child(doomed.pid)
        doomed.kill()
        wait_for_the_end(child)
        transaction.rollback()
    assert migrate(empty_postgres, library=library(), patience=MINUTE).dbos


@pytest.mark.postgres
def test_waiting_for_another_process_ends_with_the_patience(empty_postgres: Engines) -> None:
    is_inside, may_go = threading.Event(), threading.Event()

    def dawdle(_engines: Engines, _stop: Callable[[], bool]) -> None:
        is_inside.set()
        may_go.wait(30)

    slow = Library(version="1", migrate=dawdle)
    thread = threading.Thread(target=lambda: migrate(empty_postgres, library=slow))
    thread.start()
    is_inside.wait(30)
    other = connect(
        empty_postgres.ours.url.render_as_string(hide_password=False), pool=1, stale_after=MINUTE
    )
    with pytest.raises(Unavailable, match="another process"):
        migrate(other, library=QUICK, patience=SECOND)
    with pytest.raises(Unavailable):
        migrate(other, library=QUICK, stop=lambda: True)
    may_go.set()
    thread.join(30)
    assert migrate(other, library=QUICK, patience=SECOND).applied == []
    dispose(other)


def test_on_a_file_too_one_process_migrates(sqlite_url: str) -> None:
    engines = connect(sqlite_url, pool=1, stale_after=MINUTE)
    assert engines.file
    with file_lock.migrating(engines.file) as lock:
        assert lock.acquire()
        with pytest.raises(Unavailable, match="another process"):
            migrate(engines, library=QUICK, patience=SECOND)
    assert migrate(engines, library=QUICK, patience=SECOND).dbos
    dispose(engines)


def test_a_stop_during_the_librarys_migration_ends_it_soon(empty: Engines) -> None:
    """B130: a stop during the migration leaves no half of it and no process behind."""
    before = time.monotonic()
    with pytest.raises(Unavailable):
        migrate(empty, library=library(), stop=lambda: True)
    assert time.monotonic() - before < 15
    assert not children(os.getpid())
    assert migrate(empty, library=library(), patience=MINUTE).dbos


@pytest.mark.postgres
def test_a_database_that_is_not_there_yet_is_waited_for(fragile: Postgres) -> None:
    """B37: started before its database, the process goes on when that comes."""
    engines = connect(fragile.create_database(), pool=2, stale_after=MINUTE)
    fragile.stop()
    with pytest.raises(Unavailable):
        migrate(engines, library=QUICK, patience=SECOND)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(migrate, engines, library=QUICK, patience=MINUTE)
        time.sleep(1.5)
        fragile.start()
        assert waiting.result(30).applied
    dispose(engines)


def test_a_database_of_a_newer_release_is_left_alone(empty: Engines) -> None:
    migrate(empty, library=QUICK)
    mark(empty, "9999")
    assert is_current(empty, library=QUICK)
    assert migrate(empty, library=QUICK).applied == []


def test_a_database_of_an_unknown_history_is_refused(empty: Engines) -> None:
    migrate(empty, library=QUICK)
    mark(empty, "abcdef")
    with pytest.raises(ConfigurationError, match="abcdef"):
        migrate(empty, library=QUICK)


@pytest.mark.postgres
def test_a_role_that_may_not_create_tables_is_told_so(empty_postgres: Engines) -> None:
    with empty_postgres.lone.begin() as connection:
        connection.exec_driver_sql("DROP ROLE IF EXISTS reader")
        connection.exec_driver_sql("CREATE ROLE reader LOGIN")
    url = empty_postgres.ours.url.set(username="reader").render_as_string()
    engines = connect(url, pool=1, stale_after=MINUTE)
    with pytest.raises(ConfigurationError) as caught:
        migrate(engines, library=QUICK, patience=SECOND)
    assert "CREATE" in caught.value.next
    dispose(engines)


def mark(engines: Engines, revision: str) -> None:
    """Pretend that the database is at `revision`."""
    table = "manent_alembic_version" if engines.dialect == "sqlite" else "manent.alembic_version"
    with engines.lone.begin() as connection:
        statement = sa.text(f"UPDATE {table} SET version_num = :revision")  # noqa: S608 - fixed
        connection.execute(statement, {"revision": revision})


def children(pid: int) -> list[int]:
    """Direct children of a process that run."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in found if "migration" in command_line(int(child))]


def command_line(pid: int) -> str:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""


def first_child(pid: int) -> int:
    """The child of a process, once it has one."""
    limit = time.monotonic() + 30
    while time.monotonic() < limit:
        if found := children(pid):
            return found[0]
        time.sleep(0.01)
    raise TimeoutError


def wait_for_the_end(pid: int) -> None:
    limit = time.monotonic() + 30
    while command_line(pid):
        if time.monotonic() > limit:
            raise TimeoutError
        time.sleep(0.02)


def test_the_names_of_the_files_tell_the_revisions_that_alembic_finds() -> None:
    config = Config()
    config.set_main_option("script_location", str(FOLDER))
    found = ScriptDirectory.from_config(config).walk_revisions()
    assert revisions() == [revision.revision for revision in found][::-1]
