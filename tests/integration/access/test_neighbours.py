"""Whoever shares an environment with applications it may not see learns nothing of them."""

import pytest

from manent_server.domain.access import Grant
from manent_server.usecases import mark
from manent_server.usecases.requests import MarkRequest
from tests.integration.access.conftest import Door
from tests.rig.core import ADMIN, Core

MINE = (Grant("operator", ("shop",), ("manual",)),)


@pytest.fixture(scope="module")
def crowd(core: Core) -> dict[str, str]:
    """In one environment: mail runs and waits, shop waits behind both."""
    core.worker()
    found = {
        "running": core.submit("mail", "manual", "mail-1"),
        "ahead": core.submit("mail", "manual", "mail-2"),
        "mine": core.submit("shop", "manual"),
    }
    assert core.slots("manual") == [found["running"]]
    request = MarkRequest(mark.Sort.VETO, "secret-reason", "mail", "manual", "mail-9")
    found["mark"] = mark.put(core.desk, request, caller=ADMIN)["id"]
    return found


@pytest.mark.parametrize(
    "path",
    [
        "/deploys/MINE",
        "/deploys/MINE/explain",
        "/deploys",
        "/deploys?environment=manual&state=ENQUEUED",
        "/environments/manual",
        "/environments",
        "/applications",
        "/inventory",
        "/marks",
        "/vetoes",
        "/events?after=0&limit=500",
        "/schedules",
        "/approvals",
        "/notices",
        "/dora",
    ],
)
def test_nothing_names_a_neighbour(door: Door, crowd: dict[str, str], path: str):
    status, text = door.ask(MINE, "GET", f"/api/v1{path.replace('MINE', crowd['mine'])}")
    assert status == 200
    told = [word for word in ("mail", "secret-reason", *theirs(crowd)) if word in text]
    assert told == [], text


def test_a_plan_names_none_either(door: Door, crowd: dict[str, str]):
    body = {"application": "shop", "environment": "manual", "version": "2"}
    status, text = door.ask(MINE, "POST", "/api/v1/plans", body)
    assert (status, [one for one in theirs(crowd) if one in text]) == (200, [])


def test_the_place_in_the_queue_is_told_all_the_same(door: Door, crowd: dict[str, str]):
    _, text = door.ask(MINE, "GET", f"/api/v1/deploys/{crowd['mine']}/explain")
    assert '"position":2,"ahead":[],"blocked_by":null' in text
    everything = (Grant("viewer"),)
    _, text = door.ask(everything, "GET", f"/api/v1/deploys/{crowd['mine']}/explain")
    assert f'"position":2,"ahead":["{crowd["ahead"]}"]' in text
    assert f'"blocked_by":{{"id":"{crowd["running"]}"' in text


@pytest.mark.parametrize("length", [6, 12, 20])
def test_no_beginning_of_an_id_betrays_one(door: Door, crowd: dict[str, str], length: int):
    for one in (crowd["running"], crowd["ahead"]):
        status, _ = door.ask(MINE, "GET", f"/api/v1/deploys/{one[:length]}")
        assert status == 404
    assert door.ask(MINE, "GET", "/api/v1/deploys/mail%2Fmanual%231")[0] == 404


def theirs(crowd: dict[str, str]) -> list[str]:
    return [crowd["running"], crowd["ahead"], crowd["mark"]]
