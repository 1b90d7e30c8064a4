"""One server for all tests of a module: each test acts on an application of its own."""

from collections.abc import Iterator

import pytest

from tests.rig.ledger import Ledger
from tests.rig.postgres import Postgres
from tests.rig.serve import Config, Rig


@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
)
def shared(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: Postgres,
) -> Iterator[Rig]:
    """A server configured by the module's `config(ledger)`; it runs until the module ends."""
    folder = tmp_path_factory.mktemp("shared")
    url = f"sqlite:///{folder / 'manent.db'}"
    if request.param == "postgres":
        url = postgres_server.create_database()
    config: Config = request.module.config(Ledger(folder))
    with Rig(folder, url, config) as rig:
        yield rig


@pytest.fixture(autouse=True)
def _no_orders(request: pytest.FixtureRequest) -> None:
    """A test of a shared server begins without the orders of the one before."""
    if "shared" in request.fixturenames:
        request.getfixturevalue("shared").ledger.tell()
