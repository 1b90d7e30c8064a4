"""Tokens: made, used, denied, shown once, ended."""

import time
from datetime import timedelta
from typing import Any

import pytest
import requests
from fastapi.testclient import TestClient

from manent_server.api.app import create_app
from manent_server.api.server import Listener
from manent_server.domain.access import Grant
from manent_server.settings.values import Access, Person
from manent_server.usecases import refuse
from manent_server.usecases.authenticate import USED_EVERY
from tests.integration.access.signing import admin, bearer, told
from tests.rig.core import Core, long_ago
from tests.rig.rules import AtMost


def test_a_token_has_no_right_that_its_groups_are_denied(core: Core, client: TestClient):
    """Deny wins over a role of one's own, and for a group one is listed in as for a token's."""
    out = (Grant("deployer", ("shop",), deny=True),)
    people = {"cy": Person(groups=("out",), principals=("cy-laptop",), ids={})}
    core.configure(access=Access(roles={"out": out}, people=people))
    body = {"application": "shop", "environment": "staging", "version": "9"}
    for more in ({"name": "ci", "groups": ["out"]}, {"name": "cy-laptop", "kind": "person"}):
        made = admin(core, client, role="admin", **more)
        asked = client.post("/api/v1/deploys", json=body, headers=bearer(made["token"]))
        assert (asked.status_code, asked.json()["code"]) == (403, "not_allowed")
    made = admin(core, client, role="admin", groups=["in"])
    asked = client.post("/api/v1/deploys", json=body, headers=bearer(made["token"]))
    assert asked.status_code == 202


def test_a_token_ends_with_its_time(core: Core, client: TestClient):
    made = admin(core, client, role="viewer", expires="1h")
    assert client.get("/api/v1/auth", headers=bearer(made["token"])).status_code == 200
    with core.store.write() as tx:
        t = tx.tables.tokens
        tx.connection.execute(t.update().where(t.c.id == made["id"]).values(expires_at=long_ago()))
    assert client.get("/api/v1/auth", headers=bearer(made["token"])).status_code == 401


def test_a_token_is_made_used_replaced_and_revoked(core: Core, client: TestClient):
    client.app.state.refusals = refuse.Refusals(core.store)
    old = admin(core, client, role="deployer", applications=["shop"], groups=["sre"])
    new = admin(core, client, role="deployer", applications=["shop"])
    assert old["token"].startswith("mnt_s_")
    for one in (old, new):
        me = client.get("/api/v1/auth", headers=bearer(one["token"])).json()
        assert (me["name"], me["kind"], me["source"]) == ("ci", "service", "token")
    ended = client.delete(f"/api/v1/tokens/{old['id']}", headers=bearer(old["admin"]))
    assert ended.json()["revoked_at"]
    assert client.get("/api/v1/auth", headers=bearer(old["token"])).status_code == 401
    assert client.get("/api/v1/auth", headers=bearer(new["token"])).status_code == 200
    # Who uses it still is on record; the answer tells nothing.
    refused = told(core, "access.signin_failed")
    assert (refused["reason"], refused["name"], refused["token"]) == (
        "revoked token",
        "ci",
        old["id"],
    )
    listed = client.get("/api/v1/tokens", headers=bearer(new["admin"])).json()["items"]
    mine = next(one for one in listed if one["id"] == new["id"])
    assert mine["last_used_at"]
    assert "token" not in mine


def test_a_use_is_written_now_and_then(core: Core, client: TestClient):
    made = admin(core, client, role="viewer")

    def used() -> Any:
        client.get("/api/v1/auth", headers=bearer(made["token"]))
        return next(row for row in core.rows("tokens") if row["id"] == made["id"])["last_used_at"]

    first = used()
    assert first is not None
    assert used() == first
    with core.store.write() as tx:
        t = tx.tables.tokens
        tx.connection.execute(t.update().values(last_used_at=first - USED_EVERY))
    assert used() >= first


def test_a_key_makes_one_token_and_shows_it_once(core: Core, client: TestClient):
    made = admin(core, client, role="viewer")
    headers = bearer(made["admin"]) | {"Idempotency-Key": "k-1"}
    body = {"name": "ci", "role": "viewer", "expires": "90d"}
    first = client.post("/api/v1/tokens", json=body, headers=headers).json()
    again = client.post("/api/v1/tokens", json=body, headers=headers).json()
    assert first["id"] == again["id"]
    assert (bool(first["token"]), again["token"]) == (True, None)
    wrong = client.post(
        "/api/v1/tokens", json=body | {"expires": "soon"}, headers=bearer(made["admin"])
    )
    assert wrong.status_code == 422


@pytest.mark.promise
def test_a_stream_ends_as_soon_as_its_token_is_revoked(
    core: Core, client: TestClient, at_most: AtMost
):
    """Not half a minute later, when the stream would have looked again."""
    made = admin(core, client, role="viewer")
    server = Listener(create_app(core.desk), "127.0.0.1", 0)
    server.start()
    try:
        headers = bearer(made["token"]) | {"Accept": "text/event-stream"}
        with requests.get(
            f"{server.url}/api/v1/events", headers=headers, stream=True, timeout=60
        ) as stream:
            lines = stream.iter_lines()
            assert next(lines) == b"retry: 1000"
            client.delete(f"/api/v1/tokens/{made['id']}", headers=bearer(made["admin"]))
            began = time.monotonic()
            rest = b"\n".join(lines)
        assert time.monotonic() - began < at_most(2.5, beside=15)
        assert b'"code": "not_signed_in"' in rest
    finally:
        server.stop(timedelta(seconds=1))


def test_whoever_lets_others_in_gives_nothing_that_is_denied_to_them(
    core: Core, client: TestClient
):
    """Else a denial lasts until its subject has made a token under another name."""
    denied = (Grant("approver", environments=("production",), deny=True),)
    core.configure(access=Access(roles={"ops": denied}))
    mine = admin(core, client, role="admin", kind="person", groups=["ops"])["token"]
    body = {"name": "mole", "role": "approver", "kind": "person"}
    for places, status in ((["*"], 403), (["prod*"], 403), (["staging"], 201)):
        asked = {**body, "environments": places}
        made = client.post("/api/v1/tokens", json=asked, headers=bearer(mine))
        assert made.status_code == status, places
