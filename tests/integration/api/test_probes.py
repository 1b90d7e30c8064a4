"""Probes and metrics answer without a token and whatever the database does."""

import time
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from manent_server.api import probes
from manent_server.api.pulse import Limits, Pulse
from manent_server.domain.errors import Unavailable
from manent_server.observability.metrics import Metrics
from tests.integration.api.conftest import FakeUsecases
from tests.rig.process import until


@pytest.fixture(params=["api", "probes"])
def client(request: pytest.FixtureRequest, app: FastAPI, probe_app: FastAPI) -> TestClient:
    return TestClient(app if request.param == "api" else probe_app)


def test_livez_asks_nobody(client: TestClient, fake: FakeUsecases) -> None:
    fake.fail_with = Unavailable("the database does not answer")

    answer = client.get("/livez")

    assert answer.status_code == 200
    assert answer.json() == {"alive": True}
    assert fake.asked == []


def test_head_is_answered_like_get_without_a_body(client: TestClient) -> None:
    for path, status in (("/livez", 200), ("/readyz", 200)):
        answer = client.head(path)
        assert (answer.status_code, answer.content) == (status, b"")


def test_readyz_says_what_this_process_does(client: TestClient) -> None:
    answer = client.get("/readyz")

    assert answer.status_code == 200
    assert answer.json() == {"ready": True, "draining": False, "running": 0, "reasons": []}


def test_a_draining_process_is_not_ready(client: TestClient, fake: FakeUsecases) -> None:
    fake.report = {"ready": False, "draining": True, "running": 2, "reasons": ["draining"]}

    answer = client.get("/readyz")

    assert answer.status_code == 503
    assert answer.json() == fake.report


def test_without_a_database_for_a_while_no_process_is_ready(
    client: TestClient, fake: FakeUsecases
) -> None:
    """B142: a moment is said and nothing more; the first answer ends an outage."""
    state: Any = client.app
    state.state.pulse = Pulse(Limits(failing=0.3))
    fake.fail_with = Unavailable("the database does not answer")
    began = time.monotonic()

    answer = client.get("/readyz")

    assert answer.status_code == 200
    assert answer.json()["reasons"] == ["the database does not answer"]
    gone = until(lambda: (found := client.get("/readyz")).status_code == 503 and found, what="503")
    assert time.monotonic() - began >= 0.3
    assert gone.json()["reasons"] == ["the database does not answer"]
    fake.fail_with = None
    assert client.get("/readyz").status_code == 200


def test_a_database_that_hangs_is_not_waited_for(
    probe_app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "SECONDS", 0.05)
    probe_app.state.metrics.watch_executors(lambda: time.sleep(2) or [])
    client = TestClient(probe_app)

    began = time.monotonic()
    assert client.get("/metrics").status_code == 503
    assert client.get("/livez").status_code == 200
    assert time.monotonic() - began < 2


def test_metrics_are_on_their_own_listener_only(
    app: FastAPI, probe_app: FastAPI, metrics: Metrics
) -> None:
    metrics.stale_write()

    answer = TestClient(probe_app).get("/metrics")

    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "manent_stale_writes_total 1.0" in answer.text
    assert TestClient(app).get("/metrics").status_code == 401


def test_the_listener_of_probes_serves_nothing_else(probe_app: FastAPI) -> None:
    client = TestClient(probe_app)

    assert client.get("/api/v1/deploys").status_code == 404
    assert client.get("/openapi.json").status_code == 404
    assert client.post("/metrics").status_code == 405
