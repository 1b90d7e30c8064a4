"""Signatures as Standard Webhooks has them."""

import base64

import pytest

from manent_server.observability import webhook

# The example of the specification's reference libraries.
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # noqa: S105 - of an example
MESSAGE, TIMESTAMP, CONTENT = "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_message_is_signed_as_the_specification_does():
    keys = [webhook.key(SECRET)]
    signed = webhook.sign(keys, message=MESSAGE, timestamp=TIMESTAMP, content=CONTENT)
    assert signed == SIGNATURE


def test_two_secrets_give_two_signatures():
    other = webhook.key("whsec_" + base64.b64encode(b"x" * 32).decode())
    keys = [other, webhook.key(SECRET)]
    headers = webhook.headers(keys, message=MESSAGE, timestamp=TIMESTAMP, content=CONTENT)
    assert headers["webhook-signature"].split(" ")[1] == SIGNATURE
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == (MESSAGE, str(TIMESTAMP))


@pytest.mark.parametrize("secret", ["hunter22", "whsec_hunter22!", "whsec_aHVudGVyMjI="])
def test_a_secret_that_is_none_is_refused_without_a_word_of_it(secret: str):
    with pytest.raises(ValueError, match="whsec_") as refused:
        webhook.key(secret)
    assert "hunter22" not in str(refused.value)
