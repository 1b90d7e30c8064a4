"""Routes of deploys: what the use cases are asked, and how."""

from datetime import UTC, datetime
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from manent_server.api.body import digest
from manent_server.domain.access import Caller, everywhere
from manent_server.domain.deploy import Outcome, State
from manent_server.domain.gates import OVERRIDABLE
from manent_server.domain.marks import Sort
from manent_server.domain.question import Answer
from manent_server.usecases.requests import (
    AnswerRequest,
    CancelRequest,
    DeployFilter,
    DeployRequest,
    IdempotencyKey,
    MarkRequest,
    RerunRequest,
    RollbackRequest,
)
from tests.integration.api.conftest import ADMIN, DEPLOY, FakeUsecases

ANN = Caller("ann", everywhere("admin"))
PLACE = {"application": "shop", "environment": "production"}


def test_a_deploy_is_accepted_with_202(client: TestClient, fake: FakeUsecases) -> None:
    answer = client.post("/api/v1/deploys", json={**PLACE, "version": "1.10"})

    assert answer.status_code == 202
    assert answer.json()["id"] == DEPLOY["id"]
    assert answer.json()["pass"] is None
    request = DeployRequest("shop", "production", "1.10")
    name, (given,), keywords = fake.last()
    assert name == "submit"
    assert given == request
    assert keywords == {"caller": ANN, "key": None}


def test_every_field_reaches_the_use_case(client: TestClient, fake: FakeUsecases) -> None:
    body = {
        **PLACE,
        "version": "2.0",
        "kind": "redeploy",
        "sha256": "a" * 64,
        "reason": "hotfix",
        "not_before": "2027-01-31T18:00:00.123456789+02:00",
        "not_after": "2027-02-01t00:00:00z",
        "priority": 5,
        "sequence": 77,
        "if_blocked": "refuse",
        "override": ["outdated"],
        "targets": ["web-1"],
        "links": {"ci": "https://ci.example/1"},
        "changes": [{"id": "c1", "author": "ann", "at": "2027-01-30T00:00:00Z"}],
    }

    client.post("/api/v1/deploys", json=body)

    _, (given,), _ = fake.last()
    assert given == DeployRequest(
        "shop",
        "production",
        "2.0",
        kind="redeploy",
        sha256="a" * 64,
        reason="hotfix",
        not_before=datetime(2027, 1, 31, 16, 0, 0, 123456, tzinfo=UTC),
        not_after=datetime(2027, 2, 1, tzinfo=UTC),
        priority=5,
        sequence=77,
        if_blocked="refuse",
        override=("outdated",),
        targets=("web-1",),
        links={"ci": "https://ci.example/1"},
        changes=[{"id": "c1", "author": "ann", "at": "2027-01-30T00:00:00Z"}],
    )


@pytest.mark.parametrize(
    "version", ["1;touch pwned", "$(id)", "`id`", "-rf", "--upload-pack=x", "1\n2", "../x", "🚀"]
)
def test_a_strange_version_is_handed_on_exactly(
    client: TestClient, fake: FakeUsecases, version: str
) -> None:
    """B112, B113: the use case that knows the grammar sees the text byte for byte."""
    client.post("/api/v1/deploys", json={**PLACE, "version": version})

    assert fake.last()[1][0].version == version


def test_a_key_goes_with_path_and_digest_of_the_body(
    client: TestClient, fake: FakeUsecases
) -> None:
    """B120: keys are per path and body, whatever the order of the fields."""
    body = {**PLACE, "version": "1"}

    client.post("/api/v1/deploys", json=body, headers={"Idempotency-Key": "run 42"})
    first = fake.last()[2]["key"]
    again = dict(reversed(body.items()))
    client.post("/api/v1/deploys", json=again, headers={"Idempotency-Key": "run 42"})

    assert first == IdempotencyKey("run 42", "/api/v1/deploys", digest(body))
    assert fake.last()[2]["key"] == first


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/rollbacks", {**PLACE, "reason": "bad"}),
        ("/api/v1/locks", {"reason": "audit"}),
        ("/api/v1/deploys/0123456/cancel", {}),
    ],
)
def test_every_post_takes_a_key(
    client: TestClient, fake: FakeUsecases, path: str, body: dict[str, Any]
) -> None:
    """B120."""
    client.post(path, json=body, headers={"Idempotency-Key": "k1"})

    assert fake.last()[2]["key"] == IdempotencyKey("k1", path, digest(body))


