"""Requests that leave this server, against real receivers."""

import ssl
import time
from collections.abc import Callable
from datetime import timedelta

import pytest

from manent_server.observability.egress import Egress, Forbidden, Unreached
from tests.rig.ports import free_port
from tests.rig.receiver import CERTIFICATE, Receiver

HERE = ["127.0.0.0/8"]
LONG = timedelta(seconds=20)


def names(**known: list[str]) -> Callable[[str, int], list[str]]:
    return lambda host, port: known[host.partition(".")[0]]


def post(egress: Egress, url: str, content: bytes = b"{}") -> int:
    return egress.post(url, headers={"x-test": "1"}, content=content).status


def test_a_receiver_gets_what_is_sent():
    with Receiver(status=202, headers={"Retry-After": "7"}) as receiver:
        answer = Egress(HERE, timeout=LONG).post(
            receiver.url, headers={"x-test": "1"}, content=b"hello"
        )
    assert (answer.status, answer.retry_after) == (202, "7")
    [letter] = receiver.seen
    assert (letter.body, letter.headers["x-test"], letter.path) == (b"hello", "1", "/hook")
    assert letter.headers["host"] == f"127.0.0.1:{receiver.port}"


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]"]
)
def test_nothing_is_sent_to_an_internal_address(host: str):
    with Receiver() as receiver, pytest.raises(Unreached):
        post(Egress([], timeout=LONG), f"http://{host}:{receiver.port}/")
    assert receiver.seen == []


def test_a_name_that_leads_inside_is_refused_without_its_path():
    egress = Egress([], timeout=LONG, find=names(rebind=["169.254.169.254"]))
    with pytest.raises(Forbidden) as refused:
        post(egress, "http://rebind.example/token-hunter22")
    assert str(refused.value) == "rebind.example leads to an internal address that is not allowed"


def test_the_address_that_was_checked_is_the_one_connected_to():
    """A name is resolved once: a second answer, which leads elsewhere, is never asked for."""
    asked: list[str] = []

    def find(host: str, port: int) -> list[str]:
        asked.append(host)
        return ["127.0.0.1"] if len(asked) == 1 else ["169.254.169.254"]

    with Receiver() as receiver:
        assert post(Egress(HERE, timeout=LONG, find=find), f"http://a.example:{receiver.port}/")
    assert asked == ["a.example"]
    assert receiver.seen[0].headers["host"] == f"a.example:{receiver.port}"


def test_an_address_that_is_not_allowed_is_passed_over():
    find = names(a=["10.0.0.1", "127.0.0.1"])
    with Receiver() as receiver:
        url = f"http://a.example:{receiver.port}/"
        assert post(Egress(HERE, timeout=LONG, find=find), url) == 200


def test_a_redirect_is_an_answer_and_no_way():
    with Receiver() as target, Receiver(status=307, headers={"Location": target.url}) as receiver:
        assert post(Egress(HERE, timeout=LONG), receiver.url) == 307
    assert target.seen == []


def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch):
    with Receiver() as proxy, Receiver() as receiver:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        assert post(Egress(HERE, timeout=LONG), receiver.url) == 200
    assert proxy.seen == []


def test_a_certificate_nobody_vouches_for_is_refused():
    """B153: wrong certificate."""
    with Receiver(is_secure=True) as receiver, pytest.raises(Unreached, match="not trusted"):
        post(Egress(HERE, timeout=LONG), receiver.url)
    assert receiver.seen == []


@pytest.mark.parametrize(("host", "is_good"), [("localhost", True), ("other", False)])
def test_a_certificate_is_verified_against_the_name(host: str, *, is_good: bool):
    """The connection goes to an address, the certificate is of the name."""
    tls = ssl.create_default_context(cafile=CERTIFICATE)
    find = names(localhost=["127.0.0.1"], other=["127.0.0.1"])
    egress = Egress(HERE, timeout=LONG, find=find, tls=tls)
    with Receiver(is_secure=True) as receiver:
        url = f"https://{host}:{receiver.port}/"
        if is_good:
            assert post(egress, url) == 200
            return
        with pytest.raises(Unreached, match="its certificate is not trusted: Hostname mismatch"):
            post(egress, url)


@pytest.mark.parametrize("slow", [{"hang": 60.0}, {"trickle": 0.05}])
def test_a_slow_receiver_is_left(slow: dict[str, float]):
    """B153: hangs, or sends a byte now and then; the time is for everything together."""
    with Receiver(**slow) as receiver:
        began = time.monotonic()
        with pytest.raises(Unreached, match=r"no answer in 0\.5 s"):
            post(Egress(HERE, timeout=timedelta(seconds=0.5)), receiver.url)
        assert time.monotonic() - began < 10


def test_nobody_there_is_said_in_words():
    egress = Egress(HERE, timeout=LONG, find=names(nobody=[]))
    with pytest.raises(Unreached, match="connection refused"):
        post(Egress(HERE, timeout=LONG), f"http://127.0.0.1:{free_port()}/hunter22")
    with pytest.raises(Unreached):
        post(egress, "http://nobody.example/")
    with pytest.raises(Unreached, match="cannot be resolved"):
        post(Egress([], timeout=LONG), f"http://{'a' * 70}.example/")
