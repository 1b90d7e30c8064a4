"""Runs revisions on the connection the caller hands over in `config.attributes`.

Each revision and its mark are one transaction, on SQLite too: a process that dies in the
middle leaves the state before that revision.
"""

import sqlalchemy as sa
from alembic import context

from manent_migrations import VERSION_TABLE
from manent_migrations.naming import SCHEMA, Naming


def _make_schema(connection: sa.Connection) -> None:
    # Asked first: a role that may not create schemas can still use one made for it.
    if not sa.inspect(connection).has_schema(SCHEMA):
        connection.execute(sa.schema.CreateSchema(SCHEMA))
    connection.commit()


def _run() -> None:
    connection: sa.Connection = context.config.attributes["connection"]
    naming = Naming(connection.dialect.name)
    if naming.schema:
        _make_schema(connection)
    context.configure(
        connection=connection,
        version_table=naming.table(VERSION_TABLE),
        version_table_schema=naming.schema,
        transaction_per_migration=True,
        transactional_ddl=True,
    )
    with context.begin_transaction():
        context.run_migrations()


_run()
