"""Keys of issuers: cached, renewed when one is missing, and never asked for too often."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from manent_server.domain.assertion import AssertionRefused
from manent_server.domain.errors import Unavailable
from manent_server.sources import issuers, signature
from manent_server.sources.issuers import Issuers, Unfetched
from tests.rig.signer import ISSUER, claims, public, sign


class Web:
    """What stands at the issuer, and how often it was asked."""

    def __init__(self) -> None:
        self.keys: Any = [public("EC", "e")]
        self.about: dict[str, Any] = {"issuer": ISSUER, "jwks_uri": "https://keys.example/k"}
        self.is_up = True
        self.asked: list[str] = []
        self.now = 0.0
        self.issuers = Issuers(self.fetch, lambda: self.now)

    def fetch(self, url: str) -> dict[str, Any]:
        self.asked.append(url)
        if not self.is_up:
            raise Unfetched("down")
        return self.about if url.endswith("openid-configuration") else {"keys": self.keys}

    def believe(self, kty: str = "EC", **header: Any) -> None:
        token = sign(claims(), kty=kty, header=header)
        self.issuers.believe(signature.take_apart(token), ISSUER)


def test_keys_are_found_by_discovery_and_kept():
    web = Web()
    for _ in range(3):
        web.believe()
    assert web.asked == [f"{ISSUER}/.well-known/openid-configuration", "https://keys.example/k"]


def test_a_new_key_is_taken_up():
    web = Web()
    web.believe()
    web.keys = [public("OKP", "o")]
    web.now = 31
    web.believe("OKP")


def test_tokens_with_made_up_key_ids_do_not_make_us_ask():
    web = Web()
    web.believe()
    for number in range(50):
        web.now += 0.5
        with pytest.raises(AssertionRefused):
            web.believe(kid=f"made-up-{number}")
    assert len(web.asked) == 2
    web.now += 30
    with pytest.raises(AssertionRefused):
        web.believe(kid="made-up")
    assert len(web.asked) == 4


def test_whoever_makes_us_ask_a_slow_issuer_keeps_nobody_else_waiting():
    web, is_asked, may_answer = Web(), threading.Event(), threading.Event()
    web.believe()
    web.now = 31

    def slowly(url: str) -> dict[str, Any]:
        is_asked.set()
        assert may_answer.wait(30)
        return web.fetch(url)

    web.issuers._fetch = slowly
    with ThreadPoolExecutor(1) as stranger:
        refused = stranger.submit(web.believe, kid="made-up")
        assert is_asked.wait(30)
        web.believe()
        may_answer.set()
        with pytest.raises(AssertionRefused):
            refused.result()


def test_an_issuer_that_is_down_is_lived_without_for_a_day():
    web = Web()
    web.believe()
    web.is_up = False
    web.now = 3600 * 23
    web.believe()
    web.now = 3600 * 24
    with pytest.raises(Unavailable):
        web.believe()
    asked = len(web.asked)
    web.now += 10
    with pytest.raises(Unavailable):
        web.believe()
    assert len(web.asked) == asked, "asked again within the pause"
    web.is_up = True
    web.now += 30
    web.believe()


@pytest.mark.parametrize(
    "about",
    [
        {"issuer": "https://other.example", "jwks_uri": "https://keys.example/k"},
        {"issuer": ISSUER},
        {"issuer": ISSUER, "jwks_uri": "http://keys.example/k"},
        {"issuer": ISSUER, "jwks_uri": "file:///etc/passwd"},
        {"issuer": ISSUER, "jwks_uri": ["https://keys.example/k"]},
    ],
)
def test_a_discovery_document_that_leads_astray_is_not_followed(about: dict[str, Any]):
    web = Web()
    web.about = about
    with pytest.raises(Unavailable):
        web.believe()
    assert len(web.asked) == 1


@pytest.mark.parametrize("keys", [None, {}, "keys"])
def test_what_is_no_set_of_keys_is_none(keys: Any):
    web = Web()
    web.keys = keys
    with pytest.raises(Unavailable):
        web.believe()


def test_a_token_of_another_issuer_is_not_believed():
    web = Web()
    token = signature.take_apart(sign(claims(iss="https://evil.example"), kty="EC"))
    with pytest.raises(AssertionRefused, match="another one"):
        web.issuers.believe(token, ISSUER)
    assert web.asked == []


def test_only_an_issuer_on_this_machine_shows_keys_without_tls():
    is_safe = issuers._is_safe
    assert is_safe("http://127.0.0.1:1/k", "http://127.0.0.1:2")
    assert not is_safe("http://127.0.0.1:1/k", "https://id.example")
    assert not is_safe("http://id.example/k", "http://127.0.0.1:2")
