"""The API of a real server: what it does in an outage, and a log followed live."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.conftest import StartRig
from tests.rig.postgres import Postgres
from tests.rig.process import until
from tests.rig.serve import Rig

pytestmark = pytest.mark.e2e


def test_an_outage_of_the_database_is_a_503_and_no_reason_to_be_killed(
    own_postgres: Postgres, tmp_path: Path
) -> None:
    """Probes tell the difference, every route says when to come back, nothing floods the log."""
    url = own_postgres.create_database()
    with Rig(tmp_path, url, options=("--no-worker",)) as rig:
        own_postgres.stop()
        for path in ("/deploys", "/environments/staging", "/locks"):
            answer = rig.http("GET", path)
            assert answer.status_code == 503, answer.text
            assert answer.headers["retry-after"]
            assert answer.json()["code"] == "unavailable"
        body = {"application": "shop", "environment": "staging", "version": "1"}
        assert rig.http("POST", "/deploys", json=body).status_code == 503
        began = time.monotonic()
        assert rig.http("GET", "/livez").status_code == 200
        assert time.monotonic() - began < 1
        assert rig.http("GET", "/readyz").status_code == 503
        assert "manent_database_up 0.0" in scraped(rig)
        own_postgres.start()
        until(rig.is_ready, what="ready again", limit=20)

        assert rig.get("/deploys")["items"] == []
        assert "manent_database_up 1.0" in scraped(rig)
        assert "Traceback" not in rig.logs()


def test_a_log_is_followed_across_broken_connections(rig: Rig) -> None:
    """Each line once and in order, however often the connection breaks; at last the end."""
    rig.ledger.tell({"print": "\n".join(f"line {number}" for number in range(50)), "sleep": 2})
    deploy = rig.deploy("1")["id"]
    seen: list[dict[str, Any]] = []
    ends: list[dict[str, Any]] = []

    def follow() -> None:
        for _ in range(100):
            if ends:
                return
            for name, data in events(rig, deploy, after=seen[-1]["sequence"] if seen else 0):
                (ends if name == "end" else seen).append(data)
                if name == "line" and len(seen) % 7 == 0:
                    break

    follower = threading.Thread(target=follow)
    follower.start()
    rig.ended(deploy)
    follower.join(30)

    assert [line["sequence"] for line in seen] == list(range(1, len(seen) + 1))
    printed = [line["text"] for line in seen if line["stream"] == "out"]
    assert printed == [f"line {number}" for number in range(50)]
    assert [end["state"] for end in ends] == ["SUCCESS"]


def test_two_hundred_watchers_leave_the_api_alone(rig: Rig) -> None:
    """B103: many pages follow one log; requests are answered meanwhile."""
    rig.ledger.tell({"sleep": 5})
    deploy = rig.deploy("1")["id"]
    url = f"{rig.url}/api/v1/deploys/{deploy}/logs"
    headers = {"Authorization": f"Bearer {rig.token}", "Accept": "text/event-stream"}
    limits = httpx2.Limits(max_connections=None)
    with httpx2.Client(trust_env=False, timeout=30, limits=limits) as client:
        open_ones = [client.send(client.build_request("GET", url, headers=headers), stream=True)
                     for _ in range(200)]  # fmt: skip
        assert {answer.status_code for answer in open_ones} == {200}
        began = time.monotonic()
        rig.get("/deploys")
        assert time.monotonic() - began < 3
        for answer in open_ones:
            answer.close()
    assert rig.ended(deploy)["state"] == "SUCCESS"


def test_a_stop_sends_watchers_away(start_rig: StartRig, database_url: str) -> None:
    """A followed log does not keep a process from ending."""
    rig = start_rig(database_url)
    rig.ledger.tell({"sleep": 2})
    deploy = rig.deploy("1")["id"]
    opened = threading.Event()

    def follow() -> None:
        for _ in events(rig, deploy, after=0, opened=opened):
            pass

    follower = threading.Thread(target=follow)
    follower.start()
    assert opened.wait(10)

    assert rig.stop(limit=20) == 0
    follower.join(10)
    assert not follower.is_alive()


def scraped(rig: Rig) -> str:
    return httpx2.get(f"{rig.metrics_url()}/metrics", trust_env=False).text


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
