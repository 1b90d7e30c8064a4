"""How much one caller and one address may ask, and how large a head may be."""

import socket
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from anyio.from_thread import BlockingPortal
from fastapi import FastAPI
from starlette.testclient import TestClient

from manent_server.api import wire
from manent_server.api.envelope import HEADERS
from manent_server.api.pace import Buckets, _neighbour
from manent_server.api.server import Front, Listener
from manent_server.settings.values import Rates
from tests.integration.api.conftest import ADMIN, VIEWER, FakeUsecases, make_app


class Clock:
    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def client(fake: FakeUsecases, portal: BlockingPortal, headers: Any = None, **rates: int) -> Any:
    limits = {"per_caller": 0, "public": 0, "failed_sign_ins": 0, **rates}
    made = TestClient(make_app(fake, rates=Rates(**limits)), headers=dict(headers or {}))
    made.portal = portal
    return made


def test_a_bucket_fills_again_by_the_clock() -> None:
    clock = Clock()
    buckets = Buckets(2.0, 3.0, clock=clock)
    assert [buckets.take("ann") for _ in range(4)] == [0, 0, 0, 0.5]
    assert buckets.take("bob") == 0
    clock.at = 0.5
    assert [buckets.take("ann"), buckets.take("ann")] == [0, 0.5]
    clock.at = 1000.0
    assert [buckets.take("ann") for _ in range(4)] == [0, 0, 0, 0.5]


def test_only_so_many_are_remembered() -> None:
    buckets = Buckets(1.0, 5.0, most=3)
    for name in "abcdefg":
        buckets.take(name)
    assert len(buckets) == 3


def test_a_caller_that_asks_too_much_is_told_when_to_come_back(
    fake: FakeUsecases, portal: BlockingPortal
) -> None:
    ann = client(fake, portal, ADMIN, per_caller=1)
    answers = [ann.get("/api/v1/deploys") for _ in range(11)]
    assert [one.status_code for one in answers] == [200] * 10 + [429]
    refused = answers[-1]
    assert refused.json()["code"] == "too_many_requests"
    assert "ann asks too much" in refused.json()["detail"]
    assert int(refused.headers["retry-after"]) == 1
    assert refused.headers["x-request-id"] == refused.json()["request_id"]
    assert ann.get("/api/v1/deploys", headers=VIEWER).status_code == 200
    assert len([one for one in fake.asked if one[0] == "deploys"]) == 11


def test_an_address_whose_sign_ins_fail_is_not_heard(
    fake: FakeUsecases, portal: BlockingPortal
) -> None:
    """What was good before is heard still: neighbours behind one address do not suffer."""
    known = client(fake, portal, ADMIN, failed_sign_ins=3)
    assert known.get("/api/v1/deploys").status_code == 200
    wrong = {"Authorization": "Bearer wrong"}
    codes = [known.get("/api/v1/deploys", headers=wrong).status_code for _ in range(5)]
    assert codes == [401, 401, 401, 429, 429]
    assert known.get("/api/v1/deploys").status_code == 200
    assert known.get("/api/v1/deploys", headers=VIEWER).status_code == 429
    assert known.get("/livez").status_code == 200
    del fake.tokens["admin-token"]
    assert known.get("/api/v1/deploys").status_code == 401
    assert known.get("/api/v1/deploys").status_code == 429


def test_a_chat_is_heard_beside_neighbours_who_fail_and_told_when_it_asks_too_much(
    fake: FakeUsecases, portal: BlockingPortal
) -> None:
    """By the status, and in words for a bridge; the name of no chat is told."""
    anybody = client(fake, portal, failed_sign_ins=1, public=1)
    wrong = {"Authorization": "Bearer wrong"}
    codes = [anybody.get("/api/v1/deploys", headers=wrong).status_code for _ in range(2)]
    assert codes == [401, 429]
    answers = [anybody.post(f"/webhooks/{n}") for n in range(11)]
    assert 429 not in {one.status_code for one in answers[:10]}
    body = answers[10].json()
    assert (answers[10].status_code, body["ok"], body["code"]) == (429, False, "too_many_requests")
    assert "nothing was done" in body["message"]
    assert int(answers[10].headers["retry-after"]) >= 1


