"""What chats send: requests signed as each of them signs."""

import base64
import hashlib
import hmac
import json
import secrets
import urllib.parse
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from manent_server.domain.chat import Knock

SLACK_SECRET = "8f742231b10e8888abcd99yyyzzz85a5"  # noqa: S105 - of Slack's own manual
GENERIC_SECRET = "whsec_" + base64.b64encode(b"0123456789abcdef01234567").decode()
MATTERMOST_SECRET = "a random text of the operator"  # noqa: S105 - of a test
PLACE = {"channel": "C1", "team": "T1", "app": "A1"}


def slack_press(value: str, action: str = "approve", **more: Any) -> dict[str, Any]:
    """A button of a message, as Slack sends it."""
    return {
        "type": "block_actions",
        "api_app_id": "A1",
        "team": {"id": "T1", "domain": "example"},
        "user": {"id": "U1", "username": "ann", "name": "ann", "team_id": "T1"},
        "channel": {"id": "C1", "name": "deploys"},
        "container": {"type": "message", "message_ts": "1.1", "channel_id": "C1"},
        "trigger_id": f"12466734323.{secrets.token_hex(8)}",
        "response_url": "https://hooks.slack.com/actions/T1/1/x",
        "actions": [
            {
                "type": "button",
                "action_id": action,
                "block_id": "b",
                "value": value,
                "action_ts": "1",
            }
        ],
        **more,
    }


def slack_window(metadata: str, comment: str | None, **more: Any) -> dict[str, Any]:
    """A window that was sent off."""
    return {
        "type": "view_submission",
        "api_app_id": "A1",
        "team": {"id": "T1", "domain": "example"},
        "user": {"id": "U1", "username": "ann", "name": "ann", "team_id": "T1"},
        "trigger_id": "12466734323.1395872399",
        "view": {
            "callback_id": "manent-reject",
            "private_metadata": metadata,
            "state": {
                "values": {"comment": {"comment": {"type": "plain_text_input", "value": comment}}}
            },
        },
        **more,
    }


def slack_form(payload: Any) -> bytes:
    """The body: a form with one field that holds JSON."""
    return urllib.parse.urlencode({"payload": json.dumps(payload)}).encode()


def slack_headers(body: bytes, at: datetime, *, secret: str = SLACK_SECRET) -> dict[str, str]:
    """What Slack signs a body with."""
    moment = str(int(at.timestamp()))
    made = hmac.new(secret.encode(), f"v0:{moment}:".encode() + body, hashlib.sha256)
    return {
        "content-type": "application/x-www-form-urlencoded",
        "x-slack-request-timestamp": moment,
        "x-slack-signature": f"v0={made.hexdigest()}",
    }


def slack_knock(payload: Any, at: datetime) -> Knock:
    """A request of Slack."""
    body = payload if isinstance(payload, bytes) else slack_form(payload)
    return Knock(slack_headers(body, at), body, "192.0.2.1")


def standard_headers(body: bytes, at: datetime, *, secret: str = GENERIC_SECRET) -> dict[str, str]:
    """What a bridge signs a body with."""
    name, moment = f"msg_{secrets.token_hex(8)}", str(int(at.timestamp()))
    key = base64.b64decode(secret.removeprefix("whsec_"))
    made = hmac.new(key, f"{name}.{moment}.".encode() + body, hashlib.sha256).digest()
    return {
        "content-type": "application/json",
        "webhook-id": name,
        "webhook-timestamp": moment,
        "webhook-signature": f"v1,{base64.b64encode(made).decode()}",
    }


def generic_knock(values: Mapping[str, Any] | bytes, at: datetime) -> Knock:
    """A request of a bridge."""
    body = values if isinstance(values, bytes) else json.dumps(values).encode()
    return Knock(standard_headers(body, at), body, "192.0.2.1")


def mattermost_trigger(user: str, at: datetime) -> str:
    """A trigger as Mattermost makes it for each press; its signature is for itself alone."""
    made = f"{secrets.token_hex(13)}:{user}:{int(at.timestamp() * 1000)}:c2lnbmF0dXJl"
    return base64.b64encode(made.encode()).decode()


def mattermost_press(seal: str, at: datetime, user: str = "u1", **more: Any) -> Knock:
    """A button of a post, as Mattermost sends it."""
    values = {
        "user_id": user,
        "user_name": "ann",
        "channel_id": "C1",
        "team_id": "T1",
        "post_id": "p1",
        "trigger_id": mattermost_trigger(user, at),
        "type": "button",
        "context": {"seal": seal},
        **more,
    }
    return Knock({"content-type": "application/json"}, json.dumps(values).encode(), "192.0.2.1")


def mattermost_dialog(state: str, comment: str | None, user: str = "u1", **more: Any) -> Knock:
    """A dialog that was sent off."""
    values = {
        "type": "dialog_submission",
        "callback_id": "reject",
        "state": state,
        "user_id": user,
        "channel_id": "C1",
        "team_id": "T1",
        "submission": {"comment": comment},
        "cancelled": False,
        **more,
    }
    return Knock({"content-type": "application/json"}, json.dumps(values).encode(), "192.0.2.1")
