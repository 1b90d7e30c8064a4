"""Signatures: only who knows the secret can have sent these bytes."""

import base64
import hashlib
import hmac
from datetime import UTC, datetime, timedelta

import pytest

from manent_server.domain import signature
from manent_server.domain.signature import Fault, Signed, seal, slack, standard, unseal

KEY = b"8f742231b10e8888abcd99yyyzzz85a5"
AT = datetime(2018, 7, 12, 18, 36, 58, tzinfo=UTC)
# The worked example of Slack's own documentation.
BODY = (
    b"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow"
    b"&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner"
    b"&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands"
    b"%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN"
    b"&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c"
)
GOOD = {
    "x-slack-request-timestamp": "1531420618",
    "x-slack-signature": "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503",
}
# That of the Standard Webhooks specification.
STANDARD_KEY = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
STANDARD_BODY = b'{"test": 2432232314}'
STANDARD = {
    "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
    "webhook-timestamp": "1614265330",
    "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
}


def test_the_example_of_slacks_manual_is_believed():
    found = slack([KEY], GOOD, BODY)
    assert isinstance(found, Signed)
    assert found.at == AT


def test_each_of_several_secrets_is_believed():
    first = slack([b"another secret", KEY], GOOD, BODY)
    assert first == slack([KEY, b"another secret"], GOOD, BODY) == slack([KEY], GOOD, BODY)


@pytest.mark.parametrize("missing", [*GOOD])
def test_without_its_headers_it_is_unsigned(missing: str):
    """B77."""
    headers = {name: value for name, value in GOOD.items() if name != missing}
    assert slack([KEY], headers, BODY) == Fault.UNSIGNED


@pytest.mark.parametrize(
    "changed",
    [
        {"x-slack-signature": ""},
        {"x-slack-signature": "v0="},
        {"x-slack-signature": GOOD["x-slack-signature"].upper()},
        {"x-slack-signature": GOOD["x-slack-signature"].replace("v0=", "v1=")},
        {"x-slack-signature": GOOD["x-slack-signature"] + "0"},
        {"x-slack-signature": "v0=" + "\u00e9" * 64},
        {"x-slack-signature": "v0=\udcff"},
        {"x-slack-request-timestamp": "1531420619"},
        {"x-slack-request-timestamp": "abc"},
        {"x-slack-request-timestamp": "-1531420618"},
        {"x-slack-request-timestamp": "1531420618.0"},
        {"x-slack-request-timestamp": "\u0661\u0662"},
        {"x-slack-request-timestamp": "9" * 12},
        {"x-slack-request-timestamp": "9" * 400},
    ],
)
def test_what_was_changed_is_forged(changed: dict[str, str]):
    """B77."""
    assert slack([KEY], GOOD | changed, BODY) == Fault.FORGED


@pytest.mark.parametrize("body", [BODY + b"&", b"", b"\xb2\xff\xfe"])
def test_another_body_is_forged_whatever_its_bytes(body: bytes):
    assert slack([KEY], GOOD, body) == Fault.FORGED


def test_another_secret_believes_nothing():
    assert slack([b"8f742231b10e8888abcd99yyyzzz85a6"], GOOD, BODY) == Fault.FORGED
    assert slack([], GOOD, BODY) == Fault.FORGED


def test_bytes_that_are_no_text_are_signed_as_they_are():
    body = b"payload=\xff\xfe"
    made = hmac.new(KEY, b"v0:1531420618:" + body, hashlib.sha256).hexdigest()
    found = slack([KEY], GOOD | {"x-slack-signature": f"v0={made}"}, body)
    assert isinstance(found, Signed)


def test_the_example_of_standard_webhooks_is_believed():
    found = standard([STANDARD_KEY], STANDARD, STANDARD_BODY)
    assert isinstance(found, Signed)
    assert found.at.timestamp() == 1614265330


def test_one_good_signature_of_several_is_enough():
    both = "v1,AAAA v1a,BBBB " + STANDARD["webhook-signature"]
    headers = STANDARD | {"webhook-signature": both}
    assert isinstance(standard([STANDARD_KEY], headers, STANDARD_BODY), Signed)
    many = "v1,AAAA " * 8 + STANDARD["webhook-signature"]
    headers = STANDARD | {"webhook-signature": many}
    assert standard([STANDARD_KEY], headers, STANDARD_BODY) == Fault.FORGED


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"webhook-id": "msg_other"}, Fault.FORGED),
        ({"webhook-id": "m\u00e9"}, Fault.FORGED),
        ({"webhook-timestamp": "1614265331"}, Fault.FORGED),
        ({"webhook-timestamp": ""}, Fault.FORGED),
        ({"webhook-signature": "v1,"}, Fault.FORGED),
        ({"webhook-signature": STANDARD["webhook-signature"][3:]}, Fault.FORGED),
    ],
)
def test_a_standard_webhook_that_was_changed_is_forged(changed: dict[str, str], fault: Fault):
    """B77."""
    assert standard([STANDARD_KEY], STANDARD | changed, STANDARD_BODY) == fault


@pytest.mark.parametrize("missing", [*STANDARD])
def test_a_standard_webhook_without_its_headers_is_unsigned(missing: str):
    headers = {name: value for name, value in STANDARD.items() if name != missing}
    assert standard([STANDARD_KEY], headers, STANDARD_BODY) == Fault.UNSIGNED


@pytest.mark.parametrize(
    ("seconds", "is_late"), [(0, False), (300, False), (-300, False), (301, True), (-301, True)]
)
def test_five_minutes_in_either_direction_are_in_time(seconds: int, *, is_late: bool):
    """B32."""
    signed = Signed("n", AT)
    at = AT + timedelta(seconds=seconds)
    assert signature.is_late(signed, at=at) == is_late
    assert signature.difference(signed, at=at) == timedelta(seconds=seconds)
    assert signed.kept > 2 * timedelta(seconds=299)


def test_a_request_is_known_again_and_no_other_is():
    nonces = {
        found.nonce
        for found in (
            slack([KEY], GOOD, BODY),
            slack([KEY], GOOD, BODY),
            standard([STANDARD_KEY], STANDARD, STANDARD_BODY),
        )
        if isinstance(found, Signed)
    }
    assert len(nonces) == 2


def test_what_was_sealed_is_opened_with_any_of_the_keys():
    made = seal(KEY, {"approval": "a1", "decision": "approve"})
    assert unseal([b"new", KEY], made) == {"approval": "a1", "decision": "approve"}


@pytest.mark.parametrize("change", ["x{0}", "{0}x", ".{0}", "{0}.", "", ".", "\u00e9.\u00e9"])
def test_a_seal_that_was_changed_is_none(change: str):
    made = seal(KEY, {"decision": "reject"})
    assert unseal([KEY], change.format(made)) is None
    assert unseal([b"another"], made) is None


def test_a_seal_is_none_for_other_content():
    content = seal(KEY, {"decision": "approve"}).partition(".")[0]
    mac = seal(KEY, {"decision": "reject"}).partition(".")[2]
    assert unseal([KEY], f"{content}.{mac}") is None
