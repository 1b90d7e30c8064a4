"""SIGHUP or `admin reload`: a good file is taken up while running, a bad one changes nothing."""

import json
import signal
import sys
from typing import Any

import httpx2
import pytest

from tests.rig.ledger import Ledger
from tests.rig.process import until
from tests.rig.serve import Config, Rig

pytestmark = pytest.mark.e2e

PYTHON = str(getattr(sys, "_base_executable", sys.executable))


def config(ledger: Ledger) -> Config:
    return {
        "environments": {"staging": {"concurrency": 1}},
        "applications": {name: ledger.application() for name in ("stays", "leaves")},
    }


def reload(rig: Rig, *, says: str) -> str:
    """Send SIGHUP and wait until the log says how it went; what it said since."""
    before = len(rig.logs())
    rig.send(signal.SIGHUP)
    until(lambda: says in rig.logs()[before:], what=f"the log to say {says!r}")
    return rig.logs()[before:]


def metric(rig: Rig, name: str) -> float:
    text = rig._http().get(f"{rig.metrics_url()}/metrics").text
    return sum(float(li.split()[-1]) for li in text.splitlines() if li.startswith(f"{name} "))


def environment(rig: Rig, name: str = "staging") -> dict[str, Any]:
    found: dict[str, Any] = rig.get(f"/environments/{name}")
    return found


def test_a_good_file_is_taken_up_without_a_restart(shared: Rig) -> None:
    """B118: and what it holds reaches the hook literally, but for ${NAME}, $$ and {{."""
    pid = shared.process().pid
    odd = {"ODD": "pa$USER#w{{x}}%@/:$${{HOME}}$$"}
    printing = "import os; print('odd=' + os.environ['ODD'])"
    fresh = {
        "plugin": "command",
        "options": {"deploy": [PYTHON, "-c", printing], "environment": odd},
        "environments": {"canary": {"targets": {"host": {}}}},
    }
    body = {"application": "fresh", "environment": "canary", "version": "1"}
    assert shared.http("POST", "/deploys", json=body).status_code == 404
    shared.configure(
        {
            "environments": {"canary": {"tier": "staging"}, "staging": {"concurrency": 3}},
            "applications": {"fresh": fresh},
            "worker": {"concurrency": 7},
        }
    )
    said = reload(shared, says="reloaded")
    assert "worker has changed and needs a restart" in said
    ended = shared.deployed("1", application="fresh", environment="canary")
    assert ended["outcome"] == "deployed"
    texts = [line["text"] for line in shared.get(f"/deploys/{ended['id']}/logs")["items"]]
    assert "odd=pa$USER#w{x}%@/:${HOME}$" in texts
    assert environment(shared)["concurrency"] == 3
    assert shared.process().pid == pid


def test_more_room_is_used_at_once(shared: Rig) -> None:
    """A raised concurrency admits what waits."""
    shared.configure({"environments": {"staging": {"concurrency": 1}}})
    reload(shared, says="reloaded")
    go = shared.folder / "go"
    shared.ledger.tell({"wait_for": str(go)})
    first = shared.deploy("1", application="stays")["id"]
    until(lambda: shared.ledger.runs(deploy=first), what="the first hook")
    second = shared.deploy("1", application="leaves")
    assert second["state"] == "ENQUEUED"
    shared.configure({"environments": {"staging": {"concurrency": 2}}})
    reload(shared, says="reloaded")
    until(lambda: shared.ledger.runs(deploy=second["id"]), what="the second hook")
    assert shared.get(f"/deploys/{first}")["state"] == "PENDING"
    go.touch()
    for deploy in (first, second["id"]):
        assert shared.ended(deploy)["outcome"] == "deployed"


