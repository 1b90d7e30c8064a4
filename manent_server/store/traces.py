"""Where in a trace the request for a deploy stands."""

import sqlalchemy as sa

from manent_server.store.transaction import Transaction


def of_deploy(tx: Transaction, deploy: str) -> str | None:
    """Where in a trace the request for a deploy stands; None if it was not traced."""
    d = tx.tables.deploys
    found: str | None = tx.connection.execute(sa.select(d.c.trace).where(d.c.id == deploy)).scalar()
    return found
