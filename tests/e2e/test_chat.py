"""Approvals in a chat, on a real server: told by its loops, answered while it is busy."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.rig import chats
from tests.rig.fake_chats import ChatServer
from tests.rig.process import until
from tests.rig.rules import AtMost
from tests.rig.serve import Rig

SECRET = {"SLACK_SECRET": chats.SLACK_SECRET, "SLACK_TOKEN": "xoxb-planted-hunter22"}


def config(slack: ChatServer) -> dict[str, Any]:
    rule = {"name": "release", "chat": ["team"], "unknown_requester": "allow"}
    return {
        "worker": {"concurrency": 1, "hook_processes": 1, "warm": 1},
        "chat": {
            "team": {
                "plugin": "slack",
                "url": slack.url,
                "token": "secret://env/SLACK_TOKEN",
                "signing_secret": "secret://env/SLACK_SECRET",
                **chats.PLACE,
                "allow_networks": ["127.0.0.0/8"],
            }
        },
        "access": {
            "people": {"eve": {"groups": ["sre"], "slack": "U1"}},
            "roles": {"sre": {"role": "approver"}},
        },
        "environments": {"production": {"approvals": [rule]}},
    }


@pytest.fixture(scope="module")
def slack() -> Iterator[ChatServer]:
    with ChatServer() as server:
        yield server


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory, slack: ChatServer) -> Iterator[Rig]:
    folder: Path = tmp_path_factory.mktemp("chat")
    url = f"sqlite:///{folder / 'manent.db'}"
    with Rig(folder, url, config(slack), environ=SECRET) as made:
        yield made


def press(rig: Rig, value: str) -> tuple[httpx2.Response, float]:
    """Press a button; the answer, and how long it took."""
    knock = chats.slack_knock(chats.slack_press(value), datetime.now(UTC))  # noqa: TID251 - a chat's
    began = time.monotonic()
    url = f"{rig.url}/webhooks/team"
    answer = httpx2.post(url, headers=knock.headers, content=knock.body, trust_env=False)
    return answer, time.monotonic() - began


@pytest.mark.promise
def test_a_press_is_answered_in_time_with_every_worker_busy(
    rig: Rig, slack: ChatServer, at_most: AtMost
):
    rig.ledger.tell({"sleep": 6}, hook="deploy")
    busy = [rig.deploy(str(number))["id"] for number in range(3)]
    until(lambda: rig.get(f"/deploys/{busy[0]}")["state"] == "PENDING", what="a busy worker")
    waits = rig.deploy("9", environment="production")["id"]
    until(lambda: slack.messages, what="the message")
    [message] = slack.messages.values()
    buttons = [e for block in message["blocks"] for e in block.get("elements", ())]

    forged = httpx2.post(f"{rig.url}/webhooks/team", content=b"payload={}", trust_env=False)
    assert (forged.status_code, forged.json()["code"]) == (401, "not_believed")
    answer, seconds = press(rig, buttons[0]["value"])
    assert answer.status_code == 200
    # Slack waits three seconds. The hooks take longer.
    assert seconds < at_most(3, beside=5)
    found = rig.get(f"/approvals?deploy={waits}&state=approved")["items"]
    assert found[0]["approvers"] == ["eve"]
    until(lambda: "eve approved" in str(slack.messages), what="the vote in the message")
    assert len(slack.messages) == 1
    # No secret of a chat is in the log.
    assert "hunter22" not in rig.logs()
    assert chats.SLACK_SECRET not in rig.logs()


@pytest.mark.parametrize("missing", SECRET)
def test_no_server_starts_with_a_chat_and_no_secret(
    tmp_path: Path, slack: ChatServer, missing: str
):
    """B77: a chat that could not be believed, or told, is no chat."""
    kept = {name: value for name, value in SECRET.items() if name != missing}
    rig = Rig(tmp_path, f"sqlite:///{tmp_path / 'manent.db'}", config(slack), environ=kept)
    rig.write_config()
    ended = rig.server_cli(["serve"])
    assert ended.returncode == 2
    assert f"chat.team: secret://env/{missing}" in ended.stderr
