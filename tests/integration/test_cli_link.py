"""`manent link`: accounts of chats."""

import pytest

from tests.rig.fake_api import FakeApi
from tests.rig.manent import Manent


@pytest.fixture
def api():
    with FakeApi() as api:
        api.fixed["links"] = {
            "items": [{"chat": "team", "account": "U7", "login": "ann"}],
            "next": None,
        }
        yield api


@pytest.fixture
def manent(tmp_path, api):
    return Manent(tmp_path, api)


def asked(api):
    return [one.body for one in api.requests("POST", "/links")]


def test_without_a_code_it_lists(manent):
    head, row = manent("link").out.splitlines()
    assert (head.split(), row.split()) == (["CHAT", "ACCOUNT", "LOGIN"], ["team", "U7", "ann"])
    assert manent("link", "-o", "name").out == "link/team/U7\n"


def test_a_code_is_looked_at_and_redeemed(api, manent):
    assert manent("link", "abcd-efgh-ijkm").code == 0
    assert asked(api) == [{"code": "abcd-efgh-ijkm", "preview": True}, {"code": "abcd-efgh-ijkm"}]


def test_a_person_is_asked_whose_account_it_is(api, manent):
    """A code that somebody else sent would link their account."""
    said = manent("link", "abcd", is_terminal=True, typed="n\n")
    assert "account U7 of chat team" in said.err
    assert "decide as ann" in said.err
    assert asked(api) == [{"code": "abcd", "preview": True}]
    manent("link", "abcd", is_terminal=True, typed="y\n")
    assert asked(api)[-1] == {"code": "abcd"}


def test_an_account_is_given_back(api, manent):
    assert manent("link", "--remove", "team/U7").code == 0
    [sent] = api.requests("POST", "/links/remove")
    assert sent.body == {"chat": "team", "account": "U7"}


@pytest.mark.parametrize(
    "arguments", [("code", "--remove", "team/U7"), ("--remove", "team"), ("--remove", "/U7")]
)
def test_what_cannot_be_meant_is_refused(manent, arguments):
    assert manent("link", *arguments).code == 2
