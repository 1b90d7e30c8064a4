"""The record: how fast it is checked, and what its chain costs the writers."""

import hashlib
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import sqlalchemy as sa

from bench.ratios import Goal, Pair, interleave
from bench.report import Figure, ratio
from bench.size import Size
from manent_server.domain.audit import GENESIS
from manent_server.store import records
from manent_server.store.records import Deed
from manent_server.store.transaction import Store
from manent_server.usecases import chain, verify
from tests.rig import core as cores
from tests.rig.postgres import Postgres

_BATCH: Final = 5000
_WRITERS: Final = 4
_DETAIL: Final = {"kind": "deploy", "version": "1.2.3", "reason": "a ticket, as people write them"}


def checked_and_written(folder: Path, settings: Mapping[str, str], size: Size) -> list[Figure]:
    """A database of its own, with so many records."""
    folder.mkdir()
    postgres = Postgres(settings=settings)
    try:
        with _laid(postgres.create_database(), folder) as core:
            pairs = _verified(core, size)
            each = interleave(
                size.pairs, lambda: _rate(core, chained=True), lambda: _rate(core, chained=False)
            )
    finally:
        postgres.close()
    with _laid(f"sqlite:///{folder}/bench.db", folder) as core:
        local = _verified(core, size)
    name, goal = (
        "audit verify, beside SHA-256 over the same texts as read",
        Goal(0.5, is_floor=True),
    )
    return [
        ratio(name, "records/s", pairs, goal, records=size.records),
        ratio(f"{name}, SQLite", "records/s", local, goal, records=size.records),
        ratio(
            f"records written by {_WRITERS} at once while they are chained, beside not chained",
            "records/s",
            [Pair(*pair) for pair in each],
            Goal(0.9, is_floor=True),
        ),
    ]


@contextmanager
def _laid(url: str, folder: Path) -> Iterator[cores.Core]:
    ground = cores.lay(url)
    try:
        yield cores.build(ground, cores.read_settings(folder))
    finally:
        ground.close()


def _verified(core: cores.Core, size: Size) -> list[Pair]:
    """So many records, checked and only hashed in turns."""
    for _ in range(size.records // _BATCH):
        _write(core.store, _BATCH)
    chain.chain(core.desk)
    rounds = interleave(
        size.pairs, lambda: _checked(core.store, size), lambda: _hashed(core.store, size)
    )
    return [Pair(*pair) for pair in rounds]


def _write(store: Store, count: int) -> None:
    with store.write() as tx:
        deeds = [
            Deed("ann", "deploy.cancel", "0123456789abcdef0123", "shop", "production", _DETAIL)
        ]
        records.write_audits(tx, deeds * count, at=tx.now())


def _checked(store: Store, size: Size) -> float:
    began = time.perf_counter()
    found = verify.verify(store)
    if found.broken is not None or found.records < size.records:
        raise AssertionError(found)
    return found.records / (time.perf_counter() - began)


def _hashed(store: Store, size: Size) -> float:
    """What nothing that reads and hashes the texts can be faster than."""
    with store.read() as tx:
        a, c = tx.tables.audit, tx.tables.audit_chain
    query = (
        sa.select(c.c.number, a.c.record)
        .join_from(c, a, a.c.entry == c.c.entry)
        .where(c.c.number > sa.bindparam("after"))
        .order_by(c.c.number)
        .limit(sa.bindparam("most"))
    )
    began, number, last = time.perf_counter(), 0, GENESIS
    while True:
        with store.read() as tx:
            rows = tx.connection.execute(query, {"after": number, "most": _BATCH}).all()
        for number, text in rows:  # noqa: B007 - where the next batch begins
            last = hashlib.sha256(f"{last}{text}".encode()).hexdigest()
        if len(rows) < _BATCH:
            return number / (time.perf_counter() - began)


def _rate(core: cores.Core, *, chained: bool) -> float:
    """Records a second of writers that commit each alone, the chainer at work or not."""
    is_over = threading.Event()

    def number() -> None:
        while not is_over.wait(0.5):
            chain.chain(core.desk)

    def write() -> None:
        for _ in range(100):
            _write(core.store, 1)

    chainer = threading.Thread(target=number)
    writers = [threading.Thread(target=write) for _ in range(_WRITERS)]
    began = time.perf_counter()
    for thread in [*writers, *([chainer] if chained else [])]:
        thread.start()
    for thread in writers:
        thread.join()
    seconds = time.perf_counter() - began
    is_over.set()
    if chained:
        chainer.join()
    return _WRITERS * 100 / seconds
