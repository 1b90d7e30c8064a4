"""A core on a migrated database of each kind, empty for every test."""

from collections.abc import Iterator

import pytest

from manent_server.settings import Settings
from tests.integration.core import approving as asking
from tests.integration.core.chatting import Lounge, lounge
from tests.rig import core as cores
from tests.rig.core import Core, Ground
from tests.rig.postgres import Postgres


@pytest.fixture(scope="session")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return cores.read_settings(tmp_path_factory.mktemp("settings"))


@pytest.fixture(scope="session")
def sqlite_ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    ground = cores.lay(f"sqlite:///{tmp_path_factory.mktemp('core') / 'manent.db'}")
    yield ground
    ground.close()


@pytest.fixture(scope="session")
def postgres_ground(postgres_server: Postgres) -> Iterator[Ground]:
    url = postgres_server.create_database()
    ground = cores.lay(url)
    yield ground
    ground.close()
    postgres_server.drop_database(url)


@pytest.fixture
def sqlite_core(sqlite_ground: Ground, settings: Settings) -> Core:
    return cores.build(sqlite_ground, settings)


@pytest.fixture
def postgres_core(postgres_ground: Ground, settings: Settings) -> Core:
    return cores.build(postgres_ground, settings)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def core(request: pytest.FixtureRequest) -> Core:
    found: Core = request.getfixturevalue(f"{request.param}_core")
    return found


@pytest.fixture
def room(core: Core) -> Iterator[Lounge]:
    """A deploy waits, and Slack shows it."""
    with lounge(core) as made:
        asking.request(core, "2", by=asking.ANN, reason="it is time")
        made.tell()
        yield made
