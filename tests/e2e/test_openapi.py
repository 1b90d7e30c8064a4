"""The OpenAPI document against a real server: every operation, every check, both roles."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from manent_server.api.reference import render_openapi
from tests.rig.postgres import Postgres
from tests.rig.serve import Rig

if TYPE_CHECKING:
    from tests.e2e.fuzzing import Server

pytestmark = pytest.mark.e2e
# Of each operation, once for each of two roles: what a few draws do not find, the soak looks for.
FEW, MANY = 20, 200
STORED = Path(__file__).parents[2] / "docs" / "reference" / "openapi.json"
OPERATIONS = [
    f"{method.upper()} {path}"
    for path, methods in json.loads(STORED.read_text())["paths"].items()
    for method in methods
]


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(render_openapi())
    return found


@pytest.fixture(scope="module")
def server(
    postgres_server: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> Iterator["Server"]:
    # Seconds that no other process of a run has to spend.
    import requests  # noqa: PLC0415 - only where requests are drawn

    from tests.e2e.fuzzing import Server  # noqa: PLC0415 - it loads what draws requests

    folder: Path = tmp_path_factory.mktemp("openapi")
    # Every operation is tried without a token, thousands of times.
    config = {"server": {"rates": {"failed_sign_ins": 0, "per_caller": 0, "public": 0}}}
    url = postgres_server.create_database()
    with Rig(folder, url, config, options=("--no-worker",)) as rig:
        made = rig.server_cli(["token", "create", "reader", "--role", "viewer"], check=True)
        # One connection for all requests; nothing of the developer's own, and no look for it.
        with requests.Session() as session:
            session.trust_env = False
            session.headers.clear()
            yield Server(rig, viewer=made.stdout.strip(), session=session)


def test_the_server_gives_the_document_that_is_printed(
    server: "Server", document: dict[str, Any]
) -> None:
    assert server.rig.get("/api/v1/openapi.json") == document


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_does_what_the_document_says(
    server: "Server", document: dict[str, Any], operation: str
) -> None:
    """B122, B125: whatever is sent, never a 500, never anything the document does not name.

    Each case is sent by an administrator and by a role that may only read.
    """
    server.fuzz(document, operation, phases=["examples", "fuzzing"], examples=FEW, is_steady=True)


@pytest.mark.soak
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_does_so_whatever_is_drawn(
    server: "Server", document: dict[str, Any], operation: str
) -> None:
    """The same, ten times as long."""
    server.fuzz(document, operation, phases=["fuzzing"], examples=MANY)


@pytest.mark.soak
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_keeps_to_the_borders_of_its_schema(
    server: "Server", document: dict[str, Any], operation: str
) -> None:
    """Every value at a border, alone and in pairs, besides those drawn."""
    server.fuzz(document, operation, phases=["coverage"], examples=FEW)
