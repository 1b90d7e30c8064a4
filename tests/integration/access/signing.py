"""Tokens made at the door, and what is on record of them."""

import json
from typing import Any

from fastapi.testclient import TestClient

from manent_server.usecases import tokens
from manent_server.usecases.requests import TokenRequest
from tests.rig.core import ADMIN, Core


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def admin(core: Core, client: TestClient, **body: Any) -> dict[str, Any]:
    """A new token, made by an administrator."""
    mine = tokens.create(core.desk, TokenRequest("root", "admin"), caller=ADMIN)["token"]
    made = client.post("/api/v1/tokens", json={"name": "ci", **body}, headers=bearer(mine))
    assert made.status_code == 201, made.text
    return {**made.json(), "admin": mine}


def told(core: Core, action: str) -> dict[str, Any]:
    """The detail of the newest record of this kind."""
    last = [row for row in core.rows("audit") if row["action"] == action][-1]
    found: dict[str, Any] = json.loads(last["record"])["detail"]
    return found
