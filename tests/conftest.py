"""Fixtures every test may use, and the rules of a run."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.rig.postgres import Postgres

pytest_plugins = ["tests.rig.rules"]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """One Postgres for all tests of this process."""
    server = Postgres()
    yield server
    server.close()


@pytest.fixture
def postgres_url(postgres_server: Postgres) -> Iterator[str]:
    """A fresh, empty Postgres database."""
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture
def sqlite_url(tmp_path: Path) -> str:
    """A fresh SQLite database file that does not exist yet."""
    return f"sqlite:///{tmp_path / 'manent.db'}"


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database_url(request: pytest.FixtureRequest) -> str:
    """A fresh database, once on SQLite and once on Postgres."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url
