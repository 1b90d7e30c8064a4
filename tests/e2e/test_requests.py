"""The API at the door: keys, bodies, pages, parameters, and who may do what."""

import concurrent.futures as cf
import json
import time
import uuid
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.rig.ledger import Ledger
from tests.rig.process import until
from tests.rig.serve import Config, Rig

pytestmark = pytest.mark.e2e

DEEP = 10_000
BODY = b'{"application": "shop", "environment": "staging", "version": "1", "reason": '
PLANTED = "planted-in-a-body"


def config(ledger: Ledger) -> Config:
    return {
        "environments": {"staging": {"concurrency": 20}},
        "applications": {name: ledger.application() for name in ("keys", "pages")},
    }


def as_caller(token: str, **more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", **more}


def deployed_count(rig: Rig, application: str) -> int:
    return len(rig.get("/deploys", application=application, limit=500)["items"])


def test_a_key_belongs_to_one_caller_and_one_path(shared: Rig) -> None:
    """B120: another principal's key is another key; two tokens of one name share it."""
    key = str(uuid.uuid4())
    body = {"application": "keys", "environment": "staging", "version": "1"}
    tokens = {
        "own": shared.token,
        "same name": shared.new_token("ci", "admin"),
        "other": shared.new_token("other", "admin"),
    }
    ids = {
        who: shared.http(
            "POST", "/deploys", json=body, headers=as_caller(token, **{"Idempotency-Key": key})
        ).json()["id"]
        for who, token in tokens.items()
    }
    assert ids["own"] == ids["same name"]
    assert ids["own"] != ids["other"]
    assert deployed_count(shared, "keys") == 2
    for deploy in set(ids.values()):
        shared.ended(deploy)
    again = shared.http("POST", "/deploys", json=body, headers={"Idempotency-Key": key})
    assert (again.status_code, again.json()["state"]) == (202, "SUCCESS")
    cancel = shared.http(
        "POST", "/rollbacks",
        json={"application": "keys", "environment": "staging", "reason": "same key"},
        headers={"Idempotency-Key": key},
    )  # fmt: skip
    assert cancel.json().get("code") != "idempotency_key_reused"
    assert cancel.json().get("id") not in ids.values()


def test_fields_in_another_order_are_the_same_body(shared: Rig) -> None:
    """B120: the same wish, written otherwise, is the same deploy."""
    headers = {"Idempotency-Key": str(uuid.uuid4()), "Content-Type": "application/json"}
    first = shared.http(
        "POST", "/deploys", headers=headers,
        content=b'{"application":"keys","environment":"staging","version":"3"}',
    )  # fmt: skip
    second = shared.http(
        "POST", "/deploys", headers=headers,
        content=b'{ "version": "3", "environment": "staging", "application": "keys" }',
    )  # fmt: skip
    assert first.json()["id"] == second.json()["id"]
    shared.ended(first.json()["id"])


def bodies() -> Iterator[tuple[str, bytes]]:
    yield "lone surrogate", BODY + b'"\\ud800"}'
    yield "surrogate in a name", b'{"application": "\\udfff", "environment": "a", "version": "1"}'
    yield "NaN", BODY + b"NaN}"
    yield "minus infinity", b'{"priority": -Infinity}'
    yield "number too large", b'{"sequence": 1e999}'
    yield "long integer", b'{"sequence": ' + b"9" * 6000 + b"}"
    yield "NUL", BODY + b'"a\\u0000b"}'
    yield "raw NUL", BODY + b'"a\x00b"}'
    yield "no UTF-8", BODY + b'"\xb2\xff\xfe"}'
    yield "UTF-16", '{"application": "shop"}'.encode("utf-16")
    yield "list", b"[]"
    yield "text", b'"shop"'
    yield "null", b"null"
    yield "unfinished", b"{"
    yield "empty", b""
    yield "trailing", b"{} {}"
    yield "duplicate key", b'{"version": "1", "version": "2"}'
    yield "deep list", BODY + b"[" * DEEP + b"]" * DEEP + b"}"
    yield "deep object", BODY + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}"
    yield "number as version", b'{"application": "shop", "environment": "staging", "version": 1.10}'
    yield "unknown field", b'{"application": "shop", "enviroment": "staging"}'
    yield "too large", BODY + b'"' + b"a" * (10 * 2**20) + b'"}'
    yield "planted", json.dumps({"application": {"token": PLANTED}, "version": [PLANTED]}).encode()


def test_what_cannot_be_read_is_refused_in_words(shared: Rig) -> None:
    """B122: 4xx with a problem body for every broken body; nothing is echoed or created."""
    before = deployed_count(shared, "shop")
    for what, content in bodies():
        answer = shared.http(
            "POST", "/deploys", content=content, headers={"Content-Type": "application/json"}
        )
        assert 400 <= answer.status_code < 500, (what, answer.status_code)
        assert answer.headers["content-type"] == "application/problem+json", what
        assert answer.json()["next"], what
        assert PLANTED not in answer.text, what
        assert len(answer.content) < 4096, what
    assert deployed_count(shared, "shop") == before
    assert PLANTED not in shared.logs()


@pytest.mark.parametrize("kind", ["text/plain", "application/xml", "multipart/form-data", ""])
def test_another_content_type_is_refused(shared: Rig, kind: str) -> None:
    """B122."""
    answer = shared.http("POST", "/deploys", content=BODY + b'"x"}', headers={"Content-Type": kind})
    assert (answer.status_code, answer.json()["code"]) == (415, "content_type_unknown")


