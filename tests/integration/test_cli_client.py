"""The HTTP client itself: what it sends where, and what it makes of an answer."""

import json
import socket
import ssl
import threading
from pathlib import Path

import pytest

from manent_cli.client import Client, masked, segment
from manent_cli.errors import BadUsage, Problem, Strange, Unreachable
from tests.rig.fake_api import FakeApi
from tests.rig.fake_http import TOKEN, Refusal, problem

CERTIFICATE = Path(__file__).parent.parent / "rig" / "localhost.pem"


@pytest.fixture
def api():
    with FakeApi() as api:
        yield api


@pytest.fixture
def client(api):
    return Client(api.url, TOKEN)


def test_answers_are_parsed_and_empty_ones_are_none(api, client):
    api.locks.append({"id": "lock-0"})
    assert client.get("/locks") == {"items": [{"id": "lock-0"}], "next": None}
    assert client.delete("/locks/lock-0") == {"id": "lock-0"}
    api.refusals.append(Refusal("DELETE", "/locks", 204, ""))
    assert client.delete("/locks/lock-0") is None


def test_a_request_says_who_asks_and_what_it_wants(api, client):
    client.post("/locks", {"reason": "é"}, key="k-1")
    [seen] = api.seen
    assert seen.body == {"reason": "é"}
    assert seen.headers["authorization"] == f"Bearer {TOKEN}"
    assert seen.headers["idempotency-key"] == "k-1"
    assert seen.headers["content-type"] == "application/json"
    assert seen.headers["user-agent"].startswith("manent-cli/")


def test_without_a_token_no_header_is_sent(api):
    with pytest.raises(Problem):
        Client(api.url).get("/locks")
    assert "authorization" not in api.seen[0].headers


def test_a_query_leaves_out_what_is_none_and_repeats_lists(api, client):
    client.get("/deploys", {"state": ["A", "B"], "before": None, "version": "1 0&x=y"})
    assert api.seen[0].query == {"state": ["A", "B"], "version": ["1 0&x=y"]}


def test_a_path_before_the_api_is_kept(api):
    with pytest.raises(Problem):
        Client(f"{api.url}/manent/", TOKEN).get("/locks")
    assert api.seen[0].path == "/manent/api/v1/locks"


def test_a_problem_carries_its_fields(api, client):
    body = problem(409, "locked", errors=[{"path": "a", "message": "b"}], lock="lock-0")
    api.refusals.append(Refusal("GET", "/locks", 409, body, headers={"Retry-After": "7"}))
    with pytest.raises(Problem) as refused:
        client.get("/locks")
    error = refused.value
    assert (error.status, error.code, error.what) == (409, "locked", "a detail of locked")
    assert (error.next, error.request_id) == ("do this about locked", "request-1")
    assert (error.retry_after, error.fields["lock"], error.exit_code) == (7.0, "lock-0", 5)


@pytest.mark.parametrize("body", ["<html>", "", "[]", "null", '{"detail": 7}', '{"errors": [1]}'])
def test_a_refusal_in_no_known_words_is_still_told(api, client, body):
    headers = {"X-Request-ID": "from-header", "Retry-After": "soon"}
    api.refusals.append(Refusal("GET", "/locks", 502, body, headers=headers))
    with pytest.raises(Problem) as refused:
        client.get("/locks")
    assert "502" in refused.value.what
    assert refused.value.code == "http_502"
    assert refused.value.request_id == "from-header"
    assert refused.value.retry_after is None


def test_an_answer_that_is_no_json_is_strange(api, client):
    api.refusals.append(Refusal("GET", "/locks", 200, "<html>sign in</html>"))
    with pytest.raises(Strange, match="does not answer like a manent server"):
        client.get("/locks")


@pytest.mark.parametrize(
    "url",
    ["", "manent.example", "ftp://manent.example", "http://", "http://x:99999", "http://x:port",
     "http://x/?a=b", "http://x/#a", "http://user:hunter2@x", "user:hunter2@x", "http://[::1",
     "http://user:hunter2@[::1"],
)  # fmt: skip
def test_what_is_no_address_is_refused_without_its_credentials(url):
    with pytest.raises(BadUsage) as refused:
        Client(url)
    assert "hunter2" not in json.dumps(refused.value.body())


