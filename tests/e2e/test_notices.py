"""Being told what happens, on a real server."""

import base64
import hashlib
import hmac
import json
import signal
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
import sqlalchemy as sa

from manent_server.store.engine import connect, dispose
from manent_server.store.tables import build
from tests.integration.store.conftest import STALE_AFTER
from tests.rig.postgres import Postgres
from tests.rig.process import until
from tests.rig.receiver import Letter, Receiver
from tests.rig.serve import Rig

SECRET = "whsec_" + base64.b64encode(b"a planted secret of 32 bytes, yes").decode()
TOKEN = "planted-token-in-the-path"  # noqa: S105 - of nothing
DEPLOYS = 20


def many(rig: Rig) -> int:
    """Deploys of one run; on the second database a few show the same."""
    return DEPLOYS if rig.database_url.startswith("sqlite") else 4


def sink(receiver: Receiver, **more: Any) -> dict[str, Any]:
    return {
        "plugin": "webhook",
        "url": f"{receiver.url}/{TOKEN}",
        "secret": "secret://env/BOARD_SECRET",
        "allow_networks": ["127.0.0.0/8"],
        # Each letter is to come once, however busy the machine.
        "timeout": "20s",
        "retry": {"initial": "1s", "factor": 1, "cap": "2s", "total": "24h"},
        **more,
    }


@pytest.fixture(
    scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]
)
def rig(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: Postgres,
    receivers: Mapping[str, Receiver],
) -> Iterator[Rig]:
    folder = tmp_path_factory.mktemp("notices")
    url = f"sqlite:///{folder / 'manent.db'}"
    if request.param == "postgres":
        url = postgres_server.create_database()
    config = {
        "environments": {"staging": {"concurrency": 20}},
        "notify": {
            **{name: sink(receiver) for name, receiver in receivers.items()},
            "hanging": sink(receivers["hanging"], timeout="1s"),
        },
    }
    for receiver in receivers.values():
        receiver.status = 200
        receiver.seen.clear()
    with Rig(folder, url, config, environ={"BOARD_SECRET": SECRET}) as rig:
        yield rig


@pytest.fixture(scope="module")
def receivers() -> Iterator[dict[str, Receiver]]:
    good, bad = Receiver(), Receiver()
    with good, bad, Receiver(hang=120) as hanging, Receiver(is_secure=True) as untrusted:
        yield {"good": good, "bad": bad, "hanging": hanging, "untrusted": untrusted}


def ended(receiver: Receiver, deploy: str) -> list[Letter]:
    """Letters about the end of a deploy."""
    return [
        letter
        for letter in receiver.seen
        if letter.event["deploy"] == deploy and letter.event["type"] == "deploy.ended"
    ]


def is_signed(letter: Letter) -> bool:
    """As a receiver checks it: by the secret and the very bytes that came."""
    signed = f"{letter.headers['webhook-id']}.{letter.headers['webhook-timestamp']}.".encode()
    key = base64.b64decode(SECRET.removeprefix("whsec_"))
    digest = hmac.new(key, signed + letter.body, hashlib.sha256).digest()
    made = f"v1,{base64.b64encode(digest).decode()}"
    return made in letter.headers["webhook-signature"].split(" ")


def test_a_receiver_is_told_of_a_deploy(rig: Rig, receivers: Mapping[str, Receiver]):
    deploy = rig.deployed("1.0")["id"]
    until(lambda: ended(receivers["good"], deploy), what="the end told")

    [letter] = ended(receivers["good"], deploy)
    assert is_signed(letter)
    assert letter.headers["content-type"].startswith("application/cloudevents+json")
    assert letter.json["type"] == "dev.cdevents.service.deployed.0.3.0"
    assert letter.json["id"] == letter.headers["webhook-id"] == letter.event["id"]
    assert abs(int(letter.headers["webhook-timestamp"]) - time.time()) < 60
    about = [seen.event for seen in receivers["good"].seen if seen.event["deploy"] == deploy]
    told = [event["type"] for event in about]
    assert told == ["deploy.requested", "deploy.started", "deploy.ended"]


def test_no_receiver_delays_a_deploy(rig: Rig, receivers: Mapping[str, Receiver]):
    """B153: receivers that answer 500 and 429, hang, or have a wrong certificate; 20 deploys."""
    bad = receivers["bad"]
    bad.status, bad.headers = 429, {"Retry-After": "1"}
    asked = [rig.deploy(f"2.{number}") for number in range(many(rig))]
    bad.status = 500
    assert {rig.ended(one["id"])["state"] for one in asked} == {"SUCCESS"}
    last = asked[-1]["id"]
    until(lambda: ended(receivers["good"], last), what="the good one told of all")

    until(lambda: _sink(rig, "good")["waiting"] == 0, what="all of it written down")
    standings = {one["name"]: one for one in rig.get("/sinks")["items"]}
    assert standings["hanging"]["waiting"] >= 3 * many(rig)
    assert standings["untrusted"]["waiting"] >= 3 * many(rig)
    notices = rig.get("/notices", sink="untrusted", state="waiting", limit=500)["items"]
    tried = [notice["error"] for notice in notices if notice["tries"]]
    assert "not trusted" in tried[0]

    bad.status, bad.headers = 200, {}
    until(lambda: ended(bad, last), what="the bad one told after its recovery", limit=60)
    for one in asked:
        until(lambda one=one: ended(bad, one["id"]), what="all told", limit=60)
        tries = ended(bad, one["id"])
        assert len({letter.headers["webhook-id"] for letter in tries}) == 1
        assert len(ended(receivers["good"], one["id"])) == 1


