"""The OpenAPI document against a real server: every operation, every check, both roles."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import load_all_checks
from schemathesis.pytest.lazy import get_all_tests
from schemathesis.specs.openapi.checks import ignored_auth, positive_data_acceptance

from manent_server.api.reference import render_openapi
from tests.rig.postgres import Postgres
from tests.rig.serve import Rig

pytestmark = pytest.mark.e2e
# Of each operation, once for each of two roles: what a few draws do not find, the soak looks for.
FEW, MANY = 20, 200
STORED = Path(__file__).parents[2] / "docs" / "reference" / "openapi.json"
OPERATIONS = [
    f"{method.upper()} {path}"
    for path, methods in json.loads(STORED.read_text())["paths"].items()
    for method in methods
]
# Refusals that list a field and yet are out of a schema's reach.
BEYOND = {"instant_past", "cron_invalid", "timezone_invalid", "schedule_invalid", "reason_missing"}
patient = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None)


@dataclass(frozen=True)
class Server:
    """A server without a worker: what is asked for is accepted and waits."""

    rig: Rig
    viewer: str
    session: requests.Session

    def check(self, case: schemathesis.Case) -> None:
        """Send the case as each role and run every check schemathesis has."""
        self._check(case, self.rig.token, ())
        # That a request without a token is refused does not depend on who may not send it.
        self._check(case, self.viewer, (ignored_auth,))

    def _check(self, case: schemathesis.Case, token: str, without: Sequence[Any]) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        response = case.call(base_url=self.rig.url, headers=headers, session=self.session)
        unfit = [positive_data_acceptance] if is_beyond_the_schema(response) else []
        case.validate_response(response, excluded_checks=[*unfit, *without], headers=headers)


def is_beyond_the_schema(response: schemathesis.Response) -> bool:
    """Whether a use case refused what no schema can rule out.

    A cursor nobody gave out, a key used before: the refusal lists no field. An instant that has
    passed, a cron expression that never comes to one, an override without a reason. Names are
    within the schema's reach.
    """
    if response.status_code != 422:
        return False
    body = response.json()
    if body["code"] in BEYOND:
        return True
    return "errors" not in body and body["code"] != "name_invalid"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(render_openapi())
    return found


@pytest.fixture(scope="module")
def server(postgres_server: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("openapi")
    # Every operation is tried without a token, thousands of times.
    config = {"server": {"rates": {"failed_sign_ins": 0, "per_caller": 0}}}
    url = postgres_server.create_database()
    with Rig(folder, url, config, options=("--no-worker",)) as rig:
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


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_does_what_the_document_says(
    server: Server, document: dict[str, Any], operation: str
) -> None:
    """B122, B125: whatever is sent, never a 500, never anything the document does not name.

    Each case is sent by an administrator and by a role that may only read.
    """
    fuzz(document, operation, server, phases=["examples", "fuzzing"])


@pytest.mark.soak
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_does_so_whatever_is_drawn(
    server: Server, document: dict[str, Any], operation: str
) -> None:
    """The same, ten times as long."""
    fuzz(document, operation, server, phases=["fuzzing"], examples=MANY)


@pytest.mark.soak
@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation_keeps_to_the_borders_of_its_schema(
    server: Server, document: dict[str, Any], operation: str
) -> None:
    """Every value at a border, alone and in pairs, besides those drawn."""
    fuzz(document, operation, server, phases=["coverage"])


def fuzz(
    document: dict[str, Any],
    operation: str,
    server: Server,
    *,
    phases: Sequence[str],
    examples: int = FEW,
) -> None:
    """Send an operation all cases of it.

    They are made here: schemathesis' own `parametrize` makes them while tests are collected, in
    every process and for every run of whichever tests. This is what its tests by fixture call.
    """
    method, path = operation.split()
    schema = schemathesis.openapi.from_dict(document).include(method=method, path=path)
    # Again: of the settings a number that is Hypothesis' own default is passed over.
    schema.config.generation.update(max_examples=examples)
    schema.config.phases.update(phases=list(phases))
    load_all_checks()
    drawn = settings(patient, max_examples=examples)
    (made,) = get_all_tests(schema=schema, test_func=check, settings=drawn, given_kwargs={})
    _, test = made.ok()
    test(server=server)


def check(case: schemathesis.Case, server: Server) -> None:
    server.check(case)
