"""Routes of schedules."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from manent_server.api.body import digest
from manent_server.domain.access import Caller, everywhere
from manent_server.usecases.requests import IdempotencyKey, ScheduleRequest
from tests.integration.api.conftest import SCHEDULE, VIEWER, Connect, FakeUsecases

ANN = Caller("ann", everywhere("admin"))
BODY = {
    "name": "nightly",
    "application": "shop",
    "environment": "production",
    "cron": "30 2 * * *",
}


def test_a_schedule_reaches_its_use_case_whole(client: TestClient, fake: FakeUsecases) -> None:
    more = {"timezone": "Europe/Rome", "from": "staging", "overlap": "queue", "catch_up": "2h"}
    answer = client.post("/api/v1/schedules", json={**BODY, **more, "reason": "fresh"})
    assert answer.status_code == 201
    assert {name: answer.json()[name] for name in SCHEDULE} == SCHEDULE
    asked = ScheduleRequest(
        **BODY,
        timezone="Europe/Rome",
        source="staging",
        overlap="queue",
        catch_up="2h",
        reason="fresh",
    )
    assert fake.last() == ("schedule", (asked,), {"caller": ANN, "key": None})


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/schedules", {**BODY, "version": "1"}),
        ("/api/v1/schedules/nightly/pause", {"reason": "audit"}),
        ("/api/v1/schedules/nightly/resume", {}),
    ],
)
def test_every_change_takes_a_key(
    client: TestClient, fake: FakeUsecases, path: str, body: dict[str, Any]
) -> None:
    """B120"""
    client.post(path, json=body, headers={"Idempotency-Key": "k1"})
    assert fake.last()[2]["key"] == IdempotencyKey("k1", path, digest(body))


def test_a_schedule_is_paused_resumed_and_deleted(client: TestClient, fake: FakeUsecases) -> None:
    assert client.post("/api/v1/schedules/nightly/pause").status_code == 200
    asked = {"reason": None, "caller": ANN, "key": None}
    assert fake.last() == ("pause_schedule", ("nightly",), asked)
    assert client.post("/api/v1/schedules/nightly/resume", json={}).status_code == 200
    assert fake.last() == ("resume_schedule", ("nightly",), {"caller": ANN, "key": None})
    assert client.delete("/api/v1/schedules/nightly").json()["name"] == "nightly"
    assert fake.last() == ("delete_schedule", ("nightly",), {"caller": ANN})


def test_what_is_read_of_schedules(client: TestClient, fake: FakeUsecases) -> None:
    client.get("/api/v1/schedules?application=shop")
    assert fake.last() == ("schedules", (), {"application": "shop", "environment": None})
    assert client.get("/api/v1/schedules/nightly").json()["from"] == "staging"
    client.get("/api/v1/schedules/nightly/preview?count=7")
    assert fake.last() == ("schedule_preview", ("nightly",), {"count": 7})
    client.get("/api/v1/schedules/nightly/runs?limit=3")
    assert fake.last() == ("schedule_runs", ("nightly",), {"before": None, "limit": 3})
    client.post("/api/v1/schedules/preview", json={"cron": "* * * * *"})
    assert fake.last() == ("schedule_draft", ("* * * * *", "UTC"), {"count": 5})


def test_who_may_only_read_changes_nothing(connect: Connect, fake: FakeUsecases) -> None:
    viewer = connect(VIEWER)
    assert viewer.post("/api/v1/schedules", json=BODY).status_code == 403
    assert viewer.post("/api/v1/schedules/nightly/pause").status_code == 403
    assert viewer.delete("/api/v1/schedules/nightly").status_code == 403
    assert viewer.get("/api/v1/schedules").status_code == 200


@pytest.mark.parametrize(
    "wrong",
    [{"overlap": "all"}, {"cron": ""}, {"timezone": 1}, {"newest": "yes"}, {"source": "staging"}],
)
def test_a_body_that_says_something_else_is_refused(
    client: TestClient, fake: FakeUsecases, wrong: dict[str, Any]
) -> None:
    assert client.post("/api/v1/schedules", json={**BODY, **wrong}).status_code == 422
    assert fake.asked == []
