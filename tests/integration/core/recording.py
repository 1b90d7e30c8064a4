"""A record of its own, written and spoiled."""

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from manent_server.store import records
from manent_server.store.records import Deed
from manent_server.store.transaction import Transaction
from tests.rig.core import Core, unguarded

Spoil = Callable[[Transaction], None]


def emptied(core: Core) -> Core:
    def empty(tx: Transaction) -> None:
        for table in (tx.tables.audit, tx.tables.audit_waiting):
            tx.connection.execute(sa.delete(table))

    by_force(core, empty)
    return core


def do(core: Core, count: int = 1, **more: Any) -> None:
    with core.store.write() as tx:
        deeds = [Deed("ann", "lock.set", detail={"number": n}, **more) for n in range(count)]
        records.write_audits(tx, deeds, at=tx.now())


def by_force(core: Core, spoil: Spoil) -> None:
    """Change the record as only the owner of the tables can."""
    with core.store.write() as tx, unguarded(tx):
        spoil(tx)
