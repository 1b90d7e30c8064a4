"""`manent sinks`, `notices` and `resend`."""

import json
from typing import Any

import pytest

from tests.rig.fake_api import FakeApi
from tests.rig.manent import Manent

SINK: dict[str, Any] = {
    "name": "board",
    "plugin": "webhook",
    "is_on": False,
    "waiting": 0,
    "dead": 3,
    "off_reason": "answered 410",
}
NOTICE: dict[str, Any] = {
    "id": "n1",
    "sink": "board",
    "state": "dead",
    "tries": 4,
    "error": "answered 500",
    "event": {"type": "lock.set", "deploy": None, "position": 9},
}


@pytest.fixture
def api():
    with FakeApi() as api:
        api.fixed |= {
            "sinks": {"items": [SINK], "next": None},
            "sinks/board": SINK,
            "notices": {"items": [NOTICE], "next": "n1"},
            "notices/n1": NOTICE,
        }
        yield api


@pytest.fixture
def manent(tmp_path, api):
    return Manent(tmp_path, api)


def test_sinks_shows_who_is_off(manent):
    head, row = manent("sinks").out.splitlines()
    assert head.split()[:5] == ["NAME", "PLUGIN", "ON", "WAITING", "DEAD"]
    assert row.split()[:5] == ["board", "webhook", "no", "0", "3"]
    assert "answered 410" in row


def test_notices_shows_what_was_not_told_and_that_there_is_more(api, manent):
    said = manent("notices", "--state", "dead", "--sink", "board", "--limit", "1")
    assert "lock.set" in said.out
    assert "--before n1" in said.err
    [asked] = api.requests("GET", "/notices")
    assert asked.query == {"state": ["dead"], "sink": ["board"], "limit": ["1"]}
    assert manent("notices", "-o", "name", "--limit", "1").out == "notice/n1\n"


def test_resend_takes_what_notices_names(api, manent):
    assert manent("resend", "notice/n1", "--reason", "mended", "--key", "k").out == "n1\n"
    [asked] = api.requests("POST", "/notices/n1/resend")
    assert asked.body == {"reason": "mended"}
    assert asked.headers["idempotency-key"] == "k"


def test_resend_takes_a_whole_sink(api, manent):
    said = manent("resend", "--sink", "board", "-o", "json")
    assert json.loads(said.out)["name"] == "board"
    [asked] = api.requests("POST", "/sinks/board/resend")
    assert asked.body == {}


@pytest.mark.parametrize("given", [(), ("n1", "--sink", "board")])
def test_resend_wants_one_of_them(manent, given):
    said = manent("resend", *given)
    assert said.code == 2
    assert "name one notice, or a sink" in said.err
