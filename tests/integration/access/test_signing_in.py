"""Signing in: tokens and their end, people by a provider, CI jobs by their own identity."""

import io
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import requests
from anyio.from_thread import start_blocking_portal
from fastapi.testclient import TestClient

from manent_cli.pace import Pace
from manent_cli.profile import load_contexts
from manent_cli.running import run
from manent_server.api.app import create_app
from manent_server.api.server import Listener
from manent_server.domain.access import Grant
from manent_server.settings.values import Access, Person, Provider, Trust
from manent_server.usecases import refuse, tokens
from manent_server.usecases.authenticate import USED_EVERY
from manent_server.usecases.requests import TokenRequest
from tests.rig import provider as providers
from tests.rig import signer
from tests.rig.core import ADMIN, Core, long_ago
from tests.rig.provider import JOB_SECRET

AUDIENCE = "https://manent.example"
JOB = {"repository_id": "5", "ref": "refs/heads/main", "event_name": "push", "actor_id": "42"}


@pytest.fixture(scope="module")
def idp() -> Iterator[providers.Provider]:
    with providers.running() as made:
        yield made


@pytest.fixture(autouse=True)
def configured(core: Core, idp: providers.Provider) -> Access:
    access = Access(
        oidc={"company": Provider(issuer=idp.issuer, client_id="manent", groups_claim="groups")},
        trust={
            "shop": Trust(
                issuer=idp.issuer,
                audience=AUDIENCE,
                claims={"repository_id": ("5",), "ref": ("refs/heads/main",)},
                role="deployer",
                applications=("shop",),
                environments=("*",),
            )
        },
        roles={"dev": (Grant("deployer", ("shop",)),), "all": (Grant("viewer"),)},
        people={
            "ann": Person(groups=("all",), principals=(f"oidc:{idp.issuer}#1",), ids={}),
            "bob": Person(groups=(), principals=(), ids={"github": "42"}),
        },
        groups_max_age=timedelta(hours=8),
    )
    core.configure(access=access)
    idp.said, idp.job, idp.polls, idp.refuses = {}, JOB, 1, None
    return access


@pytest.fixture(scope="module")
def client(core: Core) -> Iterator[TestClient]:
    made = TestClient(create_app(core.desk))
    with start_blocking_portal() as portal:
        made.portal = portal
        yield made


def sign_in(client: TestClient, assertion: str, **more: Any) -> Any:
    return client.post("/api/v1/auth/sessions", json={"assertion": assertion, **more})


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


def job(idp: providers.Provider, **more: Any) -> str:
    return idp.token(**{"aud": AUDIENCE, **JOB, **more})


def test_a_person_is_who_its_provider_says_with_the_groups_it_has(
    client: TestClient, idp: providers.Provider
):
    answer = sign_in(client, idp.token(groups=["dev", "others"], sub="1"))
    assert answer.status_code == 201, answer.text
    who = answer.json()
    assert (who["name"], who["kind"]) == (f"oidc:{idp.issuer}#1", "person")
    assert (who["login"], who["groups"]) == ("ann", ["all", "dev", "others"])
    assert who["token"].startswith("mnt_c_")
    me = client.get("/api/v1/auth", headers=bearer(who["token"])).json()
    assert me == {name: value for name, value in who.items() if name != "token"}
    assert [grant["role"] for grant in me["grants"]] == ["viewer", "deployer"]


def test_what_groups_may_changes_with_the_configuration(
    core: Core, client: TestClient, idp: providers.Provider, configured: Access
):
    token = sign_in(client, idp.token(groups=["dev"], sub="7")).json()["token"]
    assert client.get("/api/v1/deploys", headers=bearer(token)).status_code == 200
    core.configure(access=replace(configured, roles={}))
    assert client.get("/api/v1/deploys", headers=bearer(token)).status_code == 403
    core.configure(access=replace(configured, oidc={}))
    assert client.get("/api/v1/deploys", headers=bearer(token)).status_code == 401


def test_whoever_signs_out_is_out_at_once(core: Core, client: TestClient, idp: providers.Provider):
    token = sign_in(client, idp.token(sub="8")).json()["token"]
    assert client.delete("/api/v1/auth", headers=bearer(token)).status_code == 200
    assert client.get("/api/v1/auth", headers=bearer(token)).status_code == 401
    assert token not in str(core.rows("sessions")) + str(core.rows("audit"))
    made = admin(core, client, role="viewer")
    refused = client.delete("/api/v1/auth", headers=bearer(made["token"]))
    assert (refused.status_code, refused.json()["code"]) == (404, "no_session")


