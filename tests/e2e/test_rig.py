"""The rig's servers: started, killed, stopped and multiplied as the other tests need it."""

import pytest

from tests.rig.process import left_behind, until

pytestmark = pytest.mark.e2e


def test_a_deploy_acts_on_the_ledger(rig):
    ended = rig.deployed("v1")
    assert (ended["state"], ended["outcome"]) == ("SUCCESS", "deployed")
    assert [(run.hook, run.version) for run in rig.ledger.runs()] == [("deploy", "v1")]


def test_a_killed_server_takes_its_hooks_along_and_starts_again(rig):
    rig.ledger.tell({"sleep": 60, "child": 60, "tick": 0.05})
    deploy = rig.deploy("v1")
    until(rig.ledger.children, what="the hook's detached child")
    rig.kill()
    until(lambda: not list(left_behind(rig.folder)), what="the end of all processes", limit=5)
    rig.ledger.tell()
    rig.start()
    assert rig.ended(deploy["id"])["outcome"] == "deployed"
    assert [run.attempt for run in rig.ledger.runs(hook="deploy")] == [1, 2]
    assert not rig.ledger.overlaps()


def test_a_stopped_server_has_finished_what_it_ran(rig):
    rig.ledger.tell({"sleep": 1})
    rig.deploy("v1")
    until(rig.ledger.runs, what="the hook")
    assert rig.stop() == 0
    (run,) = rig.ledger.runs()
    assert run.exit == 0
    assert not list(left_behind(rig.folder))


@pytest.mark.postgres
def test_further_workers_share_the_work(start_rig, postgres_url):
    rig = start_rig(postgres_url, {"environments": {"staging": {"concurrency": 2}}})
    rig.start_worker("w1")
    rig.ledger.tell({"wait_for": str(rig.folder / "go")})
    deploys = [rig.deploy("v1", application=name)["id"] for name in ("shop", "billing")]
    until(lambda: len(rig.ledger.runs()) == 2, what="both hooks")
    (rig.folder / "go").touch()
    assert [rig.ended(deploy)["state"] for deploy in deploys] == ["SUCCESS", "SUCCESS"]
    assert rig.ledger.peak("staging") == 2
    assert rig.stop("w1") == 0


def test_a_process_without_worker_accepts_and_runs_nothing(start_rig, sqlite_url):
    rig = start_rig(sqlite_url, options=["--no-worker"])
    deploy = rig.deploy("v1")
    assert rig.get(f"/deploys/{deploy['id']}")["state"] == "ENQUEUED"
    assert rig.ledger.lines() == []


def test_the_client_speaks_to_the_rig(rig):
    rig.deployed("v1")
    said = rig.cli(["list", "-o", "json"], check=True)
    assert '"v1"' in said.stdout
    assert rig.cli(["show", "0000000000"]).returncode == 6
