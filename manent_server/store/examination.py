"""What a check of an installation reads of the database itself."""

from typing import Final

import sqlalchemy as sa

from manent_server.domain.checkup import HeldLease
from manent_server.store.engine import Engines
from manent_server.store.transaction import Transaction

_PROMISES: Final = "fsync, synchronous_commit, full_page_writes"


def promises(engines: Engines) -> dict[str, str]:
    """How a new session of ours on Postgres keeps commits, by the names of the settings."""
    names = _PROMISES.split(", ")
    query = ", ".join(f"current_setting('{name}') AS {name}" for name in names)
    with engines.lone.connect() as connection:
        row = connection.exec_driver_sql(f"SELECT {query}").one()  # names of ours
    return dict(row._mapping)  # noqa: SLF001 - the library's public name


def leases(tx: Transaction) -> list[HeldLease]:
    """Every lease there ever was."""
    rows = tx.tables.leases
    query = sa.select(rows.c.name, rows.c.holder, rows.c.until).order_by(rows.c.name)
    return [HeldLease(*row) for row in tx.connection.execute(query)]
