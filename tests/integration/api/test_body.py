"""Whatever is sent as a body, the answer is a JSON problem, never a fault of ours."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from manent_server.api.body import MAX_DEPTH, digest, read_object
from manent_server.domain.errors import Malformed
from tests.integration.api.conftest import BODY_LIMIT, FakeUsecases

JSON = {"Content-Type": "application/json"}
GOOD = {"application": "shop", "environment": "production", "version": "1.10"}
KEYS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00"))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=20,
)


def nested(depth: int) -> bytes:
    return b'{"a":' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"


@pytest.mark.parametrize(
    "raw",
    [
        b"[]",
        b"{",
        b'"text"',
        b"null",
        b"1",
        b"{} {}",
        b"{'a': 1}",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": -Infinity}',
        b'{"a": 1e999}',
        b'{"a": -1e999}',
        b'{"a": ' + b"9" * 5000 + b"}",
        b'{"a": "\\ud800"}',
        b'{"\\udfff": 1}',
        b'{"a": "\\u0000"}',
        b'{"a": "\x00"}',
        b'{"a\\u0000b": 1}',
        b'{"a": 1, "a": 2}',
        b'{"x": {"a": 1, "a": 1}}',
        b"\xff\xfe{}",
        b'{"a": "\xed\xa0\x80"}',
        b"\xef\xbb\xbf{}",
        b"[" * 10_000,
        b'{"a":' * 10_000,
        nested(MAX_DEPTH + 1),
    ],
)
def test_a_body_that_cannot_be_read_is_a_400(
    client: TestClient, fake: FakeUsecases, raw: bytes
) -> None:
    """B122: lone surrogates, NaN, 1e999, NUL, [], '{', depth 10,000, duplicate keys."""
    answer = client.post("/api/v1/deploys", content=raw, headers=JSON)

    assert answer.status_code == 400
    assert answer.json()["code"] == "malformed"
    assert answer.json()["next"]
    assert fake.asked == []


def test_nesting_up_to_the_limit_is_read() -> None:
    assert list(read_object(nested(MAX_DEPTH))) == ["a"]


@pytest.mark.parametrize("raw", [b"", b"  \n"])
def test_a_body_that_must_be_there_is_missed(client: TestClient, raw: bytes) -> None:
    answer = client.post("/api/v1/deploys", content=raw)

    assert answer.status_code == 400
    assert "empty" in answer.json()["detail"]


@given(VALUES)
def test_what_json_writes_is_read_back(value: Any) -> None:
    assert read_object(json.dumps({"value": value}).encode()) == {"value": value}


@given(st.binary(max_size=200) | st.text().map(lambda text: text.encode("utf-8", "replace")))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    """B122: reading a body has one way to fail."""
    try:
        assert isinstance(read_object(raw), dict)
    except Malformed as refused:
        assert refused.next  # noqa: PT017 - a body that is read is as good


@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_the_digest_does_not_depend_on_the_order_of_keys(value: dict[str, Any]) -> None:
    """B120: the same body is the same request however it is written."""
    again = dict(reversed(value.items()))

    assert digest(value) == digest(again)
    assert digest({**value, "one more": 1}) != digest(value) or "one more" in value


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "multipart/form-data; boundary=x"},
        {"Content-Type": "application/json; charset=utf-16"},
        {"Content-Type": "application/jsonp"},
        {"Content-Type": ""},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
    ],
)
def test_a_body_that_is_not_declared_as_json_is_a_415(
    client: TestClient, headers: dict[str, str]
) -> None:
    """B122: wrong content type."""
    answer = client.post("/api/v1/deploys", content=json.dumps(GOOD), headers=headers)

    assert answer.status_code == 415
    assert answer.json()["code"] == "content_type_unknown"


@pytest.mark.parametrize(
    "content_type", ["application/json", "Application/JSON; charset=UTF-8", "application/json;"]
)
def test_json_in_utf_8_is_read(client: TestClient, content_type: str) -> None:
    answer = client.post(
        "/api/v1/deploys", content=json.dumps(GOOD), headers={"Content-Type": content_type}
    )

    assert answer.status_code == 202


def test_a_body_over_the_limit_is_a_413(client: TestClient, fake: FakeUsecases) -> None:
    """B122: a body of 10 MB."""
    raw = json.dumps({**GOOD, "reason": "x" * 10_000_000})

    answer = client.post("/api/v1/deploys", content=raw, headers=JSON)

    assert answer.status_code == 413
    assert str(BODY_LIMIT) in answer.json()["detail"]
    assert fake.asked == []


def test_a_body_that_hides_its_length_is_counted(client: TestClient) -> None:
    pieces = (b" " * 1024 for _ in range(BODY_LIMIT // 1024 + 1))

    assert client.post("/api/v1/deploys", content=pieces, headers=JSON).status_code == 413


def test_a_sender_that_asks_first_is_refused_at_once(client: TestClient) -> None:
    headers = {**JSON, "Expect": "100-continue", "Content-Length": str(BODY_LIMIT + 1)}

    answer = client.post("/api/v1/deploys", content=b"{}", headers=headers)

    assert answer.status_code == 413


@pytest.mark.parametrize(
    ("change", "path", "words"),
    [
        ({"version": 1.10}, "version", "quote it"),
        ({"version": 72225}, "version", "quote it"),
        ({"version": True}, "version", "quote it"),
        ({"version": ["1"]}, "version", "text"),
        ({"application": None}, "application", "text"),
        ({"kind": "rollback"}, "kind", "'deploy' or 'redeploy'"),
        ({"priority": "1"}, "priority", "a whole number"),
        ({"priority": 1.5}, "priority", "a whole number"),
        ({"priority": -1}, "priority", "at least 0"),
        ({"sequence": 2**63}, "sequence", "at most"),
        ({"targets": "web-1"}, "targets", "a list"),
        ({"targets": []}, "targets", "fewer than 1"),
        ({"targets": ["web-1", 2]}, "targets.1", "quote it"),
        ({"override": ["outdated"] * 21}, "override", "more than 20"),
        ({"override": ["stop"]}, "override.0", "'outdated'"),
        ({"reason": ""}, "reason", "shorter than 1"),
        ({"reason": "x" * 2001}, "reason", "longer than 2000"),
        ({"links": {"ci": "javascript:alert(1)"}}, "links.ci", "does not match"),
        ({"links": {"ci": "http://x/\u2028"}}, "links.ci", "does not match"),
        ({"links": {"cii": "http://x"}}, "links.cii", "not known"),
        ({"links": []}, "links", "an object"),
        ({"changes": [{"id": "1", "author": "ann"}]}, "changes.0.at", "required"),
        ({"not_before": "tomorrow"}, "not_before", "an instant"),
        ({"not_before": 1767225600}, "not_before", "an instant"),
        ({"not_before": "2027-01-31T18:00:00"}, "not_before", "an instant"),
        ({"not_before": "2027-02-30T18:00:00Z"}, "not_before", "exists"),
        ({"not_before": "0001-01-01T00:00:00+14:00"}, "not_before", "exists"),
        ({"not_before": "٢٠٢٧-01-31T18:00:00Z"}, "not_before", "an instant"),
        ({"versoin": "1"}, "versoin", "did you mean version?"),
        ({"zzz": 1}, "zzz", "known are"),
        ({"": 1}, "?", "known are"),
        ({"sha256": ""}, "sha256", "does not match"),
        ({"environment": ""}, "environment", "shorter than 1"),
        ({"reason": " \t\n"}, "reason", "a visible character"),
        ({"reason": "\u200b\u2066\u061c"}, "reason", "a visible character"),
        ({"reason": "\x1b[2J"}, "reason", "no control characters"),
    ],
)
def test_a_field_that_is_not_acceptable_is_named(
    client: TestClient, fake: FakeUsecases, change: dict[str, Any], path: str, words: str
) -> None:
    """B114, B116: no number becomes a version, no unknown key is ignored."""
    answer = client.post("/api/v1/deploys", json={**GOOD, **change})

    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["path"] == path
    assert words in error["message"]
    assert fake.asked == []


def test_nothing_of_what_was_sent_is_repeated(client: TestClient) -> None:
    """B122: no secret is echoed."""
    secret = "planted-in-a-field"  # noqa: S105 - planted
    body = {
        "application": [secret],
        "kind": secret,
        "priority": secret,
        "not_before": secret,
        "links": {"ci": secret, f"{secret} as a key": 1},
        "changes": [secret],
        f"{secret}!": secret,
    }

    answer = client.post("/api/v1/deploys", json=body)

    assert answer.status_code == 422
    assert len(answer.json()["errors"]) > 6
    assert secret not in answer.text


def test_many_findings_are_cut(client: TestClient) -> None:
    answer = client.post("/api/v1/deploys", json={f"key{number}": 1 for number in range(1000)})

    assert answer.status_code == 422
    assert len(answer.json()["errors"]) == 50
    assert len(answer.content) < 30_000