@pytest.mark.parametrize("key", ["", "x" * 256, "caf\u00e9", "tab\there"])
def test_a_key_that_is_no_short_text_is_refused(
    client: TestClient, fake: FakeUsecases, key: str
) -> None:
    answer = client.post(
        "/api/v1/deploys",
        json={**PLACE, "version": "1"},
        headers={b"Idempotency-Key": key.encode("latin-1")},
    )

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["path"].lower() == "idempotency-key"
    assert fake.asked == []


def test_two_keys_are_refused(client: TestClient) -> None:
    keys = [("Idempotency-Key", "a"), ("Idempotency-Key", "b")]

    answer = client.post("/api/v1/locks", json={"reason": "x"}, headers=keys)

    assert answer.status_code == 422


def test_a_rollback_a_cancel_and_a_lock_reach_their_use_cases(
    client: TestClient, fake: FakeUsecases
) -> None:
    rollback = {**PLACE, "to": "1.9", "reason": "bad", "current_configuration": True}
    assert client.post("/api/v1/rollbacks", json=rollback).status_code == 201
    wanted = RollbackRequest(
        "shop", "production", to="1.9", reason="bad", current_configuration=True
    )
    assert fake.last() == ("roll_back", (wanted,), {"caller": ANN, "key": None})

    cancel = {"rollback": True, "reason": "bad"}
    assert client.post("/api/v1/deploys/0123456/cancel", json=cancel).status_code == 200
    assert fake.last()[1] == ("0123456", CancelRequest(rollback=True, reason="bad"))

    lock = {"environment": "production", "reason": "x", "expires_at": "2027-01-01T00:00:00Z"}
    assert client.post("/api/v1/locks", json=lock).status_code == 201
    expires_at = datetime(2027, 1, 1, tzinfo=UTC)
    assert fake.last()[1] == (
        MarkRequest(Sort.LOCK, "x", environment="production", expires_at=expires_at),
    )

    assert client.delete("/api/v1/locks/l1").status_code == 200
    assert fake.last() == ("lift", (Sort.LOCK, "l1"), {"caller": ANN})


def test_a_cancel_needs_no_body(client: TestClient, fake: FakeUsecases) -> None:
    assert client.post("/api/v1/deploys/0123456/cancel").status_code == 200
    assert fake.last()[1] == ("0123456", CancelRequest())


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("0123456789abcdef", "0123456789abcdef"),
        ("shop%2Fproduction%2312", "shop/production#12"),
        ("shop/production%2312", "shop/production#12"),
        ("shop%2Fproduction", None),
        ("..%2F..%2Fetc", None),
        ("%F0%9F%9A%80", "🚀"),
    ],
)
def test_a_deploy_is_addressed_in_each_way(
    client: TestClient, fake: FakeUsecases, path: str, address: str | None
) -> None:
    """B112: the address survives the way through the path exactly, or names nothing."""
    for suffix, name in (("", "deploy"), ("/steps", "steps"), ("/explain", "explain")):
        answer = client.get(f"/api/v1/deploys/{path}{suffix}")

        if address is None:
            assert answer.status_code == 404
        else:
            assert fake.last()[:2] == (name, (address,))


@pytest.mark.parametrize("path", ["a%00b", "a%0Ab", "%7f"])
def test_control_characters_name_nothing(client: TestClient, fake: FakeUsecases, path: str) -> None:
    assert client.get(f"/api/v1/deploys/{path}").status_code == 404
    assert client.get(f"/api/v1/environments/{path}").status_code == 404
    assert fake.asked == []


def test_deploys_are_listed_as_asked(client: TestClient, fake: FakeUsecases) -> None:
    query = "application=shop&state=success&state=Error&outcome=failed&before=c1&limit=37"

    answer = client.get(f"/api/v1/deploys?{query}")

    assert answer.json()["next"] == "cursor"
    assert fake.last()[1] == (
        DeployFilter(
            application="shop",
            states=("SUCCESS", "ERROR"),
            outcome="failed",
            before="c1",
            limit=37,
        ),
    )


def test_without_a_query_a_page_has_fifty(client: TestClient, fake: FakeUsecases) -> None:
    client.get("/api/v1/deploys")

    assert fake.last()[1] == (DeployFilter(),)


