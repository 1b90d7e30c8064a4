"""Transactions: all or nothing, one writer at a time on SQLite, the database's clock."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from manent_server.domain.errors import Unavailable
from manent_server.store import transaction as transactions
from manent_server.store.room import Room
from manent_server.store.transaction import Store, Transaction
from tests.integration.store import rows


def test_a_transaction_is_all_or_nothing(store: Store) -> None:
    with store.write() as transaction:
        rows.add(transaction, "kept")
    with pytest.raises(ZeroDivisionError), store.write() as transaction:
        _add_and_fail(transaction, "undone")
    assert rows.names(store) == {"kept"}


def _add_and_fail(transaction: Transaction, name: str) -> None:
    rows.add(transaction, name)
    raise ZeroDivisionError


def test_a_savepoint_undoes_its_own_writes_only(store: Store) -> None:
    with store.write() as transaction:
        rows.add(transaction, "outer")
        with pytest.raises(ZeroDivisionError), transaction.savepoint():
            _add_and_fail(transaction, "inner")
        with transaction.savepoint():
            rows.add(transaction, "second")
    assert rows.names(store) == {"outer", "second"}


def test_now_moves_within_a_transaction(store: Store) -> None:
    with store.write() as transaction:
        first = transaction.now()
        time.sleep(0.05)
        second = transaction.now()
    assert first.tzinfo is UTC
    assert second > first
    here = datetime.fromtimestamp(time.time(), UTC)
    assert abs(here - second) < timedelta(seconds=10)


def test_a_writing_transaction_decides_on_what_it_read(store: Store) -> None:
    """B137: the read and the write that rests on it are one; nothing comes between."""
    with store.write() as transaction:
        rows.add(transaction, "number")

    def raise_often(_thread: int) -> None:
        for _ in range(25):
            store.repeat(lambda transaction: rows.raise_token(transaction, "number"))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(raise_often, range(4)))
    assert rows.token(store, "number") == 100


def test_eight_writers_and_an_old_reader_never_find_the_file_locked(sqlite_store: Store) -> None:
    """B137: writers wait for each other, a reader that stays open hinders nobody."""
    with sqlite_store.write() as transaction:
        rows.add(transaction, "number")
    is_open, is_done = threading.Event(), threading.Event()
    seen: list[int] = []

    def read_long() -> None:
        with sqlite_store.read() as transaction:
            leases = transaction.tables.leases
            seen.append(len(transaction.connection.execute(leases.select()).all()))
            is_open.set()
            is_done.wait(60)
            seen.append(len(transaction.connection.execute(leases.select()).all()))

    def write(thread: int) -> None:
        for turn in range(30):
            with sqlite_store.write() as transaction:
                rows.raise_token(transaction, "number")
                rows.add(transaction, f"{thread}-{turn}")

    reader = threading.Thread(target=read_long)
    reader.start()
    is_open.wait(10)
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(write, range(8)))
    is_done.set()
    reader.join()
    assert seen == [1, 1]
    assert rows.token(sqlite_store, "number") == 240
    assert len(rows.names(sqlite_store)) == 241


def test_a_reader_does_not_wait_for_a_writer(store: Store) -> None:
    with store.write() as transaction:
        rows.add(transaction, "unfinished")
        before = time.monotonic()
        assert rows.names(store) == set()
        assert time.monotonic() - before < 4
    assert rows.names(store) == {"unfinished"}


@pytest.mark.postgres
def test_work_in_the_background_leaves_connections_to_others(
    postgres_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B142: loops whose answers are late do not use the whole pool up."""
    monkeypatch.setattr(transactions, "Room", partial(Room, patience=timedelta(milliseconds=50)))
    spared = postgres_store.sparing(1)
    with spared.read(), postgres_store.read() as transaction:
        transaction.now()
        with pytest.raises(Unavailable), spared.read():
            pass
        with pytest.raises(Unavailable):
            spared.under(lambda _: None).repeat(Transaction.now, patience=timedelta(0))
    with spared.write() as transaction:
        rows.add(transaction, "then")
    assert rows.names(spared) == {"then"}