def pages(rig: Rig, size: int, **query: Any) -> Iterator[list[str]]:
    cursor: dict[str, str] = {}
    while True:
        page = rig.get("/deploys", limit=size, **query, **cursor)
        yield [item["id"] for item in page["items"]]
        if page["next"] is None:
            return
        cursor = {"before": page["next"]}


def test_pages_skip_and_repeat_nothing_while_more_arrives(shared: Rig) -> None:
    """B123: each deploy that was there is on exactly one page, in one order."""
    lock = shared.http(
        "POST", "/locks", json={"application": "pages", "reason": "let them wait"}
    ).json()

    def ask(number: int) -> str:
        return str(shared.deploy(f"1.{number}", application="pages")["id"])

    with cf.ThreadPoolExecutor(8) as pool:
        known = set(pool.map(ask, range(60)))
        arriving = [pool.submit(ask, number) for number in range(100, 120)]
        seen: list[str] = []
        for page in pages(shared, 7, application="pages"):
            assert len(page) <= 7
            seen += page
        late = {one.result() for one in arriving}
    assert len(seen) == len(set(seen))
    assert known <= set(seen) <= known | late
    listed = [one for page in pages(shared, 7, application="pages") for one in page]
    assert set(listed) == known | late
    rows = shared.get("/deploys", application="pages", limit=500)["items"]
    order = [(row["requested_at"], row["id"]) for row in rows]
    assert order == sorted(order, reverse=True)
    with cf.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda one: shared.http("POST", f"/deploys/{one}/cancel", json={}), listed))
    shared.http("DELETE", f"/locks/{lock['id']}")


# A bad name is repeated, escaped; nothing else of a statement or its driver may show.
SQL_WORDS = ("select deploys", "from ", "where ", "sqlalchemy", "psycopg", "sqlite", "syntax")
HOSTILE = (
    "'", '"', "') OR 1=1 --", "1;SELECT pg_sleep(40)", "x' UNION SELECT 1,2,3 --",
    "(CASE WHEN (1=1) THEN id ELSE number END)", "%27%20OR%201", "\x00", "a,b", "\u02bc",
)  # fmt: skip


def test_parameters_are_a_closed_list_of_plain_values(shared: Rig) -> None:
    """B125: no parameter reaches SQL as text; refused at once and without a word of SQL."""
    for name in ("sort", "order", "since", "state", "outcome", "application", "environment",
                 "version", "before", "limit"):  # fmt: skip
        for value in HOSTILE:
            began = time.monotonic()
            answer = shared.http("GET", "/deploys", params={name: value})
            assert answer.status_code in (400, 422), (name, value)
            assert time.monotonic() - began < 20, (name, value)
            said = answer.text.lower()
            assert not any(word in said for word in SQL_WORDS), said


def mutating_routes(rig: Rig) -> list[tuple[str, str]]:
    paths = rig.http("GET", "/api/v1/openapi.json").json()["paths"]
    return [
        (method.upper(), path.replace("{address}", "abcdef").replace("{lock}", "abcdef"))
        for path, methods in paths.items()
        for method, operation in methods.items()
        if method in ("post", "put", "patch", "delete")
        # Signing in and out needs no right, one's own account of a chat that to read.
        if operation.get("x-right") not in (None, "public", "signed in", "read")
    ]


def test_a_viewer_reads_and_changes_nothing(shared: Rig) -> None:
    """Every route that changes anything answers 403 before it looks at the request."""
    shared.deployed("5", application="keys")
    viewer = as_caller(shared.new_token("guest", "viewer"))
    # Who may read may ask what a deploy would do: a plan creates nothing.
    routes = [one for one in mutating_routes(shared) if one != ("POST", "/api/v1/plans")]
    assert {path for _, path in routes} >= {"/api/v1/deploys", "/api/v1/rollbacks"}
    for method, path in routes:
        plain = path.replace("{", "").replace("}", "")
        answer = shared.http(method, plain, headers=viewer, json={})
        assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed"), path
        nobody = shared.http(method, plain, headers={"Authorization": "Bearer x"}, json={})
        assert nobody.status_code == 401, path
    for path in ("/deploys", "/inventory", "/environments", "/applications", "/locks", "/version"):
        assert shared.http("GET", path, headers=viewer).status_code == 200, path
    token = viewer["Authorization"].removeprefix("Bearer ")
    told = shared.cli(["deploy", "keys", "staging", "6"], environ={"MANENT_TOKEN": token})
    assert told.returncode == 4
    assert "guest may not deploy" in told.stderr


def status_for(rig: Rig, token: str) -> int:
    answer: httpx2.Response = rig.http("GET", "/deploys", headers=as_caller(token))
    return answer.status_code


def test_a_revoked_token_ends_at_once(shared: Rig) -> None:
    token = shared.new_token("leaver", "admin")
    assert status_for(shared, token) == 200
    listed = shared.server_cli(["token", "list"], check=True).stdout
    assert token not in listed
    (row,) = [line for line in listed.splitlines() if "leaver" in line]
    shared.server_cli(["token", "revoke", row.split()[0]], check=True)
    assert status_for(shared, token) == 401
    told = shared.cli(["list"], environ={"MANENT_TOKEN": token})
    assert told.returncode == 4


def test_a_token_expires(shared: Rig) -> None:
    made = shared.server_cli(
        ["token", "create", "temp", "--role", "admin", "--expires", "4s"], check=True
    )
    token = made.stdout.strip()
    until(lambda: status_for(shared, token) == 401, what="the token to expire")
    for wrong in (
        ["x", "--role", "root"],
        ["", "--role", "admin"],
        ["x", "--role=admin", "--expires=0s"],
    ):
        assert shared.server_cli(["token", "create", *wrong]).returncode == 2
