"""`manent rerun`, `retry` and `abandon`."""

import pytest

from tests.rig.fake_api import FakeApi, ends
from tests.rig.manent import Manent


@pytest.fixture
def api():
    with FakeApi() as api:
        yield api


@pytest.fixture
def manent(tmp_path, api):
    return Manent(tmp_path, api)


@pytest.fixture
def old(api):
    """A deploy that failed, and what the server says of its rerun."""
    deploy = api.add(ends("ERROR", "failed"))
    plan = {"of": deploy["id"], "root": deploy["id"], "pass": 2, "application": "shop",
            "environment": "production", "version": "1.0.0", "kind": "deploy",
            "from": "deploy:web-2", "carried": ["prepare", "deploy:web-1"],
            "again": ["deploy:web-2"]}  # fmt: skip
    api.fixed[f"deploys/{deploy['id']}/rerun"] = plan
    return deploy["id"]


SHOWN = "carried over: prepare, deploy:web-1", "runs again: deploy:web-2"


def posts(api):
    return [(one.path, one.body) for one in api.requests("POST", "/deploys")]


def test_a_rerun_shows_its_plan_and_waits_for_the_end(api, manent, old):
    said = manent("rerun", old, "--from", "deploy:web-2", "--reason", "again")
    assert said.code == 0
    assert said.out == "0197-deploy-0002\n"
    assert all(line in said.err for line in SHOWN)
    body = {"from": "deploy:web-2", "reason": "again"}
    assert posts(api) == [(f"/deploys/{old}/rerun", body)]
    asked = api.requests("GET", f"/deploys/{old}/rerun")[0]
    assert asked.query["from"] == ["deploy:web-2"]


def test_a_dry_run_only_shows_it(api, manent, old):
    said = manent("rerun", old, "--from", "deploy:web-2", "--dry-run", "-o", "json")
    assert (said.code, said.json["again"]) == (0, ["deploy:web-2"])
    assert "deploy:web-2" in manent("retry", old, "--dry-run").out
    assert posts(api) == []


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("\n", 1), ("no\n", 1)])
def test_at_a_terminal_it_asks(api, manent, old, typed, code):
    said = manent("retry", old, "--no-wait", is_terminal=True, typed=typed)
    assert said.code == code
    assert "go on? [y/N]" in said.err
    assert len(posts(api)) == (1 if code == 0 else 0)


def test_a_retry_of_an_ended_deploy_shows_where_it_begins(api, manent, old):
    said = manent("retry", old, "--no-wait", "--override", "outdated")
    assert said.code == 0
    assert all(line in said.err for line in SHOWN)
    assert posts(api) == [(f"/deploys/{old}/retry", {"override": ["outdated"]})]


def test_a_rerun_wants_its_step(manent, old):
    said = manent("rerun", old)
    assert said.code == 2
    assert "--from" in said.err


def test_given_up_it_says_what_that_rests_on(api, manent):
    api.add()
    said = manent("abandon", "0197-deploy-0001", "--reason", "on fire", "--force")
    assert said.code == 0
    assert said.out == "0197-deploy-0001\n"
    assert "warning: given up: on fire" in said.err
    body = {"reason": "on fire", "force": True}
    assert posts(api) == [("/deploys/0197-deploy-0001/abandon", body)]
    assert manent("wait", "0197-deploy-0001").code == 9
    assert manent("abandon", "0197-deploy-0001").code == 2