def test_a_bad_file_changes_nothing(shared: Rig) -> None:
    """The log names the place, a metric counts it, what was in force stays in force."""
    good = shared.config_file().read_text()
    failed = metric(shared, "manent_reload_failed_total")
    for broken in ("server: [\n", good + "\nretention: {keys_max_agee: 1h}\n"):
        shared.config_file().write_text(broken)
        said = reload(shared, says="reload changes nothing")
        assert "manent.yml" in said
        assert shared.deployed("2", application="stays")["outcome"] == "deployed"
    shared.config_file().unlink()
    reload(shared, says="reload changes nothing")
    assert metric(shared, "manent_reload_failed_total") == failed + 3
    assert shared.process().is_running()
    shared.config_file().write_text(good)
    reload(shared, says="reloaded")


def test_a_check_against_what_is_live_names_the_deploys(shared: Rig) -> None:
    """By the server or by its database: exit 2 with the deploy and what it needs."""
    good = shared.config_file().read_text()
    live = shared.deploy("5", application="stays", not_before="2090-01-01T00:00:00Z")["id"]
    access = {"MANENT_TOKEN": shared.token}
    shared.configure({"applications": {"stays": None}})
    for against in (shared.url, shared.database_url):
        said = shared.server_cli(["check", "--against", against], environ=access)
        assert said.returncode == 2
        assert f"live deploy {live} of stays in staging needs application stays" in said.stderr
    assert shared.server_cli(["check"]).returncode == 0
    assert live in reload(shared, says="reload changes nothing")
    shared.http("POST", f"/deploys/{live}/cancel", json={})
    said = shared.server_cli(["check", "--against", shared.url], environ=access)
    assert said.returncode == 0, said.stderr
    shared.config_file().write_text(good)
    shared.configure({"applications": {"stays": shared.ledger.application()}})


def test_an_application_is_not_dropped_under_a_live_deploy(shared: Rig) -> None:
    """Refused with the deploys' ids; once they have ended it may go, its history stays."""
    go = shared.folder / "leave"
    shared.ledger.tell({"wait_for": str(go)}, application="leaves")
    live = shared.deploy("3", application="leaves")["id"]
    until(lambda: shared.ledger.runs(deploy=live), what="the hook")
    shared.configure({"applications": {"leaves": None}})
    said = reload(shared, says="reload changes nothing")
    assert live in said
    go.touch()
    assert shared.ended(live)["outcome"] == "deployed"
    reload(shared, says="reloaded")
    body = {"application": "leaves", "environment": "staging", "version": "4"}
    assert shared.http("POST", "/deploys", json=body).status_code == 404
    assert shared.get(f"/deploys/{live}")["outcome"] == "deployed"
    names = [row["name"] for row in shared.get("/applications")["items"]]
    assert "leaves" not in names
    assert "stays" in names


def asked(rig: Rig, *options: str, token: str | None = None, code: int = 0) -> Any:
    """What `admin reload` prints; of a refusal what it says."""
    access = {"MANENT_URL": rig.url, "MANENT_TOKEN": token or rig.token}
    ended = rig.server_cli(["admin", "reload", *options], environ=access)
    assert ended.returncode == code, ended.stderr
    return json.loads(ended.stdout) if code == 0 else ended.stderr


def configurations(rig: Rig) -> dict[str, str]:
    """By live worker the digest it shows."""
    rows = rig.get("/admin/executors")["executors"]
    return {row["id"]: row["configuration"] for row in rows if row["alive"]}


def taken_up(rig: Rig, names: list[str], *options: str, says: str = "reloaded") -> Any:
    """The answer to `admin reload`, once the log of each process says how it went there."""
    before = {name: len(rig.logs(name)) for name in names}
    answer = asked(rig, *options)
    for name, seen in before.items():
        until(lambda n=name, at=seen: says in rig.logs(n)[at:], what=f"{name}: {says}")
    return answer


