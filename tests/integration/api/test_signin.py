"""Nothing answers without a token but what is listed as public."""

import re

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from manent_server.api.signin import PUBLIC, is_public
from manent_server.domain.errors import Unavailable
from tests.integration.api.conftest import ADMIN, VIEWER, Connect, FakeUsecases


@pytest.fixture
def stranger(connect: Connect) -> TestClient:
    return connect({})


def operations(app: FastAPI) -> list[tuple[str, str]]:
    return [
        (method, re.sub(r"\{[^}]*\}", "0123456789", route.path))
        for route in app.routes
        for method in sorted(route.methods or ())
    ]


def test_every_route_but_the_public_ones_wants_a_token(app: FastAPI, stranger: TestClient) -> None:
    answers = {
        (method, path): stranger.request(method, path).status_code
        for method, path in operations(app)
    }

    assert len(answers) > 15
    open_ones = {path for (_, path), status in answers.items() if status != 401}
    assert open_ones == {path for _, path in answers if is_public(path)} > PUBLIC


def test_without_a_token_the_problem_says_how_to_sign_in(stranger: TestClient) -> None:
    answer = stranger.get("/api/v1/deploys")

    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["code"] == "not_signed_in"
    assert answer.json()["next"]


@pytest.mark.parametrize("path", ["/", "/nothing", "/api/v1/../livez", "/livez/", "//livez"])
def test_an_unknown_path_tells_a_stranger_nothing(stranger: TestClient, path: str) -> None:
    assert stranger.get(path).status_code == 401


@pytest.mark.parametrize(
    "header",
    [
        "admin-token",
        "Basic admin-token",
        "Bearer",
        "Bearer ",
        "Bearer admin-token extra",
        "Bearer wrong-token",
        "Bearer " + "x" * 600,
        "Bearer \u00e9\u00e8",
    ],
)
def test_a_header_that_is_no_known_token_is_refused(stranger: TestClient, header: str) -> None:
    answer = stranger.get("/api/v1/deploys", headers={b"Authorization": header.encode("latin-1")})

    assert answer.status_code == 401
    assert "wrong-token" not in answer.text


def test_two_tokens_are_none(stranger: TestClient) -> None:
    both = [("Authorization", "Bearer admin-token"), ("Authorization", "Bearer viewer-token")]

    assert stranger.get("/api/v1/deploys", headers=both).status_code == 401


def test_a_token_in_the_url_is_none(stranger: TestClient) -> None:
    assert stranger.get("/api/v1/deploys?token=admin-token").status_code == 401


def test_the_word_bearer_is_read_in_any_case(stranger: TestClient) -> None:
    answer = stranger.get("/api/v1/deploys", headers={"Authorization": "bEARER  admin-token"})

    assert answer.status_code == 200


def test_a_viewer_changes_nothing(app: FastAPI, fake: FakeUsecases, stranger: TestClient) -> None:
    changing = [
        (method, path)
        for method, path in operations(app)
        # A plan creates nothing; signing in and out and the accounts one has are one's own affair.
        if method not in ("GET", "HEAD")
        and not path.startswith(("/api/v1/plans", "/api/v1/auth", "/api/v1/links"))
        # Chats sign what they send: no token lets anybody in there.
        and not is_public(path)
    ]

    answers = {
        (method, path): stranger.request(method, path, headers=VIEWER, content=b"{not json")
        for method, path in changing
    }

    assert len(answers) >= 7
    assert {answer.status_code for answer in answers.values()} == {403}
    assert {answer.json()["code"] for answer in answers.values()} == {"not_allowed"}
    assert fake.asked == []


def test_a_viewer_reads(stranger: TestClient) -> None:
    assert stranger.get("/api/v1/deploys", headers=VIEWER).status_code == 200


def test_while_nobody_can_be_recognised_the_answer_is_try_later(
    fake: FakeUsecases, app: FastAPI
) -> None:
    fake.tokens = Down()

    with TestClient(app, headers=ADMIN) as client:
        answer = client.get("/api/v1/deploys")

    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0


class Down(dict[str, object]):
    def __contains__(self, _: object) -> bool:
        raise Unavailable("the database does not answer")