def test_a_server_that_is_killed_loses_no_event(rig: Rig, receivers: Mapping[str, Receiver]):
    """Between the commit and the delivery: what is stored is told."""
    bad = receivers["bad"]
    bad.status = 503
    deploy = rig.deployed("3.0")["id"]
    rig.kill()
    bad.status = 200
    rig.start()

    until(lambda: ended(bad, deploy), what="told after the restart", limit=60)
    positions = [event["position"] for event in rig.get("/events", limit=500)["items"]]
    assert positions == list(range(1, len(positions) + 1))
    types = [event["type"] for event in rig.get("/events", limit=500)["items"]]
    assert types.count("deploy.ended") == len(rig.get("/deploys", limit=500)["items"])


def test_a_stream_that_broke_goes_on_where_it_was(rig: Rig):
    """Cut in the middle, resumed by Last-Event-ID, while deploys go on."""
    rig.deploy("3.1")
    seen = _followed(rig, after=0, count=5)
    last = rig.deploy("3.2")["id"]
    while not any(one["deploy"] == last and one["type"] == "deploy.ended" for one in seen):
        seen += _followed(rig, after=seen[-1]["position"], count=1)

    assert [one["position"] for one in seen] == list(range(1, len(seen) + 1))


def _followed(rig: Rig, *, after: int, count: int) -> list[dict[str, Any]]:
    """The next events of the stream, which is left then."""
    found: list[dict[str, Any]] = []
    headers = {
        "Authorization": f"Bearer {rig.token}",
        "Accept": "text/event-stream",
        "Last-Event-ID": str(after),
    }
    url = f"{rig.url}/api/v1/events"
    with httpx2.stream("GET", url, headers=headers, trust_env=False, timeout=30) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: "):
                found.append(json.loads(line.removeprefix("data: ")))
            if len(found) == count:
                break
    return found


def test_a_reload_takes_a_sink_up(rig: Rig):
    with Receiver() as late:
        rig.configure({"notify": {"late": sink(late, events=["deploy.requested"])}})
        rig.send(signal.SIGHUP)
        until(lambda: any(one["name"] == "late" for one in rig.get("/sinks")["items"]), what="it")
        rig.deploy("3.3")
        until(lambda: late.seen, what="the new receiver told")
        rig.configure({"notify": {"late": None}})
        rig.send(signal.SIGHUP)
        until(lambda: all(one["name"] != "late" for one in rig.get("/sinks")["items"]), what="gone")


def test_gone_turns_a_sink_off_until_it_is_resent(rig: Rig, receivers: Mapping[str, Receiver]):
    bad = receivers["bad"]
    bad.status = 410
    rig.deployed("4.0")
    until(lambda: not _sink(rig, "bad")["is_on"], what="the sink off")
    bad.seen.clear()
    bad.status = 200
    deploy = rig.deployed("4.1")["id"]
    until(lambda: ended(receivers["good"], deploy), what="the good one told")
    assert bad.seen == []

    said = rig.cli(["sinks"], check=True).stdout
    assert "410" in said
    assert TOKEN not in said
    dead = rig.cli(["notices", "--state", "dead", "--sink", "bad", "-o", "name"], check=True)
    one = next(line for line in dead.stdout.splitlines())
    assert rig.cli(["resend", one], check=True).stdout.strip() == one.removeprefix("notice/")
    rig.cli(["resend", "--sink", "bad", "--reason", "it is back"], check=True)
    until(lambda: ended(bad, deploy), what="told at last")
    found = _sink(rig, "bad")
    assert (found["is_on"], found["dead"]) == (True, 0)


def _sink(rig: Rig, name: str) -> dict[str, Any]:
    return next(one for one in rig.get("/sinks")["items"] if one["name"] == name)


def test_the_metrics_show_who_was_not_told(rig: Rig):
    text = httpx2.get(f"{rig.metrics_url()}/metrics", trust_env=False).text
    lag = next(line for line in text.splitlines() if 'lag_seconds{sink="hanging"}' in line)
    assert float(lag.rpartition(" ")[2]) > 0
    assert 'manent_notices_total{result="delivered",sink="good"}' in text
    assert 'manent_notices_dead{sink="untrusted"} 0' in text


def test_no_secret_is_stored_sent_or_said(rig: Rig, receivers: Mapping[str, Receiver]):
    """I18: neither the signing secret nor the token in the address is anywhere."""
    planted = [SECRET, SECRET.removeprefix("whsec_"), "planted secret", TOKEN]
    sent = b"".join(letter.body for receiver in receivers.values() for letter in receiver.seen)
    said = rig.logs() + str(rig.get("/notices", limit=500)) + str(rig.get("/sinks"))
    stored = _stored(rig)
    for secret in planted:
        assert secret.encode() not in sent
        assert secret not in said
        assert secret not in stored


def _stored(rig: Rig) -> str:
    """All rows of our tables that can hold what sinks were told."""
    folder: Path = rig.folder
    engines = connect(rig.database_url, pool=1, stale_after=STALE_AFTER, folder=folder)
    tables = build(engines.dialect)
    with engines.ours.connect() as connection:
        kept = (tables.notices, tables.events, tables.sinks, tables.audit, tables.policies)
        found = [str(connection.execute(sa.select(table)).all()) for table in kept]
    dispose(engines)
    return "".join(found)