def test_credentials_are_masked_wherever_a_url_is_shown():
    assert masked("https://u:p@x/y") == "https://***@x/y"
    assert masked("u:p@x") == "***@x"
    assert masked("https://x/y") == "https://x/y"
    assert TOKEN not in repr(Client("http://x", TOKEN))


def test_a_refused_token_is_named_by_the_context_that_keeps_it(api):
    api.refusals.append(Refusal("GET", "/locks", 401, problem(401, "not_signed_in")))
    with pytest.raises(Problem) as refused:
        Client(api.url, TOKEN, context="local-2").get("/locks")
    assert "the token of context local-2" in refused.value.next
    assert "manent context list" in refused.value.next


def test_one_part_of_a_path_stays_one():
    assert segment("shop/production#3") == "shop%2Fproduction%233"
    assert segment("a?b&c%2F") == "a%3Fb%26c%252F"
    for text in ("", ".", ".."):
        with pytest.raises(BadUsage, match="no lock"):
            segment(text, what="lock")


@pytest.fixture
def raw_server():
    """A server that answers each connection with the same bytes, then closes it."""
    listening = socket.create_server(("127.0.0.1", 0))
    answers = []

    def serve():
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                answers.append(connection.recv(65536))
                connection.sendall(answers[0])

    def start(answer):
        answers.append(answer)
        threading.Thread(target=serve, daemon=True).start()
        return f"http://127.0.0.1:{listening.getsockname()[1]}", answers

    yield start
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"\x00\xff\xfe",
    ],
)
def test_an_answer_that_breaks_off_is_no_answer(raw_server, answer):
    url, _ = raw_server(answer)
    with pytest.raises(Unreachable) as failed:
        Client(url).get("/locks")
    assert failed.value.is_passing
    with pytest.raises((Unreachable, Strange)):
        list(Client(url).stream("/deploys/x/logs"))


def test_a_server_that_is_slow_is_given_up_in_time(api, client):
    api.refusals.append(Refusal("GET", "/locks", None, delay=3.0))
    with pytest.raises(Unreachable) as failed:
        client.get("/locks", timeout=0.1)
    assert failed.value.why == "no answer in time"


@pytest.fixture
def secure_url(api):
    """The fake API behind TLS, with a certificate nobody signed."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    api.wrap(context)
    return api.url.replace("http://127.0.0.1", "https://localhost")


def test_a_certificate_nobody_signed_is_refused_for_good(secure_url):
    with pytest.raises(Unreachable) as failed:
        Client(secure_url, TOKEN).get("/version")
    assert "certificate verify failed" in failed.value.why
    assert not failed.value.is_passing


def test_a_certificate_of_ones_own_authority_is_taken(api, secure_url, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    assert Client(secure_url, TOKEN).get("/version") == api.version
    with pytest.raises(Unreachable, match="https://"):
        Client(secure_url.replace("localhost", "127.0.0.2"), TOKEN).get("/version")


def test_an_unknown_host_and_a_closed_port_are_told_apart(api):
    api.down()
    for url, why in ((api.url, "refused"), ("http://nowhere.invalid", "")):
        with pytest.raises(Unreachable) as failed:
            Client(url).get("/locks")
        assert why in failed.value.why
        assert failed.value.why


def test_a_proxy_gets_the_whole_address_and_its_credentials(raw_server):
    proxy, asked = raw_server(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    environ = {"http_proxy": proxy.replace("//", "//user:pass%40@")}
    client = Client("http://manent.example:8420/base", TOKEN, environ=environ)
    assert client.get("/locks") == {}
    head = asked[1].decode()
    assert head.startswith("GET http://manent.example:8420/base/api/v1/locks HTTP/1.1\r\n")
    assert "Proxy-Authorization: Basic dXNlcjpwYXNzQA==\r\n" in head
    assert "\r\nHost: manent.example:8420\r\n" in head


def test_a_secure_server_behind_a_proxy_is_reached_through_a_tunnel(raw_server):
    proxy, asked = raw_server(b"HTTP/1.1 403 Forbidden\r\n\r\n")
    client = Client("https://manent.example", TOKEN, environ={"HTTPS_PROXY": proxy})
    with pytest.raises(Unreachable, match="https://manent"):
        client.get("/locks")
    head = asked[1].decode()
    assert head.startswith("CONNECT manent.example:443 ")
    assert TOKEN not in head
