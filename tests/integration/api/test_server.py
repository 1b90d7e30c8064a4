"""Listeners on real sockets."""

import http.client
import io
import json
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi import FastAPI

from manent_server.api import route
from manent_server.api.server import Front, Listener
from manent_server.domain.errors import ConfigurationError, StartRefused
from tests.integration.api.conftest import ADMIN, FakeUsecases, line
from tests.rig.process import until

GOOD = json.dumps({"application": "shop", "environment": "production", "version": "1"}).encode()
JSON = {"Content-Type": "application/json"}
OPENSSL = shutil.which("openssl") or "openssl"
SECOND = timedelta(seconds=1)


@pytest.fixture
def listener(app: FastAPI) -> Iterator[Listener]:
    listener = Listener(app, "127.0.0.1", 0)
    listener.start()
    yield listener
    listener.stop(SECOND)


@dataclass(frozen=True)
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes


def connect(listener: Listener) -> http.client.HTTPConnection:
    return http.client.HTTPConnection(listener.host, listener.port, timeout=20)


def answer_of(connection: http.client.HTTPConnection) -> Answer:
    with closing(connection), connection.getresponse() as response:
        return Answer(response.status, response.headers, response.read())


def ask(
    listener: Listener, method: str, path: str, *, body: bytes | None = None, **headers: str
) -> Answer:
    connection = connect(listener)
    connection.request(method, path, body, {**ADMIN, **headers})
    return answer_of(connection)


def test_a_free_port_is_known_before_the_start(app: FastAPI) -> None:
    listener = Listener(app, "127.0.0.1", 0)

    assert listener.port > 0
    assert listener.url == f"http://127.0.0.1:{listener.port}"
    listener.stop(SECOND)


def test_a_taken_port_names_the_key(app: FastAPI, listener: Listener) -> None:
    with pytest.raises(StartRefused, match=r"server\.metrics_listen: 127\.0\.0\.1:\d+ is taken"):
        Listener(app, "127.0.0.1", listener.port, key="server.metrics_listen")


def test_an_address_that_is_none_names_the_key(app: FastAPI) -> None:
    with pytest.raises(ConfigurationError, match=r"server\.listen"):
        Listener(app, "192.0.2.1", 0)


def test_answers_do_not_say_what_serves_them(listener: Listener) -> None:
    answer = ask(listener, "GET", "/livez")

    assert answer.status == 200
    assert answer.headers["server"] is None


def test_a_connection_kept_open_gets_each_answer_at_once(listener: Listener) -> None:
    """Where the system holds a second write back, the body of every answer is 40 ms late."""
    connection = connect(listener)
    took = []
    with closing(connection):
        for _ in range(20):
            began = time.monotonic()
            connection.request("GET", "/livez")
            connection.getresponse().read()
            took.append(time.monotonic() - began)

    assert min(took[5:]) < 0.03


def test_a_body_that_ends_in_two_ways_is_refused_with_all_that_follows(
    listener: Listener, fake: FakeUsecases
) -> None:
    """Behind a proxy that goes by the length, the rest would be the request of somebody else."""
    head = "POST /api/v1/deploys HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in ADMIN.items())
    hidden = "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"
    body = f"{len(GOOD):x}\r\n{GOOD.decode()}\r\n0\r\n\r\n{hidden}"
    both = f"Content-Length: {len(body)}\r\nTransfer-Encoding: chunked\r\n\r\n"

    with socket.create_connection((listener.host, listener.port), timeout=20) as connection:
        connection.sendall((head + both + body).encode())
        told = b"".join(iter(lambda: connection.recv(65536), b""))

    assert told.startswith(b"HTTP/1.1 400")
    assert told.count(b"HTTP/1.1") == 1
    assert fake.asked == []


def test_a_sender_of_ten_megabytes_gets_to_read_the_refusal(listener: Listener) -> None:
    """B122: a 413 with a problem body, not a broken connection."""
    body = b" " * 10_000_000

    answer = ask(listener, "POST", "/api/v1/deploys", body=body, **JSON)

    assert answer.status == 413
    assert json.loads(answer.body)["code"] == "body_too_large"


