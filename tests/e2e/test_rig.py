"""The rig's servers: started, killed, stopped and multiplied as the other tests need it."""

import os
import sys
from pathlib import Path

import pytest

from tests.rig.forge import Forged
from tests.rig.ledger import Ledger
from tests.rig.matrix import mostly
from tests.rig.process import Process, left_behind, until
from tests.rig.serve import Config

pytestmark = pytest.mark.e2e


def config(ledger: Ledger) -> Config:
    return {"recovery": {"heartbeat_interval": "500ms", "stale_after": "2s"}}


def test_a_deploy_acts_on_the_ledger(shared):
    ended = shared.deployed("v1")
    assert (ended["state"], ended["outcome"]) == ("SUCCESS", "deployed")
    runs = shared.ledger.runs(deploy=ended["id"])
    assert [(run.hook, run.version) for run in runs] == [("deploy", "v1")]


@mostly("sqlite")
def test_a_forked_server_is_a_process_of_its_own(shared):
    process = shared.process()
    assert isinstance(process._child, Forged)
    assert os.getsid(process.pid) == process.pid
    assert Path(f"/proc/{process.pid}/cwd").readlink() == shared.folder


def test_a_forked_server_says_how_it_ended(tmp_path):
    program = str(Path(sys.executable).with_name("manent-server"))
    environ = {"MANENT_CONFIG": str(tmp_path / "none.yml"), "PATH": os.defpath}
    process = Process([program, "serve"], log=tmp_path / "log", environ=environ)
    assert isinstance(process._child, Forged)
    assert process.wait() == 2
    assert "none.yml" in process.output()
    assert "Traceback" not in process.output()


@mostly("sqlite")
def test_a_killed_server_takes_its_hooks_along_and_starts_again(shared):
    shared.ledger.tell({"sleep": 60, "child": 60, "tick": 0.05})
    deploy = shared.deploy("killed")["id"]
    until(lambda: shared.ledger.children(deploy=deploy), what="the hook's detached child")
    shared.kill()
    until(lambda: not list(left_behind(shared.folder)), what="the end of all processes")
    shared.ledger.tell()
    shared.start()
    assert shared.ended(deploy)["outcome"] == "deployed"
    runs = shared.ledger.runs(deploy=deploy, hook="deploy")
    assert [run.attempt for run in runs] == [1, 2]
    assert not shared.ledger.overlaps()


@mostly("postgres")
def test_a_stopped_server_has_finished_what_it_ran(shared):
    shared.ledger.tell({"sleep": 1})
    deploy = shared.deploy("stopped")["id"]
    until(lambda: shared.ledger.runs(deploy=deploy), what="the hook")
    assert shared.stop() == 0
    (run,) = shared.ledger.runs(deploy=deploy)
    assert run.exit == 0
    assert not list(left_behind(shared.folder))
    shared.start()


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


@mostly("postgres")
def test_the_client_speaks_to_the_rig(shared):
    shared.deployed("asked-for")
    said = shared.cli(["list", "-o", "json"], check=True)
    assert '"asked-for"' in said.stdout
    assert shared.cli(["show", "0000000000"]).returncode == 6
