"""Sinks and notices over HTTP."""

import pytest
from starlette.testclient import TestClient

from tests.integration.api.conftest import VIEWER, Connect, FakeUsecases


def test_sinks_are_listed_without_their_address(connect: Connect) -> None:
    answer = connect(VIEWER).get("/api/v1/sinks")
    [sink] = answer.json()["items"]
    assert (sink["name"], sink["is_on"], sink["dead"]) == ("board", False, 3)
    assert "not-for-answers" not in answer.text


def test_notices_are_listed_by_state_and_sink(client: TestClient, fake: FakeUsecases) -> None:
    page = client.get("/api/v1/notices?state=dead&sink=board&before=n9&limit=5").json()

    assert (page["next"], page["items"][0]["event"]["type"]) == ("n0", "lock.set")
    assert fake.last()[2] == {"state": "dead", "sink": "board", "before": "n9", "limit": 5}


@pytest.mark.parametrize("query", ["state=gone", "limit=0", "sink=", "before="])
def test_a_list_that_is_none_is_refused(client: TestClient, query: str) -> None:
    assert client.get(f"/api/v1/notices?{query}").status_code == 422


@pytest.mark.parametrize("path", ["notices/n1", "sinks/board"])
def test_who_may_administer_may_resend(client: TestClient, fake: FakeUsecases, path: str) -> None:
    answer = client.post(
        f"/api/v1/{path}/resend", json={"reason": "mended"}, headers={"Idempotency-Key": "k"}
    )
    assert answer.status_code == 200
    _, arguments, keywords = fake.last()
    assert (arguments, keywords["reason"]) == ((path.partition("/")[2],), "mended")
    assert keywords["key"].key == "k"


@pytest.mark.parametrize("path", ["notices/n1", "sinks/board"])
def test_who_may_read_may_not_resend(connect: Connect, path: str) -> None:
    assert connect(VIEWER).post(f"/api/v1/{path}/resend").status_code == 403