def test_public_routes_are_limited_by_address_but_for_livez(
    fake: FakeUsecases, portal: BlockingPortal
) -> None:
    anybody = client(fake, portal, public=1)
    codes = [anybody.get("/readyz").status_code for _ in range(11)]
    assert codes == [200] * 10 + [429]
    assert {anybody.get("/livez").status_code for _ in range(20)} == {200}
    assert anybody.get("/api/v1/deploys", headers=ADMIN).status_code == 200


@pytest.mark.parametrize("where", ["header", "query"])
def test_a_head_that_is_too_large_is_refused_before_anything_is_asked(
    fake: FakeUsecases, portal: BlockingPortal, where: str
) -> None:
    long = "x" * 17 * 1024
    more = {"headers": {"X-Long": long}} if where == "header" else {"params": {"version": long}}
    answer = client(fake, portal, ADMIN).get("/api/v1/deploys", **more)
    assert (answer.status_code, answer.json()["code"]) == (431, "head_too_large")
    assert fake.asked == []


@pytest.mark.parametrize(
    ("host", "neighbour"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8::1", "2001:db8::/64"),
        ("2001:db8::ffff:1", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("testclient", "testclient"),
        (None, ""),
    ],
)
def test_an_address_is_whoever_has_it(host: str | None, neighbour: str) -> None:
    scope = {"client": (host, 1) if host else None}
    assert _neighbour(scope) == neighbour


@pytest.fixture
def listener(app: FastAPI) -> Iterator[Listener]:
    listener = Listener(app, "127.0.0.1", 0, front=Front(trusted_proxies=("127.0.0.1",)))
    listener.start()
    yield listener
    listener.stop(timedelta(seconds=1))


def raw(listener: Listener, sent: bytes, then: bytes = b"") -> tuple[bytes, float]:
    """All that comes back until the server closes, and how long that took.

    Args:
        listener: Of whom it is asked.
        sent: At once.
        then: After the first answer.
    """
    began, heard = time.monotonic(), b""
    with socket.create_connection((listener.host, listener.port), timeout=20) as connection:
        connection.sendall(sent)
        while part := connection.recv(65536):
            heard += part
            if then:
                connection.sendall(then)
                then = b""
    return heard, time.monotonic() - began


@pytest.mark.parametrize("sent", [b"what is this\r\n\r\n", b"GET / HTTP/1.1\r\nX: " + b"x" * 70000])
def test_what_is_no_http_is_refused_with_the_headers_of_every_answer(
    listener: Listener, sent: bytes
) -> None:
    heard, _ = raw(listener, sent)
    assert heard.startswith(b"HTTP/1.1 400 ")
    for name, value in HEADERS:
        assert name + b": " + value in heard


def test_a_head_that_does_not_come_whole_closes_its_connection(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "HEAD_SECONDS", 0.2)
    for sent in (b"", b"GET /livez HTTP/1.1\r\nHost:"):
        heard, took = raw(listener, sent)
        assert heard == b""
        assert 0.1 < took < 15
    heard, took = raw(listener, b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", b"GET /livez HT")
    assert heard.count(b"HTTP/1.1 200") == 1
    assert took < 4


def test_a_slow_answer_is_no_slow_head(
    listener: Listener, fake: FakeUsecases, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "HEAD_SECONDS", 0.1)
    fake.delay = 0.4
    body = b'{"application":"shop","environment":"production","version":"1"}'
    head = (
        f"POST /api/v1/deploys HTTP/1.1\r\nHost: x\r\nAuthorization: {ADMIN['Authorization']}\r\n"
    )
    head += (
        f"Content-Type: application/json\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
    )
    heard, _ = raw(listener, head.encode() + b"\r\n" + body)
    assert heard.startswith(b"HTTP/1.1 202")


def test_behind_trusted_proxies_each_client_has_its_own_limit(fake: FakeUsecases) -> None:
    rates = Rates(per_caller=0, public=0, failed_sign_ins=1)
    front = Front(trusted_proxies=("127.0.0.1",))
    listener = Listener(make_app(fake, rates=rates), "127.0.0.1", 0, front=front)
    listener.start()

    def code(client: str) -> bytes:
        head = (
            f"GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Forwarded-For: {client}\r\n\r\n"
        )
        return raw(listener, head.encode())[0][9:12]

    assert [code("203.0.113.7"), code("203.0.113.7"), code("198.51.100.2")] == [
        b"401",
        b"429",
        b"401",
    ]
    listener.stop(timedelta(seconds=1))
