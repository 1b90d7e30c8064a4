"""Deploys are deleted by the hundred: what refers to one is found by an index, never row by row."""

import sqlalchemy as sa

from manent_server.store import tables


def test_what_refers_to_a_deploy_is_found_by_an_index() -> None:
    built = tables.build("postgresql")
    referring = [
        (table, next(iter(key.columns)).name)
        for table in built.deploys.metadata.tables.values()
        for key in table.foreign_key_constraints
        if key.referred_table is built.deploys
    ]
    assert len(referring) > 10
    assert [
        f"{table.name}.{column}" for table, column in referring if column not in _led(table)
    ] == []


def _led(table: sa.Table) -> set[str]:
    """The columns an index or a key of the table begins with."""
    keys = [one for one in table.constraints if isinstance(one, sa.UniqueConstraint)]
    found = {next(iter(one.columns)).name for one in (*table.indexes, *keys, table.primary_key)}
    return found | {column.name for column in table.columns if column.unique}
