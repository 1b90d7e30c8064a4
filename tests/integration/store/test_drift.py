"""The revisions and `store.tables` describe the same database."""

from typing import Any

import pytest
import sqlalchemy as sa

from manent_server.store import tables
from manent_server.store.engine import Engines, connect, dispose
from manent_server.store.migrate import migrate
from tests.integration.store.conftest import STALE_AFTER
from tests.integration.store.test_migrate import QUICK

# Kept by the migrations themselves.
BOOKKEEPING = {"alembic_version", "engine_versions"}
Shape = dict[str, Any]


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def test_a_migrated_database_is_what_the_tables_say(
    kind: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> None:
    made = request.getfixturevalue(f"{kind}_engines")
    if kind == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('migrated')}/manent.db"
    else:
        url = request.getfixturevalue("postgres_server").create_database()
    engines = connect(url, pool=1, stale_after=STALE_AFTER)
    migrate(engines, library=QUICK)
    assert shape(engines) == shape(made)
    dispose(engines)


def test_every_table_stands_in_the_declaration(sqlite_engines: Engines) -> None:
    declared = tables.build("sqlite")
    assert set(shape(sqlite_engines)["tables"]) == {
        table.name.removeprefix("manent_") for table in declared.metadata.tables.values()
    }


def shape(engines: Engines) -> Shape:
    """Everything that can be read back about our tables, in a comparable form."""
    schema = None if engines.dialect == "sqlite" else tables.SCHEMA
    with engines.lone.connect() as connection:
        inspector = sa.inspect(connection)
        found = {name.removeprefix("manent_"): name for name in inspector.get_table_names(schema)}
        return {
            "tables": {
                short: table(inspector, name, schema)
                for short, name in found.items()
                if short not in BOOKKEEPING
            },
            "sequences": sorted(inspector.get_sequence_names(schema)) if schema else [],
        }


def table(inspector: sa.Inspector, name: str, schema: str | None) -> Shape:
    return {
        "columns": {each["name"]: column(each) for each in inspector.get_columns(name, schema)},
        "primary key": inspector.get_pk_constraint(name, schema)["constrained_columns"],
        "foreign keys": sorted(
            (
                each["constrained_columns"],
                each["referred_table"],
                each["referred_columns"],
                sorted(each["options"].items()),
            )
            for each in inspector.get_foreign_keys(name, schema)
        ),
        "unique": sorted(
            (str(each["name"]), each["column_names"])
            for each in inspector.get_unique_constraints(name, schema)
        ),
        "indexes": sorted(
            (str(each["name"]), each["column_names"], bool(each["unique"]))
            for each in inspector.get_indexes(name, schema)
        ),
        "checks": sorted(
            (str(each["name"]), each["sqltext"])
            for each in inspector.get_check_constraints(name, schema)
        ),
        "options": inspector.get_table_options(name, schema),
    }


def column(found: Any) -> Shape:
    return {
        "type": str(found["type"]),
        "time zone": getattr(found["type"], "timezone", None),
        "nullable": found["nullable"],
        "default": found["default"],
    }
