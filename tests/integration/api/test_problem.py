"""Every refusal has one shape, a status of its class, and nothing of our insides."""

import io
import json

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from manent_server.api import problem
from manent_server.domain import errors
from manent_server.observability.metrics import Metrics
from tests.integration.api.conftest import ADMIN, FakeUsecases

CLASSES = [
    found
    for found in vars(errors).values()
    if isinstance(found, type) and issubclass(found, errors.ManentError)
]


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_every_class_of_error_has_a_status_of_its_own(error: type[errors.ManentError]) -> None:
    assert error in problem.STATUS


@pytest.mark.parametrize("error", CLASSES, ids=lambda error: error.__name__)
def test_the_status_its_docstring_names_is_the_one_sent(error: type[errors.ManentError]) -> None:
    doc = error.__doc__ or ""
    named = doc[doc.rfind("(") + 1 :].split(")")[0]

    assert not named.isdigit() or problem.STATUS[error].code == int(named)


def test_a_refusal_carries_code_next_and_facts(client: TestClient, fake: FakeUsecases) -> None:
    fake.fail_with = errors.Refused(
        "shop/production is locked by ann",
        code="environment_locked",
        next="manent unlock production",
        facts={"gates": [{"gate": "lock"}], "status": 200, "detail": "never replaced"},
    )

    answer = client.get("/api/v1/locks")

    assert answer.status_code == 409
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json() == {
        "type": "urn:manent:problem:environment_locked",
        "title": "Refused by policy",
        "status": 409,
        "detail": "shop/production is locked by ann",
        "code": "environment_locked",
        "next": "manent unlock production",
        "request_id": answer.headers["x-request-id"],
        "gates": [{"gate": "lock"}],
    }


def test_an_unexpected_error_tells_only_where_to_look(
    app: FastAPI, fake: FakeUsecases, written: io.StringIO
) -> None:
    """B125: no statement, no path, no text of the exception in the answer."""
    fake.fail_with = RuntimeError("SELECT * FROM tokens -- hunter22")

    with TestClient(app, headers=ADMIN) as client:
        answer = client.get("/api/v1/locks")

    assert answer.status_code == 500
    assert answer.json()["code"] == "unexpected"
    assert answer.json()["request_id"] == answer.headers["x-request-id"]
    for secret in ("SELECT", "hunter22", "RuntimeError", ".py", "Traceback"):
        assert secret not in answer.text
    fault, access = (json.loads(line) for line in written.getvalue().splitlines())
    assert fault["request_id"] == access["request_id"] == answer.json()["request_id"]
    assert "RuntimeError" in fault["exception"]
    assert "hunter22" not in written.getvalue()


def test_a_database_that_is_away_is_a_503(client: TestClient, fake: FakeUsecases) -> None:
    fake.fail_with = errors.Unavailable("the database does not answer", next="try again")

    answer = client.post("/api/v1/locks", json={"reason": "audit"})

    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "5"


def test_a_secret_in_the_words_of_a_refusal_is_masked(
    client: TestClient, fake: FakeUsecases
) -> None:
    """B108: whatever a use case says, known secrets stay out of the answer."""
    fake.fail_with = errors.Conflict(
        "hunter22 was refused",
        next="do not use hunter22",
        errors=[{"path": "x", "message": "hunter22"}],
        facts={"given": ["hunter22"]},
    )

    answer = client.get("/api/v1/locks")

    assert answer.status_code == 409
    assert "hunter22" not in answer.text


def test_an_unknown_route_is_a_problem(client: TestClient) -> None:
    answer = client.get("/api/v1/nothing")

    assert answer.status_code == 404
    assert answer.json()["code"] == "not_found"


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/api/v1/deploys", "GET, POST"),
        ("PUT", "/api/v1/locks", "GET, POST"),
        ("GET", "/api/v1/locks/l1", "DELETE"),
        ("GET", "/api/v1/deploys/0123456/cancel", "POST"),
        ("POST", "/api/v1/deploys/0123456/steps", "GET"),
        ("OPTIONS", "/livez", "GET"),
    ],
)
def test_a_wrong_method_is_told_the_right_ones(
    client: TestClient, method: str, path: str, allowed: str
) -> None:
    answer = client.request(method, path)

    assert answer.status_code == 405
    assert answer.headers["allow"] == allowed
    assert answer.json()["code"] == "method_not_allowed"


def test_every_answer_carries_the_headers_that_protect_it(client: TestClient) -> None:
    for path in ("/api/v1/deploys", "/livez", "/nothing"):
        headers = client.get(path).headers

        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers.get_list("cache-control") == ["no-store"]
        assert "server" not in headers


@pytest.mark.parametrize(
    ("given", "is_kept"),
    [("ci-run.42_a", True), ("x" * 64, True), ("x" * 65, False), ("a b", False), ("", False)],
)
def test_a_well_formed_request_id_is_kept(client: TestClient, given: str, *, is_kept: bool) -> None:
    answer = client.get("/livez", headers={"X-Request-Id": given})

    assert (answer.headers["x-request-id"] == given) is is_kept


def test_requests_are_counted_by_route_never_by_path(client: TestClient, metrics: Metrics) -> None:
    client.get("/api/v1/deploys/0123456789")
    client.get("/api/v1/secret-looking-path")

    text = metrics.render().decode()

    assert (
        'manent_http_requests_total{method="GET",route="/api/v1/deploys/{address}",'
        'status="200"} 1.0'
    ) in text
    assert 'route="unmatched",status="404"} 1.0' in text
    assert "secret-looking" not in text
    assert "0123456789" not in text


def test_each_request_is_logged_without_its_query(client: TestClient, written: io.StringIO) -> None:
    """B108: what stands behind the question mark may be a secret and stays out of the log."""
    client.get("/api/v1/deploys?application=in-the-query")

    record = json.loads(written.getvalue())
    assert record["event"] == "request"
    assert record["method"] == "GET"
    assert record["path"] == "/api/v1/deploys"
    assert record["status"] == 200
    assert record["caller"] == "ann"
    assert "in-the-query" not in written.getvalue()
    assert "admin-token" not in written.getvalue()


@pytest.mark.parametrize("address", ["shop/staging", "shop%2Fstaging", "shop/x/y"])
def test_a_path_in_place_of_an_address_is_told_how_deploys_are_addressed(
    client: TestClient, address: str
) -> None:
    answer = client.get(f"/api/v1/deploys/{address}")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert "application/environment#number" in answer.json()["next"]
