"""`manent schedule`."""

import re
import shlex

import pytest

from tests.docs.pages import DOCS
from tests.rig.fake_api import FakeApi
from tests.rig.manent import Manent

NEXT = [{"at": "2027-10-31T00:30:00Z", "local": "2027-10-31T02:30:00+02:00"}]
NIGHTLY = {
    "id": "s-0", "name": "nightly", "application": "shop", "environment": "production",
    "cron": "30 2 * * *", "timezone": "Europe/Rome", "from": "staging", "newest": False,
    "version": None, "next_at": NEXT[0]["at"], "next": NEXT, "last": {"result": "missed"},
}  # fmt: skip
RUN = {
    "schedule": "nightly", "at": "2027-10-30T00:30:00Z", "result": "skipped", "reason": "overlap",
    "detail": "deploy d1 of this schedule has not ended", "deploy": None,
}  # fmt: skip


@pytest.fixture
def api():
    with FakeApi() as api:
        api.fixed["schedules"] = {"items": [NIGHTLY], "next": None}
        api.fixed["schedules/nightly/runs"] = {"items": [RUN], "next": RUN["at"]}
        api.fixed["schedules/nightly/preview"] = {"items": NEXT}
        yield api


@pytest.fixture
def manent(tmp_path, api):
    return Manent(tmp_path, api)


def test_create_asks_for_what_was_given_and_says_when_it_fires(api, manent):
    said = manent("schedule", "create", "nightly", "shop", "production", "--cron", "30 2 * * *",
                  "--timezone", "Europe/Rome", "--from", "staging", "--catch-up", "2h")  # fmt: skip
    assert (said.code, said.out) == (0, "schedule-0\n")
    assert said.err == "next: 2027-10-31T02:30:00+02:00\n"
    [post] = api.requests("POST", "/schedules")
    assert post.body == {
        "name": "nightly", "application": "shop", "environment": "production",
        "cron": "30 2 * * *", "timezone": "Europe/Rome", "from": "staging", "catch_up": "2h",
    }  # fmt: skip
    assert post.headers["idempotency-key"]


def test_list_shows_the_next_time_with_its_offset(api, manent):
    head, row = manent("schedule", "list").out.splitlines()
    assert head.split()[-2:] == ["NEXT", "LAST"]
    assert "what runs in staging" in row
    assert row.split()[-3:] == ["on", NEXT[0]["local"], "missed"]
    assert manent("schedule", "list", "-o", "name").out == "schedule/nightly\n"


def test_list_of_one_shows_what_became_of_its_times(api, manent):
    said = manent("schedule", "list", "nightly", "--limit", "1")
    assert "overlap" in said.out
    assert "has not ended" in said.out
    assert f"--before {RUN['at']}" in said.err
    [asked] = api.requests("GET", "/schedules")
    assert asked.query == {"limit": ["1"]}


@pytest.mark.parametrize("word", ["pause", "resume", "delete"])
def test_a_change_prints_the_id(api, manent, word):
    assert manent("schedule", word, "nightly").out == "schedule-0\n"
    method = "DELETE" if word == "delete" else "POST"
    [asked] = api.requests(method, "/schedules/nightly")
    assert asked.path.endswith("nightly" if word == "delete" else f"nightly/{word}")


def test_preview_shows_local_time(api, manent):
    assert NEXT[0]["local"] in manent("schedule", "preview", "nightly").out
    said = manent("schedule", "preview", "--cron", "30 2 * * *", "--count", "2")
    assert NEXT[0]["local"] in said.out
    [post] = api.requests("POST", "/schedules/preview")
    assert post.body == {"cron": "30 2 * * *", "count": 2}


@pytest.mark.parametrize(
    "wrong", [(), ("nightly", "--cron", "* * * * *"), ("nightly", "--timezone", "UTC")]
)
def test_preview_wants_a_name_or_an_expression(api, manent, wrong):
    assert manent("schedule", "preview", *wrong).code == 2
    assert api.seen == []


def test_the_commands_of_the_page_are_understood(api, manent):
    page = (DOCS / "how-to" / "deploy-on-a-schedule.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    lines = [line for block in blocks for line in block.splitlines() if "schedule" in line]
    assert len(lines) >= 6
    for line in lines:
        said = manent(*shlex.split(line)[1:])
        assert said.code == 0, (line, said.err)
