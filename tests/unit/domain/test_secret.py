"""A secret shows itself nowhere."""

import copy
import json
import logging
import pickle
from dataclasses import asdict, dataclass

import pytest

from manent_server.domain.secret import Secret

TEXT = "hunter22-hunter22"


@dataclass(frozen=True)
class Holder:
    secret: Secret
    name: str = "ann"


@pytest.mark.parametrize(
    "show",
    [
        str,
        repr,
        "{}".format,
        "{:>30}".format,
        lambda secret: f"{secret} {secret!r} {secret!s:5}",
        lambda secret: "%s %r" % (secret, secret),  # noqa: UP031 - the old way is one too
        lambda secret: repr([secret, {"a": secret}]),
        lambda secret: repr(Holder(secret)),
        lambda secret: repr(asdict(Holder(secret))),
        lambda secret: repr(copy.deepcopy(Holder(secret))),
        lambda secret: str(ValueError("not good", secret)),
        lambda secret: json.dumps({"a": secret}, default=str),
        lambda secret: logging.makeLogRecord({"msg": "%s", "args": (secret,)}).getMessage(),
        lambda secret: str(sorted(dir(secret))),
    ],
)
def test_however_it_is_shown_it_is_not_seen(show) -> None:
    assert TEXT not in show(Secret(TEXT))


@pytest.mark.parametrize(
    "write",
    [
        pickle.dumps,
        json.dumps,
        lambda secret: pickle.dumps(Holder(secret)),
        lambda secret: "".join([secret]),
        lambda secret: "token " + secret,
        bytes,
        list,
        vars,
    ],
)
def test_it_goes_into_nothing_that_is_stored_or_sent(write) -> None:
    with pytest.raises(TypeError) as caught:
        write(Secret(TEXT))
    assert TEXT not in str(caught.value)


def test_only_who_asks_for_it_gets_it() -> None:
    secret = Secret(TEXT)
    assert secret.reveal() == TEXT
    assert secret == Secret(TEXT)
    assert secret != Secret("other")
    assert secret != TEXT
    assert {secret, Secret(TEXT)} == {copy.copy(secret)}