def test_an_administrator_ends_sessions(core: Core, client: TestClient, idp: providers.Provider):
    made = admin(core, client, role="viewer")
    token = sign_in(client, idp.token(sub="10")).json()["token"]
    listed = client.get("/api/v1/sessions", headers=bearer(made["admin"])).json()["items"]
    mine = next(one for one in listed if one["name"].endswith("#10"))
    path = f"/api/v1/sessions/{mine['id']}"
    assert client.delete(path, headers=bearer(made["token"])).status_code == 403
    assert client.delete(path, headers=bearer(made["admin"])).status_code == 200
    assert client.get("/api/v1/auth", headers=bearer(token)).status_code == 401
    assert client.delete(path[:-4], headers=bearer(made["admin"])).status_code == 404


def test_a_session_ends_with_its_time(core: Core, client: TestClient, idp: providers.Provider):
    token = sign_in(client, job(idp)).json()["token"]
    row = next(row for row in core.rows("sessions") if row["source"] == "trust:shop")
    assert row["expires_at"] - row["created_at"] == timedelta(minutes=15)
    with core.store.write() as tx:
        tx.connection.execute(tx.tables.sessions.update().values(expires_at=long_ago()))
    assert client.get("/api/v1/auth", headers=bearer(token)).status_code == 401


def test_a_job_is_its_rule_and_repository_and_acts_for_a_person(
    client: TestClient, idp: providers.Provider
):
    who = sign_in(client, job(idp, repository="renamed/shop")).json()
    assert (who["name"], who["kind"]) == ("trust:shop#5", "service")
    assert (who["login"], who["acts_for"]) == (None, "bob")
    assert who["grants"][0]["applications"] == ["shop"]
    stranger = sign_in(client, job(idp, actor_id="43")).json()
    assert stranger["acts_for"] is None


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"aud": "https://other.example"}, "audience"),
        ({"ref": "refs/heads/other"}, "no rule"),
        ({"repository_id": "6"}, "no rule"),
        ({"event_name": "pull_request"}, "pull requests"),
        ({"event_name": "pull_request_target"}, "pull requests"),
        ({"ref": "refs/pull/1/merge"}, "pull requests"),
        ({"exp": 1}, "expired"),
        ({"iss": "https://token.actions.githubusercontent.com"}, "trusts its issuer"),
        ({"sub": None}, "no subject"),
    ],
)
def test_a_job_that_is_not_trusted_is_told_why(
    core: Core, client: TestClient, idp: providers.Provider, more: dict[str, Any], why: str
):
    answer = sign_in(client, job(idp, **more))
    assert answer.status_code == 401
    assert why in answer.json()["detail"]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        # GitLab, GitHub and Kubernetes sign for whatever audience a job asks for.
        ({"project_id": "7", "pipeline_id": "9"}, "no rule"),
        ({"repository_id": "7", "job_workflow_ref": "o/r/.github/workflows/x.yml@main"}, "no rule"),
        ({"kubernetes.io": {"namespace": "shop"}}, "no rule"),
        ({"azp": "another-client"}, "azp"),
    ],
)
def test_a_job_is_no_person_whatever_audience_it_asks_for(
    core: Core, client: TestClient, idp: providers.Provider, more: dict[str, Any], why: str
):
    """Else whoever may start one would be a second person, in the groups the token names."""
    before = len(core.rows("sessions"))
    answer = sign_in(client, idp.token(aud="manent", sub="p:7", groups=["dev"], **more))
    assert answer.status_code == 401
    assert why in answer.json()["detail"]
    assert len(core.rows("sessions")) == before


def test_jobs_and_people_may_share_an_audience(
    core: Core, client: TestClient, idp: providers.Provider, configured: Access
):
    rule = replace(configured.trust["shop"], audience="manent")
    core.configure(access=replace(configured, trust={"shop": rule}))
    assert sign_in(client, job(idp, aud="manent")).json()["source"] == "trust:shop"
    assert sign_in(client, idp.token(aud="manent", azp="manent")).json()["source"] == "oidc:company"


def test_a_sign_in_ends_where_another_issuer_takes_the_place_of_its_own(
    client: TestClient, core: Core, idp: providers.Provider, configured: Access
):
    """The name of a provider is no promise: who signed in was somebody of the issuer of then."""
    token = sign_in(client, idp.token(sub="11")).json()["token"]
    assert client.get("/api/v1/auth", headers=bearer(token)).status_code == 200
    other = replace(configured.oidc["company"], issuer="https://other.example")
    core.configure(access=replace(configured, oidc={"company": other}))
    assert client.get("/api/v1/auth", headers=bearer(token)).status_code == 401


def test_a_token_has_no_right_that_its_groups_are_denied(
    core: Core, client: TestClient, configured: Access
):
    """Deny wins over a role of one's own, and for a group one is listed in as for a token's."""
    out = (Grant("deployer", ("shop",), deny=True),)
    people = {"cy": Person(groups=("out",), principals=("cy-laptop",), ids={})}
    core.configure(access=replace(configured, roles={"out": out}, people=people))
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


