"""Signing in: tokens and their end, people by a provider, CI jobs by their own identity."""

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient

from manent_cli.pace import Pace
from manent_cli.profile import load_contexts
from manent_cli.running import run
from manent_server.api.app import create_app
from manent_server.api.server import Listener
from manent_server.domain.access import Grant
from manent_server.settings.values import Access, Person, Provider, Trust
from tests.integration.access.signing import admin, bearer
from tests.rig import provider as providers
from tests.rig import signer
from tests.rig.core import Core, long_ago
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


def sign_in(client: TestClient, assertion: str, **more: Any) -> Any:
    return client.post("/api/v1/auth/sessions", json={"assertion": assertion, **more})


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
    ends = [row for row in core.rows("audit") if row["action"] == "session.ended"]
    assert json.loads(ends[-1]["record"])["address"] == "testclient"
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
        ({"project_id": "7", "pipeline_id": "9"}, "of a job, by its claim pipeline_id"),
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
    # A program that has a client of its own at the provider, and no claim that only jobs have.
    nightly = replace(rule, claims={"azp": ("nightly",)})
    core.configure(access=replace(configured, trust={"nightly": nightly}))
    signed = sign_in(client, idp.token(aud="manent", azp="nightly"))
    assert signed.json()["source"] == "trust:nightly"


def test_a_sign_in_ends_where_another_issuer_takes_the_place_of_its_own(
    client: TestClient, core: Core, idp: providers.Provider, configured: Access
):
    """The name of a provider is no promise: who signed in was somebody of the issuer of then."""
    token = sign_in(client, idp.token(sub="11")).json()["token"]
    assert client.get("/api/v1/auth", headers=bearer(token)).status_code == 200
    other = replace(configured.oidc["company"], issuer="https://other.example")
    core.configure(access=replace(configured, oidc={"company": other}))
    assert client.get("/api/v1/auth", headers=bearer(token)).status_code == 401


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
