"""Tokens of identity providers: what is signed well is believed, and no trick is."""

import json

import pytest

from manent_server.domain.assertion import AssertionRefused
from manent_server.sources import signature
from manent_server.sources.signature import KeyUnknown
from tests.rig import signer
from tests.rig.signer import claims, part, public, sign


def demand(token: str, keys: list[dict[str, object]] | None = None) -> None:
    signature.demand_signature(signature.take_apart(token), signer.keys() if keys is None else keys)


@pytest.mark.parametrize("kty", ["RSA", "EC", "OKP"])
def test_each_algorithm_is_believed_with_its_own_key(kty: str):
    token = sign(claims(), kty=kty)
    demand(token)
    assert signature.take_apart(token).issuer == signer.ISSUER


def test_ed25519_has_two_names():
    demand(sign(claims(), kty="OKP", header={"alg": "Ed25519"}))


def test_a_token_without_a_key_id_needs_a_provider_with_one_fitting_key():
    token = sign(claims(), header={"kid": None})
    demand(token)
    with pytest.raises(AssertionRefused, match="several keys"):
        demand(token, [public("RSA", "r"), public("RSA", "r2")])


def test_algorithm_confusion_is_refused():
    """The provider's public key, which everybody has, is no shared secret."""
    pem = signer.key("RSA").as_pem(private=False)
    for secret in (
        pem,
        json.dumps(public("RSA", "r")).encode(),
        b"secret-of-32-bytes-or-a-few-more",
    ):
        with pytest.raises(AssertionRefused, match="algorithm is not accepted"):
            demand(signer.with_shared_secret(claims(), secret, kid="r"))


@pytest.mark.parametrize(
    "alg", ["none", "None", "NONE", "HS512", "PS256", "RS512", "", None, 1, ["RS256"]]
)
def test_an_algorithm_that_is_not_listed_is_refused(alg: object):
    head, body, tail = sign(claims()).split(".")
    forged = part({"alg": alg, "kid": "r"})
    for token in (f"{forged}.{body}.{tail}", f"{forged}.{body}."):
        with pytest.raises(AssertionRefused):
            demand(token)
    assert head


@pytest.mark.parametrize(("kty", "kid"), [("RSA", "e"), ("EC", "r"), ("OKP", "r"), ("RSA", "o")])
def test_a_key_of_another_type_verifies_nothing(kty: str, kid: str):
    with pytest.raises(KeyUnknown):
        demand(sign(claims(), kty=kty, header={"kid": kid}))


@pytest.mark.parametrize(
    "kid", ["", "x", "../r", "r\u0000", "' OR 1=1 --", "https://evil.example/k"]
)
def test_a_key_id_names_a_key_or_nothing(kid: str):
    with pytest.raises(KeyUnknown):
        demand(sign(claims(), header={"kid": kid}))


@pytest.mark.parametrize("kid", [1, ["r"], {"a": 1}, True, "x" * 300])
def test_a_key_id_is_a_text(kid: object):
    with pytest.raises(AssertionRefused, match="key id"):
        demand(sign(claims(), header={"kid": kid}))


@pytest.mark.parametrize(
    "header",
    [
        {"jku": "https://evil.example/keys"},
        {"x5u": "https://evil.example/cert"},
        {"jwk": {"kty": "oct", "k": "AA"}},
        {"x5c": ["AA"]},
    ],
)
def test_where_keys_come_from_is_not_the_tokens_word(header: dict[str, object]):
    demand(sign(claims(), header=header))
    with pytest.raises(AssertionRefused):
        demand(sign(claims(), kty="EC", header={**header, "kid": "r"}))


@pytest.mark.parametrize(
    "header",
    [{"crit": ["exp"]}, {"crit": ["b64"], "b64": False}, {"crit": []}, {"b64": False}],
)
def test_what_is_critical_and_not_known_is_refused(header: dict[str, object]):
    with pytest.raises(AssertionRefused, match="critical"):
        demand(sign(claims(), header=header))


@pytest.mark.parametrize("typ", ["at+jwt", "logout+jwt", "dpop+jwt", 1])
def test_a_token_for_something_else_is_refused(typ: object):
    with pytest.raises(AssertionRefused, match="typ"):
        demand(sign(claims(), header={"typ": typ}))


@pytest.mark.parametrize(
    "more",
    [
        {"use": "enc"},
        {"key_ops": ["sign"]},
        {"key_ops": "verify"},
        {"alg": "RS512"},
        {"d": "AA"},
        {"kty": "oct", "k": "AA"},
        {"n": "AQAB"},
        {"n": "*"},
        {"crv": ["P-256"]},
        {"kty": ["RSA"]},
        {"alg": ["RS256"]},
        {"use": ["sig"]},
    ],
)
def test_a_key_that_is_for_something_else_verifies_nothing(more: dict[str, object]):
    with pytest.raises(KeyUnknown):
        demand(sign(claims()), [public("RSA", "r") | more])


def test_a_changed_token_is_refused():
    head, body, tail = sign(claims()).split(".")
    other = sign(claims(sub="2")).split(".")
    wrong = [
        f"{head}.{other[1]}.{tail}",
        f"{head}.{body}.{other[2]}",
        f"{head}.{body}.{part(b'x')}",
    ]
    for token in wrong:
        with pytest.raises(AssertionRefused, match="signature"):
            demand(token)


def test_a_signature_of_ecdsa_that_is_nothing_is_refused():
    """The empty signature and r = s = 0 verify everything where nobody looks."""
    head, body, _ = sign(claims(), kty="EC").split(".")
    for empty in (bytes(64), b"", bytes(1)):
        with pytest.raises(AssertionRefused):
            demand(f"{head}.{body}.{part(empty)}")


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "a.b",
        "a.b.c.d",
        "a.b.c.d.e",
        ".a.b",
        "a..b",
        "e30.e30.=",
        "e30 .e30.e30",
        "e30.e30.e30\n",
        f"{part([])}.{part({})}.AA",
        f"{part({'alg': 'RS256'})}.{part([])}.AA",
        f"{part(b'{')}.{part({})}.AA",
        part(b'{"alg":"RS256","alg":"none"}') + ".e30.AA",
        f"{part({'alg': 'RS256'})}." + part(b'{"exp":NaN}') + ".AA",
        f"{part({'alg': 'RS256'})}." + part(b"[" * 5000) + ".AA",
        "a" * (signature.MOST + 1),
    ],
)
def test_what_is_no_token_is_refused(token: str):
    with pytest.raises(AssertionRefused):
        demand(token)


def test_a_token_without_an_issuer_is_nobodys():
    with pytest.raises(AssertionRefused, match="no issuer"):
        _ = signature.take_apart(sign(claims(iss=None))).issuer
