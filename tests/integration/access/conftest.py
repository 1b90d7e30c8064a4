"""The API in this process, on a database of its own, asked by callers with any grants."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from fastapi.testclient import TestClient

from manent_server.api.app import create_app
from manent_server.api.calls import Calls
from manent_server.domain.access import Caller, Grant
from manent_server.settings.values import Rates
from tests.rig import core as cores
from tests.rig.core import Core


@pytest.fixture(scope="module")
def core(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Core]:
    """One core for all tests of a module, on SQLite."""
    folder = tmp_path_factory.mktemp("access")
    ground = cores.lay(f"sqlite:///{folder / 'manent.db'}")
    made = cores.build(ground, cores.read_settings(folder))
    rates = Rates(per_caller=0, public=0, failed_sign_ins=0)
    made.configure(server=replace(made.settings.server, rates=rates))
    yield made
    ground.close()


@pytest.fixture(scope="module")
def client(core: Core) -> Iterator[TestClient]:
    """The API as whoever has a token or signs in finds it."""
    made = TestClient(create_app(core.desk))
    with start_blocking_portal() as portal:
        made.portal = portal
        yield made


class Door:
    """The API, at which anybody may stand."""

    def __init__(self, core: Core) -> None:
        self._callers: dict[str, Caller] = {}
        app = create_app(core.desk, calls=Calls(authenticate=self._authenticate))
        self.client = TestClient(app, raise_server_exceptions=False)

    def _authenticate(self, desk: Any, token: str, *_: Any, **__: Any) -> Caller:
        del desk
        return self._callers[token]

    def ask(
        self, grants: tuple[Grant, ...], method: str, path: str, body: Any = None
    ) -> tuple[int, str]:
        """Status and text of the answer to somebody with these grants."""
        token = f"t{len(self._callers)}"
        self._callers[token] = Caller("dev", grants, "person")
        answer = self.client.request(
            method, path, json=body, headers={"Authorization": f"Bearer {token}"}
        )
        return answer.status_code, answer.text


@pytest.fixture(scope="module")
def door(core: Core) -> Iterator[Door]:
    made = Door(core)
    with start_blocking_portal() as portal:
        made.client.portal = portal
        yield made
