"""Stores on fresh databases of both kinds."""

from collections.abc import Iterator
from datetime import timedelta

import pytest
import sqlalchemy as sa

from manent_server.store import tables
from manent_server.store.engine import Engines, connect, dispose
from manent_server.store.transaction import Store
from tests.rig.postgres import Postgres

STALE_AFTER = timedelta(seconds=20)


@pytest.fixture(scope="module")
def fragile() -> Iterator[Postgres]:
    """A server that tests stop and kill; like a real one it keeps acknowledged commits."""
    server = Postgres(settings={"synchronous_commit": "on"})
    yield server
    server.close()


def with_tables(url: str, *, pool: int = 10) -> Engines:
    """Engines on `url` with our tables made."""
    engines = connect(url, pool=pool, stale_after=STALE_AFTER)
    with engines.ours.begin() as connection:
        if engines.dialect == "postgresql":
            connection.exec_driver_sql("CREATE SCHEMA IF NOT EXISTS manent")
            connection.execute(sa.schema.CreateSequence(tables.epochs()))
        tables.build(engines.dialect).metadata.create_all(connection)
    return engines


@pytest.fixture
def sqlite_engines(sqlite_url: str) -> Iterator[Engines]:
    engines = with_tables(sqlite_url)
    yield engines
    dispose(engines)


@pytest.fixture(scope="session")
def template(postgres_server: Postgres) -> str:
    """Name of a database with our tables, to be copied."""
    url = postgres_server.create_database()
    dispose(with_tables(url))
    return url.rpartition("/")[2]


@pytest.fixture
def postgres_engines(postgres_server: Postgres, template: str) -> Iterator[Engines]:
    url = postgres_server.create_database(template=template)
    engines = connect(url, pool=10, stale_after=STALE_AFTER)
    yield engines
    dispose(engines)
    postgres_server.drop_database(url)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def engines(request: pytest.FixtureRequest) -> Engines:
    found: Engines = request.getfixturevalue(f"{request.param}_engines")
    return found


@pytest.fixture
def store(engines: Engines) -> Store:
    return Store(engines)


@pytest.fixture
def sqlite_store(sqlite_engines: Engines) -> Store:
    return Store(sqlite_engines)


@pytest.fixture
def postgres_store(postgres_engines: Engines) -> Store:
    return Store(postgres_engines)


def count(connection: sa.Connection, table: sa.Table) -> int:
    """How many rows `table` has."""
    return connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