def test_a_token_that_somebody_else_signed_is_refused(client: TestClient, idp: providers.Provider):
    said = signer.claims(iss=idp.issuer, aud="manent")
    forged = [
        signer.sign(said, kty="RSA"),
        signer.sign(said, kty="RSA", header={"kid": "e"}),
        signer.with_shared_secret(said, signer.key("EC").as_pem(private=False), kid="e"),
        f"{signer.part({'alg': 'none'})}.{signer.part(said)}.",
        idp.token(aud="manent")[:-4] + "AAAA",
    ]
    for token in forged:
        assert sign_in(client, token).status_code == 401


def test_an_identity_token_is_good_for_one_session(client: TestClient, idp: providers.Provider):
    assertion = idp.token(sub="9")
    assert sign_in(client, assertion).status_code == 201
    again = sign_in(client, assertion)
    assert again.status_code == 401
    assert "used before" in again.json()["detail"]


def test_where_two_rules_would_do_one_is_chosen(
    core: Core, client: TestClient, idp: providers.Provider, configured: Access
):
    second = replace(configured.trust["shop"], role="viewer")
    core.configure(access=replace(configured, trust={**configured.trust, "second": second}))
    refused = sign_in(client, job(idp))
    assert (refused.status_code, refused.json()["code"]) == (422, "trust_ambiguous")
    chosen = sign_in(client, job(idp), rule="second").json()
    assert chosen["grants"][0]["role"] == "viewer"


def test_a_token_is_made_used_replaced_and_revoked(core: Core, client: TestClient):
    client.app.state.refusals = refuse.Refusals(core.store)  # type: ignore[attr-defined]
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


def test_the_command_line_signs_people_and_jobs_in(
    core: Core, idp: providers.Provider, tmp_path: Any
):
    """B149: `manent login` keeps a session, `auth logout` ends it, and without one it is exit 4."""
    server = Listener(create_app(core.desk), "127.0.0.1", 0)
    server.start()
    environ = {"HOME": str(tmp_path), "MANENT_URL": server.url}
    try:
        idp.said = {"groups": ["dev"], "sub": "1"}
        code, out, err = manent("login", environ=environ)
        assert code == 0, err
        assert "ABCD-EFGH" in err
        assert "ann" in out
        code, out, err = manent("auth", "status", environ=environ)
        assert (code, "deployer of shop" in out) == (0, True), err
        assert manent("auth", "logout", environ=environ)[0] == 0
        assert manent("auth", "status", environ=environ)[0] == 4
        assert manent("deploy", "shop", "staging", "1", environ=environ)[0] == 4
        idp.refuses = "access_denied"
        code, out, err = manent("login", environ=environ)
        assert (code, "access_denied" in err) == (4, True)
        idp.said = {}
        environ |= {
            "ACTIONS_ID_TOKEN_REQUEST_URL": f"{idp.issuer}/job?x=1",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN": JOB_SECRET,
        }
        code, out, err = manent("login", "--oidc", "--audience", AUDIENCE, environ=environ)
        assert (code, "trust:shop#5" in out) == (0, True), err
        (kept,) = load_contexts(environ).contexts.values()
        assert (kept.token or "").startswith("mnt_c_")
        gitlab = {"HOME": str(tmp_path), "MANENT_URL": server.url, "ID_TOKEN": job(idp)}
        assert manent("login", "--oidc", environ=gitlab)[0] == 0
        assert (
            manent("login", "--oidc", environ={"HOME": str(tmp_path), "MANENT_URL": server.url})[0]
            == 2
        )
    finally:
        server.stop(timedelta(seconds=1))


def manent(*arguments: str, environ: dict[str, str]) -> tuple[int, str, str]:
    """One run of the command line in this process, which waits for nothing."""
    out, err = io.StringIO(), io.StringIO()
    pace = Pace(sleep=lambda _: None)
    code = run(list(arguments), environ=environ, stdout=out, stderr=err, pace=pace)
    return code, out.getvalue(), err.getvalue()


def test_a_stream_ends_as_soon_as_its_token_is_revoked(core: Core, client: TestClient):
    """Not half a minute later, when the stream would have looked again."""
    made = admin(core, client, role="viewer")
    server = Listener(create_app(core.desk), "127.0.0.1", 0)
    server.start()
    try:
        headers = bearer(made["token"]) | {"Accept": "text/event-stream"}
        with requests.get(
            f"{server.url}/api/v1/events", headers=headers, stream=True, timeout=10
        ) as stream:
            lines = stream.iter_lines()
            assert next(lines) == b"retry: 1000"
            client.delete(f"/api/v1/tokens/{made['id']}", headers=bearer(made["admin"]))
            began = time.monotonic()
            rest = b"\n".join(lines)
        assert time.monotonic() - began < 5
        assert b'"code": "not_signed_in"' in rest
    finally:
        server.stop(timedelta(seconds=1))