@pytest.mark.parametrize(
    ("query", "path", "words"),
    [
        ("limit=0", "limit", "at least 1"),
        ("limit=501", "limit", "at most 500"),
        ("limit=1e1", "limit", "whole number"),
        ("limit=%201", "limit", "whole number"),
        ("limit=%D9%A1", "limit", "whole number"),
        ("limit=" + "9" * 5000, "limit", "whole number"),
        ("limit=1&limit=2", "limit", "more than once"),
        ("state=DONE", "state.0", "must be"),
        ("state=", "state.0", "must be"),
        ("state=SUCCESS'%20OR%201=1", "state.0", "must be"),
        ("outcome=pg_sleep(5)", "outcome", "must be"),
        ("staet=SUCCESS", "staet", "did you mean state?"),
        ("sort=id;DROP%20TABLE", "sort", "known are"),
        ("order=CASE%20WHEN", "order", "known are"),
        ("before=", "before", "shorter than 1"),
    ],
)
def test_a_query_that_is_not_acceptable_is_named(
    client: TestClient, fake: FakeUsecases, query: str, path: str, words: str
) -> None:
    """B125: closed lists; nothing unknown gets near a statement, nothing is echoed."""
    answer = client.get(f"/api/v1/deploys?{query}")

    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["path"] == path
    assert words in error["message"]
    assert "DROP" not in answer.text
    assert fake.asked == []


def test_a_route_without_parameters_takes_none(client: TestClient) -> None:
    assert client.get("/api/v1/locks?all=1").status_code == 422
    assert client.post("/api/v1/deploys?dry=1", json={}).status_code == 422


def test_what_a_use_case_adds_by_mistake_is_not_sent(app: FastAPI, fake: FakeUsecases) -> None:
    """A field nobody listed, such as the frozen order, stays inside."""
    fake.more = {"order_body": "internal"}

    with TestClient(app, headers=ADMIN) as client:
        answer = client.get("/api/v1/deploys/0123456")

    assert answer.status_code == 200
    assert "internal" not in answer.text


def test_the_version_names_the_oldest_client(client: TestClient) -> None:
    answer = client.get("/api/v1/version").json()

    assert answer["version"]
    assert answer["minimum_client"] == "0.1.0"


def test_the_words_of_the_query_are_those_of_the_domain(client: TestClient) -> None:
    for state in State:
        assert client.get(f"/api/v1/deploys?state={state}").status_code == 200
    for gate in OVERRIDABLE:
        body = {**PLACE, "version": "1", "override": [gate]}
        assert client.post("/api/v1/deploys", json=body).status_code == 202
    for outcome in Outcome:
        assert client.get(f"/api/v1/deploys?outcome={outcome}").status_code == 200


def test_a_rerun_says_where_it_begins_and_a_retry_does_not(
    client: TestClient, fake: FakeUsecases
) -> None:
    body = {"from": "deploy:web-1", "reason": "again", "override": ["outdated"]}
    answer = client.post("/api/v1/deploys/d1/rerun", json=body)
    assert answer.status_code == 202
    wanted = RerunRequest("deploy:web-1", "again", ("outdated",))
    assert fake.last() == ("rerun", ("d1", wanted), {"caller": ANN, "key": None})

    assert client.post("/api/v1/deploys/d1/retry").status_code == 202
    assert fake.last() == ("retry", ("d1", RerunRequest()), {"caller": ANN, "key": None})

    assert client.post("/api/v1/deploys/d1/rerun", json={}).status_code == 422


def test_an_answer_names_what_is_answered(client: TestClient, fake: FakeUsecases) -> None:
    body = {"answer": "skip", "target": "web-1", "reason": "its disk is full"}
    assert client.post("/api/v1/deploys/d1/resolve", json=body).status_code == 200
    wanted = AnswerRequest(Answer.SKIP, "web-1", "its disk is full")
    assert fake.last() == ("resolve", ("d1", wanted), {"caller": ANN, "key": None})
    assert client.post("/api/v1/deploys/d1/resolve", json={"answer": "perhaps"}).status_code == 422
    assert client.post("/api/v1/deploys/d1/resolve", json={}).status_code == 422


def test_the_plan_of_a_rerun_is_shown(client: TestClient, fake: FakeUsecases) -> None:
    shown = client.get("/api/v1/deploys/d1/rerun?from=deploy:web-1").json()
    assert (shown["from"], shown["pass"], shown["carried"]) == ("deploy:web-1", 2, ["prepare"])
    assert fake.last() == ("rerun_plan", ("d1",), {"begin": "deploy:web-1"})
    client.get("/api/v1/deploys/d1/rerun")
    assert fake.last() == ("rerun_plan", ("d1",), {"begin": None})
