"""The API of a real server: a log followed live, by one and by many."""

import json
import threading
import time
from typing import Any

import httpx2
import pytest

from tests.rig.ledger import Ledger
from tests.rig.matrix import mostly
from tests.rig.rules import AtMost
from tests.rig.serve import Config, Rig

pytestmark = pytest.mark.e2e


def config(ledger: Ledger) -> Config:
    return {"recovery": {"heartbeat_interval": "500ms", "stale_after": "2s"}}


def test_a_log_is_followed_across_broken_connections(shared: Rig) -> None:
    """Each line once and in order, however often the connection breaks; at last the end."""
    shared.ledger.tell({"print": "\n".join(f"line {number}" for number in range(50)), "sleep": 2})
    deploy = shared.deploy("1")["id"]
    seen: list[dict[str, Any]] = []
    ends: list[dict[str, Any]] = []

    def follow() -> None:
        for _ in range(100):
            if ends:
                return
            for name, data in events(shared, deploy, after=seen[-1]["sequence"] if seen else 0):
                (ends if name == "end" else seen).append(data)
                if name == "line" and len(seen) % 7 == 0:
                    break

    follower = threading.Thread(target=follow)
    follower.start()
    shared.ended(deploy)
    follower.join(30)

    assert [line["sequence"] for line in seen] == list(range(1, len(seen) + 1))
    printed = [line["text"] for line in seen if line["stream"] == "out"]
    assert printed == [f"line {number}" for number in range(50)]
    assert [end["state"] for end in ends] == ["SUCCESS"]


@pytest.mark.promise
def test_two_hundred_watchers_leave_the_api_alone(shared: Rig, at_most: AtMost) -> None:
    """B103: many pages follow one log; requests are answered meanwhile."""
    go = shared.folder / "watched"
    shared.ledger.tell({"wait_for": str(go)})
    deploy = shared.deploy("1")["id"]
    url = f"{shared.url}/api/v1/deploys/{deploy}/logs"
    headers = {"Authorization": f"Bearer {shared.token}", "Accept": "text/event-stream"}
    limits = httpx2.Limits(max_connections=None)
    with httpx2.Client(trust_env=False, timeout=30, limits=limits) as client:
        open_ones = [client.send(client.build_request("GET", url, headers=headers), stream=True)
                     for _ in range(200)]  # fmt: skip
        assert {answer.status_code for answer in open_ones} == {200}
        began = time.monotonic()
        shared.get("/deploys")
        assert time.monotonic() - began < at_most(2, beside=10)
        for answer in open_ones:
            answer.close()
    go.touch()
    assert shared.ended(deploy)["state"] == "SUCCESS"


@mostly("sqlite")
def test_a_stop_sends_watchers_away(shared: Rig) -> None:
    """A followed log does not keep a process from ending."""
    shared.ledger.tell({"sleep": 2})
    deploy = shared.deploy("1")["id"]
    opened = threading.Event()

    def follow() -> None:
        for _ in events(shared, deploy, after=0, opened=opened):
            pass

    follower = threading.Thread(target=follow)
    follower.start()
    assert opened.wait(30)

    assert shared.stop() == 0
    follower.join(30)
    assert not follower.is_alive()
    shared.start()


def events(rig: Rig, deploy: str, *, after: int, opened: threading.Event | None = None) -> Any:
    """Events of one connection: (name, data) in the order they come."""
    headers = {"Authorization": f"Bearer {rig.token}", "Accept": "text/event-stream"}
    if after:
        headers["Last-Event-ID"] = str(after)
    url = f"{rig.url}/api/v1/deploys/{deploy}/logs"
    with httpx2.stream("GET", url, headers=headers, trust_env=False, timeout=30) as answer:
        assert answer.status_code == 200
        if opened is not None:
            opened.set()
        name = ""
        for text in answer.iter_lines():
            if text.startswith("event: "):
                name = text.removeprefix("event: ")
            elif text.startswith("data: "):
                yield name, json.loads(text.removeprefix("data: "))
