"""Routes of operators: what the use cases are asked, and what is left out of answers."""

from starlette.testclient import TestClient

from manent_server.domain.access import Caller, everywhere
from manent_server.usecases.requests import RecoverRequest
from tests.integration.api.conftest import EXECUTORS, VIEWER, FakeUsecases

ANN = Caller("ann", everywhere("admin"))


def test_what_is_empty_is_left_out_of_the_registry(client: TestClient) -> None:
    answer = client.get("/api/v1/admin/executors").json()
    assert answer["version"] == "0.1.0"
    assert answer["executors"] == [
        {"id": "w0", "registered": True, "alive": True},
        EXECUTORS[1],
    ]


def test_a_recovery_is_asked_for_with_every_field(client: TestClient, fake: FakeUsecases) -> None:
    body = {"executor": "w1", "dry_run": True, "force": True, "reason": "burnt"}
    answer = client.post("/api/v1/admin/recover", json=body)
    assert (answer.status_code, answer.json()["executor"]) == (200, "w1")
    asked = RecoverRequest("w1", dry_run=True, force=True, reason="burnt")
    assert fake.last() == ("recover", (asked,), {"caller": ANN, "key": None})


def test_a_worker_is_forgotten(client: TestClient, fake: FakeUsecases) -> None:
    answer = client.delete("/api/v1/admin/executors/w1")
    assert answer.json() == {"id": "w1", "forgotten": True}
    assert fake.last() == ("forget", ("w1",), {"caller": ANN})


def test_a_viewer_may_look_at_workers(client: TestClient) -> None:
    assert client.get("/api/v1/admin/executors", headers=VIEWER).status_code == 200