def test_every_process_is_asked_at_once(shared: Rig) -> None:
    """Of a server or of its database: each takes up its own files."""
    names = ["w0"]
    if not shared.database_url.startswith("sqlite"):
        shared.start_worker("w1")
        names.append("w1")
    before = configurations(shared)
    shared.configure({"environments": {"staging": {"concurrency": 4}}})
    answer = taken_up(shared, names, "-o", "json")
    assert answer["changed"] == ["environments"]
    assert "within a few seconds" in answer["takes_effect"]
    assert environment(shared)["concurrency"] == 4
    until(
        lambda: (
            (now := configurations(shared))["w0"] == answer["configuration"]
            and not set(now.values()) & set(before.values())
        ),
        what="workers show what they have now",
    )
    shared.configure({"environments": {"staging": {"concurrency": 5}}})
    again = taken_up(shared, names, "--local", "--reason", "more room")
    assert again["reload"] == answer["reload"] + 1
    assert environment(shared)["concurrency"] == 5
    if "w1" in names:
        # Another's faulty file is that process's own affair.
        shared.config_file("w1").write_text("server: [\n")
        before_it = len(shared.logs())
        taken_up(shared, ["w1"], says="reload changes nothing")
        # Its own reload is over too, so that nobody takes it for the next one.
        until(lambda: "reloaded" in shared.logs()[before_it:], what="the other's reload")
        assert shared.process("w1").is_running()
        assert shared.stop("w1") == 0
        shared.write_config("w1")


def test_a_faulty_file_is_refused_in_words_and_nobody_is_asked(shared: Rig) -> None:
    """Nor is anybody by who may not administer."""
    viewer = shared.new_token("vi", "viewer")
    count = taken_up(shared, ["w0"])["reload"]
    good = shared.config_file().read_text()
    shared.config_file().write_text(good + "\nretention: {keys_max_agee: 1h}\n")
    for options in (), ("--local",):
        assert "keys_max_agee" in asked(shared, *options, code=2)
    shared.config_file().write_text(good)
    assert "administer" in asked(shared, token=viewer, code=4)
    assert taken_up(shared, ["w0"])["reload"] == count + 1


def test_a_role_that_is_taken_away_counts_at_once(shared: Rig) -> None:
    """At the next request, in a stream that is open, and in a vote on what has not begun."""
    rule = {"name": "release", "quorum": 1, "unknown_requester": "allow"}
    gated = {"tier": "staging", "approvals": [rule]}
    place = {"environments": {"gated": {"targets": {"host": {}}}}}
    shared.configure({"environments": {"gated": gated}, "applications": {"stays": place}})
    reload(shared, says="reloaded")
    given = ["token", "create", "zoe", "--role", "approver", "--kind", "person", "--group", "g"]
    zoe = {"Authorization": f"Bearer {shared.server_cli(given, check=True).stdout.strip()}"}
    lock = {"environment": "gated", "reason": "not yet"}
    mark = shared.http("POST", "/locks", json=lock).json()["id"]
    deploy = shared.deploy("7", application="stays", environment="gated")["id"]
    asks = {"deploy": deploy, "state": "waiting"}
    [approval] = until(lambda: shared.get("/approvals", **asks)["items"], what="it asks")
    decisions = f"/approvals/{approval['id']}/decisions"
    said = shared.http("POST", decisions, json={"decision": "approve"}, headers=zoe)
    assert said.json()["state"] == "approved"

    watching = zoe | {"Accept": "text/event-stream"}
    with httpx2.stream(
        "GET", f"{shared.url}/api/v1/events", headers=watching, trust_env=False, timeout=60
    ) as stream:
        assert stream.status_code == 200
        shared.configure({"access": {"roles": {"g": {"role": "viewer", "deny": True}}}})
        reload(shared, says="reloaded")
        assert "not_allowed" in "".join(stream.iter_text()), "and it has ended"
    assert shared.http("GET", f"/deploys/{deploy}", headers=zoe).status_code == 403
    assert shared.get(f"/approvals/{approval['id']}")["approvers"] == []
    assert shared.http("DELETE", f"/locks/{mark}").status_code == 200
    until(
        lambda: shared.get(f"/deploys/{deploy}")["phase"] == "awaiting_approval",
        what="people are asked again",
    )
    assert not shared.ledger.runs(deploy=deploy)
