"""`manent` as a step of CI: the exit code tells how the deploy ended, and nothing else."""

import json
import signal
import subprocess
import time
from typing import Any

import pytest

from tests.rig.ledger import Ledger
from tests.rig.process import until
from tests.rig.serve import BIN, Config, Rig

pytestmark = pytest.mark.e2e

ONCE = {"attempts": 1, "initial": "100ms", "factor": 2, "cap": "1s", "total": "1m"}


def config(ledger: Ledger) -> Config:
    names = ("good", "fails", "back", "stop", "late", "held", "slow", "cut", "torn")
    return {
        "recovery": {"heartbeat_interval": "500ms", "stale_after": "2s"},
        "environments": {"staging": {"concurrency": 20}},
        "applications": {name: ledger.application(retry=ONCE) for name in names},
    }


def start(rig: Rig, *arguments: str) -> "subprocess.Popen[str]":
    """`manent` in the background, as a CI system runs it."""
    environ = {**rig._environ, "MANENT_URL": rig.url, "MANENT_TOKEN": rig.token}
    return subprocess.Popen(
        [str(BIN / "manent"), *arguments],
        cwd=rig.folder, env=environ, text=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def first_line(client: "subprocess.Popen[str]") -> str:
    """The id, which `manent deploy` prints as soon as the deploy is accepted."""
    assert client.stdout is not None
    return client.stdout.readline().strip()


def instant(seconds: float) -> str:
    """So many seconds from now."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))


def newest(rig: Rig, application: str) -> dict[str, Any]:
    found: dict[str, Any] = rig.get("/deploys", application=application)["items"][0]
    return found


def test_success_alone_is_zero(shared: Rig) -> None:
    """B149: the id on stdout, talk on stderr, JSON when asked."""
    told = shared.cli(["deploy", "good", "staging", "1", "-o", "json"])
    assert told.returncode == 0, told.stderr
    shown = json.loads(told.stdout)
    assert (shown["version"], shown["outcome"]) == ("1", "deployed")
    again = shared.cli(["wait", shown["id"]])
    assert again.returncode == 0


def test_a_failed_deploy_is_never_zero(shared: Rig) -> None:
    """B149: 3 for a failed deploy, also when its rollback worked; `wait` says the same."""
    shared.ledger.tell({"exit": 65}, application="fails", hook="deploy")
    told = shared.cli(["deploy", "fails", "staging", "1"])
    assert told.returncode == 3
    assert "failed" in told.stderr
    shared.deployed("1", application="back")
    shared.ledger.tell({"exit": 65}, application="back", hook="deploy", version="2")
    undone = shared.cli(["deploy", "back", "staging", "2", "-o", "json"])
    assert undone.returncode == 3
    assert newest(shared, "back")["outcome"] == "rolled_back"
    assert shared.cli(["wait", newest(shared, "back")["id"]]).returncode == 3
    assert shared.cli(["rollback", "fails", "staging"]).returncode == 5


def test_each_other_end_has_a_code_of_its_own(shared: Rig) -> None:
    """B149: cancelled 9, superseded 11, expired 12."""
    shared.ledger.tell({"sleep": 60}, application="stop")
    client = start(shared, "deploy", "stop", "staging", "1")
    deploy = first_line(client)
    until(lambda: shared.ledger.runs(deploy=deploy), what="the hook")
    assert shared.cli(["cancel", deploy, "--reason", "not now"]).returncode == 0
    _, said = client.communicate(timeout=60)
    assert client.returncode == 9
    assert "not now" in said, said
    never = "2090-01-01T00:00:00Z"
    older = start(shared, "deploy", "late", "staging", "1", "--not-before", never)
    waiting = first_line(older)
    shared.deployed("2", application="late")
    shared.cli(["skip-wait", waiting, "--reason", "its time has come"], check=True)
    older.communicate(timeout=60)
    assert older.returncode == 11
    lock = shared.http("POST", "/locks", json={"application": "held", "reason": "shut"}).json()
    expired = shared.cli(["deploy", "held", "staging", "1", "--not-after", instant(5)])
    assert expired.returncode == 12, expired.stderr
    refused = shared.cli(["deploy", "held", "staging", "1", "--if-blocked", "refuse"])
    assert (refused.returncode, "shut" in refused.stderr) == (5, True)
    assert newest(shared, "held")["outcome"] == "expired"
    shared.http("DELETE", f"/locks/{lock['id']}")


def test_what_never_became_a_deploy_has_a_code_too(shared: Rig) -> None:
    """B149: 401 and no token 4, unknown 6, wrong words 2, no server 1."""
    good = ["deploy", "good", "staging", "9"]
    codes = {
        "bad token": shared.cli(good, environ={"MANENT_TOKEN": "mnt_u_x"}).returncode,
        "no token": shared.cli(good, environ={"MANENT_TOKEN": ""}).returncode,
        "no application": shared.cli(["deploy", "nothing", "staging", "9"]).returncode,
        "no environment": shared.cli(["deploy", "good", "nowhere", "9"]).returncode,
        "bad name": shared.cli(["deploy", "Good", "staging", "9"]).returncode,
        "no such option": shared.cli([*good, "--wiat"]).returncode,
        "bad duration": shared.cli([*good, "--timeout", "5"]).returncode,
        "no such context": shared.cli([*good, "--context", "nowhere"]).returncode,
    }
    expected = {"no application": 6, "no environment": 6, "bad token": 4, "no token": 4}
    assert codes == {what: expected.get(what, 2) for what in codes}
    nobody = {"MANENT_URL": "http://127.0.0.1:1"}
    assert shared.cli([*good, "--timeout", "1s"], environ=nobody).returncode in (1, 7)
    found = shared.get("/deploys", application="good", version="9")["items"]
    assert found == []


def test_the_waiting_time_has_an_end(shared: Rig) -> None:
    """B151: at its end a code of its own and the id; the work goes on."""
    go = shared.folder / "slow"
    shared.ledger.tell({"wait_for": str(go)}, application="slow", version="1")
    began = time.monotonic()
    told = shared.cli(["deploy", "slow", "staging", "1", "--timeout", "2s"])
    assert told.returncode == 7
    assert time.monotonic() - began < 30
    deploy = newest(shared, "slow")["id"]
    assert f"still running, id {deploy}" in told.stderr
    go.touch()
    assert shared.ended(deploy)["outcome"] == "deployed"
    assert shared.cli(["wait", deploy]).returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_client_that_ends_leaves_its_deploy_alone(shared: Rig, number: signal.Signals) -> None:
    """B151: Ctrl-C ends the waiting, not the deploy."""
    version = f"2.{int(number)}"
    go = shared.folder / f"slow-{version}"
    shared.ledger.tell({"wait_for": str(go)}, application="slow", version=version)
    client = start(shared, "deploy", "slow", "staging", version)
    deploy = first_line(client)
    until(lambda: shared.ledger.runs(deploy=deploy), what="the hook")
    client.send_signal(number)
    _, said = client.communicate(timeout=60)
    assert client.returncode == 130, said
    assert deploy in said
    go.touch()
    assert shared.ended(deploy)["outcome"] == "deployed"


def test_a_wait_outlives_the_restart_of_the_server(shared: Rig) -> None:
    """B151: cut off, then back: the true end, once."""
    shared.ledger.tell({"sleep": 2}, application="cut")
    shared.ledger.tell({"sleep": 2, "exit": 65}, application="torn", hook="deploy")
    names = ("cut", "torn")
    waits = [start(shared, "deploy", name, "staging", "1") for name in names]
    ids = [first_line(client) for client in waits]
    until(lambda: shared.ledger.runs(deploy=ids[0]), what="a hook to begin")
    shared.kill()
    time.sleep(3)  # the thing under test: nobody answers for so long
    shared.start()
    ends = [client.communicate(timeout=60)[1] for client in waits]
    assert [client.returncode for client in waits] == [0, 3], ends
    assert [shared.get(f"/deploys/{one}")["outcome"] for one in ids] == ["deployed", "failed"]
    assert [len(shared.get("/deploys", application=name)["items"]) for name in names] == [1, 1]
