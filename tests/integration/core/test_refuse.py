"""Refusals are on record, and a flood of them is not."""

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from manent_server.api.app import create_app
from manent_server.domain.marks import Sort
from manent_server.observability.redaction import Redactor
from manent_server.usecases import mark, tokens
from manent_server.usecases.refuse import Refusals
from manent_server.usecases.requests import MarkRequest, TokenRequest
from tests.rig.core import ADMIN, Core

BODY = {"application": "shop", "environment": "staging", "version": "1"}


@pytest.fixture
def client(sqlite_core: Core) -> Iterator[TestClient]:
    """The whole API over real use cases; its clock stands still."""
    app = create_app(sqlite_core.desk, redactor=Redactor(["hunter22"]))
    app.state.refusals = Refusals(sqlite_core.store, clock=lambda: 0.0)
    with TestClient(app) as made:
        yield made


def as_role(core: Core, role: str) -> dict[str, str]:
    made = tokens.create(core.desk, TokenRequest(role, role), caller=ADMIN)
    return {"Authorization": f"Bearer {made['token']}"}


def refused(core: Core) -> list[dict[str, Any]]:
    return [dict(row) for row in core.rows("audit") if row["action"].startswith("access.")]


def test_who_was_not_let_is_on_record_before_he_hears_of_it(sqlite_core: Core, client: TestClient):
    """B149, refused and failed sign-ins too: who, from where, what, why."""
    core = sqlite_core
    viewer, admin = as_role(core, "viewer"), as_role(core, "admin")
    veto = MarkRequest(Sort.VETO, "hunter22", "shop", version="1")
    mark.put(core.desk, veto, caller=ADMIN)

    wrong = {"Authorization": "Bearer wrong"}
    assert client.get("/api/v1/deploys?token=hunter22", headers=wrong).status_code == 401
    assert client.post("/api/v1/deploys", json=BODY, headers=viewer).status_code == 403
    assert client.post("/api/v1/deploys", json=BODY, headers=admin).status_code == 409
    assert client.get("/api/v1/deploys/hunter22/hunter22", headers=wrong).status_code == 401

    signin, role, policy, path = refused(core)
    assert path["detail"]["path"] == "/api/v1/deploys/***/***"
    assert (signin["action"], signin["actor"]) == ("access.signin_failed", "unknown")
    assert signin["address"] == "testclient"
    assert (role["action"], role["actor"]) == ("access.refused", "viewer")
    assert role["detail"]["path"] == "/api/v1/deploys"
    assert (policy["action"], policy["actor"]) == ("access.policy_refused", "admin")
    assert "vetoed" in policy["detail"]["detail"] or "veto" in policy["detail"]["detail"]
    assert "hunter22" not in str(refused(core))


def test_a_flood_from_one_address_hides_no_other(sqlite_core: Core, client: TestClient):
    """Of a failed sign-in nothing but the address tells one stranger from another."""
    app = client.app
    for address in ("192.0.2.1", "192.0.2.2"):
        other = TestClient(app, client=(address, 4711))
        for _ in range(11):
            other.get("/api/v1/deploys", headers={"Authorization": "Bearer wrong"})
    seen = [row["address"] for row in refused(sqlite_core)]
    assert seen == ["192.0.2.1"] * 10 + ["192.0.2.2"] * 10


def test_a_flood_is_counted_not_written(sqlite_core: Core, client: TestClient):
    core = sqlite_core
    for _ in range(40):
        client.get("/api/v1/deploys", headers={"Authorization": "Bearer wrong"})
    assert len(refused(core)) == 10
    client.app.state.refusals.flush()
    assert refused(core)[-1]["detail"] == {"more": 30}
    client.app.state.refusals.flush()
    assert len(refused(core)) == 11
