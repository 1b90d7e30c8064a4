"""The OpenAPI document against a real server: every operation, every check, both roles."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import positive_data_acceptance

from manent_server.api.reference import render_openapi
from tests.rig.postgres import Postgres
from tests.rig.serve import Rig

pytestmark = pytest.mark.e2e
EXAMPLES = 100
# Made when a test runs: cases that are made as tests are collected cost each process seconds.
schema = schemathesis.pytest.from_fixture("fuzzed")
thorough = settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None
)


@dataclass(frozen=True)
class Server:
    """A server without a worker: what is asked for is accepted and waits."""

    rig: Rig
    viewer: str
    session: requests.Session

    def check(self, case: schemathesis.Case, token: str) -> None:
        """Send the case and run every check schemathesis has."""
        headers = {"Authorization": f"Bearer {token}"}
        response = case.call(base_url=self.rig.url, headers=headers, session=self.session)
        unfit = [positive_data_acceptance] if is_beyond_the_schema(response) else []
        case.validate_response(response, excluded_checks=unfit, headers=headers)


def is_beyond_the_schema(response: schemathesis.Response) -> bool:
    """Whether a use case refused what no schema can rule out.

    A cursor nobody gave out, a key used before, an instant that has passed: the refusal lists no
    field. Names are within the schema's reach.
    """
    if response.status_code != 422:
        return False
    body = response.json()
    return "errors" not in body and body["code"] != "name_invalid"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(render_openapi())
    return found


@pytest.fixture(scope="module")
def fuzzed(document: dict[str, Any]) -> BaseSchema:
    return schemathesis.openapi.from_dict(document)


@pytest.fixture(scope="module")
def server(postgres_server: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("openapi")
    with Rig(folder, postgres_server.create_database(), options=("--no-worker",)) as rig:
        made = rig.server_cli(["token", "create", "reader", "--role", "viewer"], check=True)
        # One connection for all requests; nothing of the developer's own, and no look for it.
        with requests.Session() as session:
            session.trust_env = False
            session.headers.clear()
            yield Server(rig, viewer=made.stdout.strip(), session=session)


def test_the_server_gives_the_document_that_is_printed(
    server: Server, document: dict[str, Any]
) -> None:
    assert server.rig.get("/api/v1/openapi.json") == document


@pytest.mark.timeout(600)
@thorough
@schema.parametrize()
def test_every_operation_does_what_the_document_says(
    case: schemathesis.Case, server: Server
) -> None:
    """B122, B125: whatever is sent, never a 500, never anything the document does not name."""
    server.check(case, server.rig.token)


# A process of its own where there are several: each of the two takes as long as all other groups.
@pytest.mark.xdist_group("viewer")
@pytest.mark.timeout(600)
@thorough
@schema.parametrize()
def test_a_viewer_gets_what_the_document_says(case: schemathesis.Case, server: Server) -> None:
    """The same as a role that may only read: every change is a 403, no crash on the way."""
    server.check(case, server.viewer)
