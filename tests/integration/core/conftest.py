"""A core on a migrated database of each kind, empty for every test."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from manent_server.engine.migration import library
from manent_server.settings import Settings
from manent_server.store.engine import Engines, connect, dispose
from manent_server.store.migrate import migrate
from tests.rig import core as cores
from tests.rig.core import Core
from tests.rig.postgres import Postgres


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return cores.read_settings(tmp_path_factory.mktemp("settings"))


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("core") / "migrated.db"
    engines = connect(f"sqlite:///{file}", pool=2, stale_after=cores.STALE_AFTER)
    migrate(engines, library=library())
    dispose(engines)
    return file


@pytest.fixture
def sqlite_core(migrated_file: Path, tmp_path: Path, settings: Settings) -> Iterator[Core]:
    shutil.copy(migrated_file, tmp_path / "manent.db")
    url = f"sqlite:///{tmp_path / 'manent.db'}"
    engines = connect(url, pool=10, stale_after=cores.STALE_AFTER)
    yield cores.build(engines, settings)
    dispose(engines)


@pytest.fixture(scope="session")
def core_engines(postgres_server: Postgres) -> Iterator[Engines]:
    """One Postgres database for all tests of the core, emptied before each."""
    url = postgres_server.create_database()
    engines = connect(url, pool=10, stale_after=cores.STALE_AFTER)
    migrate(engines, library=library())
    yield engines
    dispose(engines)
    postgres_server.drop_database(url)


@pytest.fixture
def postgres_core(core_engines: Engines, settings: Settings) -> Core:
    cores.empty(core_engines)
    return cores.build(core_engines, settings)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def core(request: pytest.FixtureRequest) -> Core:
    found: Core = request.getfixturevalue(f"{request.param}_core")
    return found
