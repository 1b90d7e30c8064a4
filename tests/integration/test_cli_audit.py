"""`manent audit`."""

import json
from typing import Any

import pytest

from tests.rig.fake_api import FakeApi
from tests.rig.manent import Manent

RECORD: dict[str, Any] = {
    "id": "r1",
    "number": 7,
    "hash": "ab",
    "at": "2027-01-01T00:00:00.000000Z",
    "actor": "ann",
    "action": "lock.set",
    "channel": "cli",
    "detail": {"reason": "why"},
    "before": None,
    "after": {"id": "l1"},
}


@pytest.fixture
def manent(tmp_path):
    with FakeApi() as api:
        api.fixed["audit"] = {"items": [RECORD], "next": None}
        made = Manent(tmp_path, api)
        made.api = api
        yield made


def test_the_record_is_a_table_or_whole(manent):
    head, row = manent("audit").out.splitlines()
    assert head.split()[:4] == ["NUMBER", "AT", "ACTOR", "ACTION"]
    assert row.split()[:4] == ["7", "2027-01-01T00:00:00.000000Z", "ann", "lock.set"]
    assert "reason=why" in manent("audit", "-o", "wide").out
    assert json.loads(manent("audit", "-o", "jsonl").out) == RECORD


def test_each_filter_is_asked_of_the_server(manent):
    manent("audit", "--deploy", "deploy/d12345", "--actor", "ann", "--action", "lock.*",
           "--since", "2027-01-01T00:00:00Z", "--limit", "3")  # fmt: skip
    [asked] = manent.api.requests("GET", "/audit")
    assert {key: asked.query[key] for key in ("deploy", "actor", "action", "limit")} == {
        "deploy": ["d12345"], "actor": ["ann"], "action": ["lock.*"], "limit": ["3"]
    }  # fmt: skip
