"""Small pieces of work on one table, used by the tests of transactions."""

from datetime import UTC, datetime

import sqlalchemy as sa

from manent_server.store.transaction import Store, Transaction

UNTIL = datetime(2030, 1, 1, tzinfo=UTC)


def add(transaction: Transaction, name: str) -> None:
    """Insert the row `name`."""
    row = {"name": name, "holder": "test", "token": 0, "until": UNTIL}
    transaction.connection.execute(sa.insert(transaction.tables.leases).values(row))


def raise_token(transaction: Transaction, name: str) -> int:
    """Read the row's number, write the next one: wrong unless the transaction holds it."""
    leases = transaction.tables.leases
    query = sa.select(leases.c.token).where(leases.c.name == name).with_for_update()
    token: int = transaction.connection.execute(query).scalar_one()
    change = sa.update(leases).where(leases.c.name == name).values(token=token + 1)
    transaction.connection.execute(change)
    return token + 1


def token(store: Store, name: str) -> int:
    """The row's number as stored."""
    with store.read() as transaction:
        leases = transaction.tables.leases
        query = sa.select(leases.c.token).where(leases.c.name == name)
        found: int = transaction.connection.execute(query).scalar_one()
        return found


def names(store: Store) -> set[str]:
    """The names stored."""
    with store.read() as transaction:
        return set(transaction.connection.scalars(sa.select(transaction.tables.leases.c.name)))