def test_a_body_that_takes_too_long_is_a_408(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(route, "BODY_SECONDS", 0.1)
    connection = connect(listener)
    connection.putrequest("POST", "/api/v1/deploys")
    for name, value in {**ADMIN, "Content-Length": "100"}.items():
        connection.putheader(name, value)
    connection.endheaders(b"{")

    answer = answer_of(connection)

    assert answer.status == 408
    assert json.loads(answer.body)["code"] == "body_slow"


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("a%252Fb", "a%2Fb"),
        ("shop%2Fproduction%2312", "shop/production#12"),
        ("%2e%2e%2f%2e%2e%2fetc", None),
    ],
)
def test_a_path_is_decoded_once(
    listener: Listener, fake: FakeUsecases, path: str, address: str | None
) -> None:
    """B112: an encoded slash is data, an encoded percent sign stays one."""
    answer = ask(listener, "GET", f"/api/v1/deploys/{path}")

    assert answer.status == (404 if address is None else 200)
    assert [asked[1] for asked in fake.asked] == ([] if address is None else [(address,)])


@pytest.mark.parametrize(
    ("trusted", "client"), [((), "127.0.0.1"), (("127.0.0.1",), "203.0.113.7")]
)
def test_forwarded_addresses_are_believed_from_trusted_proxies_only(
    app: FastAPI, written: io.StringIO, trusted: tuple[str, ...], client: str
) -> None:
    listener = Listener(app, "127.0.0.1", 0, front=Front(trusted_proxies=trusted))
    listener.start()
    ask(listener, "GET", "/nothing", **{"X-Forwarded-For": "203.0.113.7"})
    listener.stop(SECOND)

    (record,) = [json.loads(text) for text in written.getvalue().splitlines()]
    assert record["client"] == client


def test_tls_is_spoken_with_a_certificate(app: FastAPI, tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        [OPENSSL, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    listener = Listener(app, "127.0.0.1", 0, front=Front(certificate, key))
    listener.start()
    context = ssl.create_default_context(cafile=str(certificate))
    connection = http.client.HTTPSConnection("127.0.0.1", listener.port, context=context)
    connection.request("GET", "/livez")

    assert listener.url.startswith("https://")
    assert answer_of(connection).body == b'{"alive":true}'
    listener.stop(SECOND)


def test_a_certificate_that_cannot_be_used_names_the_key(app: FastAPI, tmp_path: Path) -> None:
    bad = tmp_path / "bad.pem"
    bad.write_text("no certificate")

    with pytest.raises(ConfigurationError, match=r"server\.tls"):
        Listener(app, "127.0.0.1", 0, front=Front(bad, bad))
    with pytest.raises(ConfigurationError, match=r"server\.tls"):
        Listener(app, "127.0.0.1", 0, front=Front(tmp_path / "missing.pem", bad))


def test_a_request_that_runs_is_finished_and_a_watcher_sent_away(
    app: FastAPI, fake: FakeUsecases
) -> None:
    listener = Listener(app, "127.0.0.1", 0)
    listener.start()
    fake.has_ended = False
    watcher = watch(listener)
    assert b"200 OK" in watcher.recv(4096)
    fake.delay = 0.5
    connection = connect(listener)
    connection.request(
        "POST", "/api/v1/deploys", GOOD, {**ADMIN, "Content-Type": "application/json"}
    )
    until(lambda: "submit" in [name for name, *_ in fake.asked], what="the request to run")
    began = time.monotonic()

    listener.stop(timedelta(seconds=10))

    assert answer_of(connection).status == 202
    assert time.monotonic() - began < 9
    watcher.settimeout(20)
    while watcher.recv(4096):
        pass
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((listener.host, listener.port))
    watcher.close()


def test_two_hundred_watchers_do_not_slow_the_api_down(
    listener: Listener, fake: FakeUsecases
) -> None:
    """B103: a page that follows a log costs a few threads, however many there are."""
    fake.has_ended = False
    fake.lines = [line(1)]
    watchers = [watch(listener) for _ in range(200)]
    for watcher in watchers:
        watcher.settimeout(20)
        assert b"200 OK" in watcher.recv(4096)
    threads = threading.active_count()
    slowest = 0.0
    for _ in range(20):
        began = time.monotonic()
        assert ask(listener, "GET", "/api/v1/deploys").status == 200
        slowest = max(slowest, time.monotonic() - began)

    assert slowest < 5
    assert threads < 60
    for watcher in watchers:
        watcher.close()


def watch(listener: Listener) -> socket.socket:
    opened = socket.create_connection((listener.host, listener.port))
    opened.sendall(
        b"GET /api/v1/deploys/0123456/logs HTTP/1.1\r\nHost: x\r\n"
        b"Authorization: Bearer admin-token\r\nAccept: text/event-stream\r\n\r\n"
    )
    return opened
