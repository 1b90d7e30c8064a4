"""Fixtures every test may use, and the rules of a run."""

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from tests.rig import forge
from tests.rig.ledger import Ledger
from tests.rig.postgres import Postgres
from tests.rig.serve import Rig

pytest_plugins = ["tests.rig.rules"]
forge.is_allowed.set()


def pytest_unconfigure() -> None:
    """Leave no process behind."""
    forge.close()


# A job in a shell's background ignores SIGINT, and what it starts would too: no Ctrl-C for them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A few examples of a property in each run, many of them in `make soak`. A busy machine is no
# reason for a property to fail.
hypothesis.settings.register_profile(
    "manent",
    max_examples=10,
    deadline=None,
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.register_profile(
    "soak", hypothesis.settings.get_profile("manent"), max_examples=1000
)
hypothesis.settings.load_profile("manent")

StartRig = Callable[..., Rig]


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """One Postgres for all tests of this process."""
    server = Postgres()
    yield server
    server.close()


@pytest.fixture
def own_postgres() -> Iterator[Postgres]:
    """A Postgres for one test alone, which may stop and kill it."""
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


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """The ledger of the rig in the same test: needed where its configuration is written."""
    return Ledger(tmp_path)


@pytest.fixture
def start_rig(tmp_path: Path) -> Iterator[StartRig]:
    """Start a server as a real process: `start_rig(database_url, {...}, options=[...])`."""
    with ExitStack() as rigs:

        def start(database_url: str, config: Mapping[str, Any] | None = None, **more: Any) -> Rig:
            return rigs.enter_context(Rig(tmp_path, database_url, config, **more))

        yield start


@pytest.fixture
def rig(start_rig: StartRig, database_url: str) -> Rig:
    """A server with fast timings and the ledger's applications, on both databases."""
    return start_rig(database_url)
