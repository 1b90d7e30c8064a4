"""Repeated transactions: what is tried again, until when, and what is said meanwhile."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa

from manent_server.domain.errors import Unavailable
from manent_server.store.engine import Engines, connect, dispose
from manent_server.store.patience import give_up_after
from manent_server.store.transaction import Store, Transaction
from tests.integration.store import rows
from tests.integration.store.conftest import STALE_AFTER, with_tables
from tests.rig.postgres import Postgres
from tests.rig.proxy import Proxy

postgres_only = pytest.mark.postgres


def test_a_mistake_is_not_repeated(store: Store) -> None:
    tries: list[int] = []

    def insert_twice(transaction: Transaction) -> None:
        tries.append(1)
        rows.add(transaction, "same")
        rows.add(transaction, "same")

    with pytest.raises(sa.exc.IntegrityError):
        store.repeat(insert_twice)
    assert len(tries) == 1
    assert rows.names(store) == set()


def test_an_error_of_the_work_passes_through(store: Store) -> None:
    with pytest.raises(KeyError):
        store.repeat(lambda _transaction: {}["missing"])


def test_the_result_of_the_work_is_returned(store: Store) -> None:
    assert store.once(lambda _transaction: 42) == 42


def test_a_busy_file_is_waited_for(sqlite_engines: Engines, sqlite_store: Store) -> None:
    """B137: a writer outside of the process delays a transaction and fails nothing."""
    with sqlite_store.write() as transaction:
        rows.add(transaction, "number")
    impatient = connect(f"sqlite:///{sqlite_engines.file}", pool=1, stale_after=STALE_AFTER)
    sa.event.listen(impatient.ours, "connect", _no_patience)
    with sqlite_store.write() as transaction:
        rows.raise_token(transaction, "number")
        thread, answers = _in_background(lambda: _raise(Store(impatient), "number"))
        time.sleep(0.5)
    thread.join(60)
    assert answers == [2]
    dispose(impatient)


def _no_patience(connection: Any, _record: object) -> None:
    connection.execute("PRAGMA busy_timeout = 20")


@postgres_only
def test_a_lost_deadlock_is_repeated(postgres_store: Store) -> None:
    with postgres_store.write() as transaction:
        rows.add(transaction, "first")
        rows.add(transaction, "second")
    meeting = threading.Barrier(2)
    tries: list[str] = []

    def work(names: list[str]) -> Callable[[Transaction], None]:
        def raise_both(transaction: Transaction) -> None:
            is_new = names[0] not in tries
            tries.append(names[0])
            rows.raise_token(transaction, names[0])
            if is_new:
                meeting.wait(10)
            rows.raise_token(transaction, names[1])

        return raise_both

    threads = [
        threading.Thread(target=postgres_store.repeat, args=(work(names),))
        for names in (["first", "second"], ["second", "first"])
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert rows.token(postgres_store, "first") == rows.token(postgres_store, "second") == 2
    assert len(tries) > 2


@postgres_only
def test_a_row_held_too_long_is_tried_again(
    postgres_engines: Engines, postgres_store: Store
) -> None:
    sa.event.listen(postgres_engines.ours, "connect", _short_lock_timeout)
    postgres_engines.ours.dispose()
    with postgres_store.write() as transaction:
        rows.add(transaction, "number")
    with postgres_store.write() as transaction:
        rows.raise_token(transaction, "number")
        thread, answers = _in_background(lambda: _raise(postgres_store, "number"))
        time.sleep(1)
    thread.join(60)
    assert answers == [2]


def _short_lock_timeout(connection: Any, _record: object) -> None:
    connection.execute("SET lock_timeout = 200")
    connection.commit()


@postgres_only
def test_a_killed_backend_costs_one_more_try(postgres_store: Store) -> None:
    tries: list[int] = []

    def die_once(transaction: Transaction) -> None:
        rows.add(transaction, "number")
        tries.append(1)
        if len(tries) == 1:
            pid = transaction.connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
            with postgres_store.read() as other:
                other.connection.exec_driver_sql(f"SELECT pg_terminate_backend({pid})")
        transaction.connection.exec_driver_sql("SELECT 1")

    postgres_store.repeat(die_once)
    assert len(tries) == 2
    assert rows.names(postgres_store) == {"number"}


@postgres_only
def test_an_idle_transaction_ends_and_its_work_is_repeated(
    postgres_engines: Engines, postgres_store: Store
) -> None:
    sa.event.listen(postgres_engines.ours, "connect", _short_idle_limit)
    postgres_engines.ours.dispose()
    tries: list[int] = []

    def dawdle_once(transaction: Transaction) -> None:
        rows.add(transaction, "number")
        tries.append(1)
        if len(tries) == 1:
            time.sleep(1)
        transaction.connection.exec_driver_sql("SELECT 1")

    postgres_store.repeat(dawdle_once)
    assert len(tries) == 2
    assert rows.names(postgres_store) == {"number"}


def _short_idle_limit(connection: Any, _record: object) -> None:
    connection.execute("SET idle_in_transaction_session_timeout = 200")
    connection.commit()


@pytest.fixture
def proxied(postgres_server: Postgres, postgres_url: str) -> Iterator[tuple[Proxy, Engines]]:
    proxy = Proxy(postgres_server.port)
    engines = with_tables(proxy.url(postgres_url))
    yield proxy, engines
    dispose(engines)
    proxy.close()


@postgres_only
def test_a_commit_without_an_answer_is_repeated_with_the_same_ids(
    proxied: tuple[Proxy, Engines],
) -> None:
    proxy, store = proxied[0], Store(proxied[1])
    found: list[bool] = []

    def add_if_missing(transaction: Transaction) -> None:
        leases = transaction.tables.leases
        query = sa.select(leases.c.name).where(leases.c.name == "number")
        found.append(transaction.connection.execute(query).first() is not None)
        if not found[-1]:
            rows.add(transaction, "number")

    proxy.lose_next_commit()
    store.repeat(add_if_missing)
    assert proxy.lost == 1
    assert found == [False, True]
    assert rows.names(store) == {"number"}


@postgres_only
def test_a_connection_without_an_answer_is_given_up(proxied: tuple[Proxy, Engines]) -> None:
    """Something keeps it open and acknowledges what is sent: no limit of the network ends it."""
    proxy, engines = proxied
    engines.ours.dispose()  # the limit is that of new connections
    give_up_after(engines.ours, timedelta(seconds=0.5))
    store = Store(engines)
    assert rows.names(store) == set()
    proxy.hang()
    began = time.monotonic()
    store.repeat(lambda tx: rows.add(tx, "number"))
    assert 0.5 <= time.monotonic() - began < 15
    assert rows.names(store) == {"number"}


@postgres_only
def test_an_outage_is_sat_out_and_said_once(
    fragile: Postgres, caplog: pytest.LogCaptureFixture
) -> None:
    """B35: work that met an outage goes on by itself when the database is back."""
    engines = with_tables(fragile.create_database(), pool=4)
    store = Store(engines)
    with store.write() as transaction:
        rows.add(transaction, "number")
    with caplog.at_level(logging.WARNING, logger="manent_server.store"):
        fragile.stop()
        background = [_in_background(lambda: _raise(store, "number")) for _ in range(6)]
        time.sleep(2)
        assert [answers for _, answers in background] == [[]] * 6
        fragile.start()
        for thread, _ in background:
            thread.join(60)
    assert sorted(answers[0] for _, answers in background) == [1, 2, 3, 4, 5, 6]
    said = [record.getMessage() for record in caplog.records]
    assert len([line for line in said if "does not answer" in line]) == 1
    assert len([line for line in said if "answers again" in line]) == 1
    dispose(engines)


@postgres_only
def test_an_outage_in_the_middle_of_the_work_runs_it_again(fragile: Postgres) -> None:
    engines = with_tables(fragile.create_database())
    store = Store(engines)
    tries: list[int] = []

    def meet_the_outage(transaction: Transaction) -> None:
        tries.append(1)
        rows.add(transaction, "number")
        if len(tries) == 1:
            fragile.kill()
            fragile.start()

    store.repeat(meet_the_outage)
    assert len(tries) == 2
    assert rows.names(store) == {"number"}
    dispose(engines)


@postgres_only
def test_stale_connections_of_the_pool_are_replaced(fragile: Postgres) -> None:
    """B35: after a restart of the database the first use works already."""
    engines = with_tables(fragile.create_database(), pool=3)
    store = Store(engines)
    for engine in (engines.ours, engines.dbos):
        held = [engine.connect() for _ in range(3)]
        for connection in held:
            connection.exec_driver_sql("SELECT 1")
            connection.close()
    fragile.stop()
    fragile.start()
    assert rows.names(store) == set()
    with engines.dbos.connect() as connection:
        assert connection.exec_driver_sql("SELECT 1").scalar_one() == 1
    dispose(engines)


@postgres_only
def test_patience_ends_in_unavailable(fragile: Postgres) -> None:
    engines = with_tables(fragile.create_database())
    store = Store(engines)
    fragile.stop()
    before = time.monotonic()
    with pytest.raises(Unavailable):
        _raise(store, "number", patience=timedelta(seconds=1))
    assert 0.9 < time.monotonic() - before < 15
    with pytest.raises(Unavailable):
        rows.names(store)
    fragile.start()
    dispose(engines)


@postgres_only
def test_stop_ends_the_repeating(fragile: Postgres) -> None:
    engines = with_tables(fragile.create_database())
    store = Store(engines)
    asked: list[int] = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) == 3

    fragile.stop()
    with pytest.raises(Unavailable):
        store.repeat(lambda transaction: rows.raise_token(transaction, "number"), stop=stop)
    fragile.start()
    assert len(asked) == 3
    dispose(engines)


@postgres_only
def test_no_message_of_an_error_holds_a_value(postgres_store: Store) -> None:
    def fail(transaction: Transaction) -> None:
        statement = sa.text("SELECT 1/0 WHERE :secret <> ''")
        transaction.connection.execute(statement, {"secret": "hunter2"})

    with pytest.raises(sa.exc.DataError) as caught:
        postgres_store.repeat(fail)
    assert isinstance(caught.value.orig, psycopg.Error)
    assert "hunter2" not in str(caught.value)


def _raise(store: Store, name: str, *, patience: timedelta | None = None) -> int:
    return store.repeat(lambda transaction: rows.raise_token(transaction, name), patience=patience)


def _in_background(work: Callable[[], int]) -> tuple[threading.Thread, list[int]]:
    answers: list[int] = []
    thread = threading.Thread(target=lambda: answers.append(work()))
    thread.start()
    return thread, answers
