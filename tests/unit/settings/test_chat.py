"""`chat`: where approvals are asked for."""

from datetime import timedelta

import pytest

from manent_server.domain.secret import Secret
from tests.unit.settings.conftest import Errors, Load

SLACK = (
    "plugin: slack, token: secret://env/T, signing_secret: secret://env/S, "
    "channel: C1, team: T1, app: A1"
)
MATTERMOST = (
    "plugin: mattermost, url: 'https://m.example/', token: secret://env/T, "
    "signing_secret: secret://env/S, channel: c, team: t"
)
MATRIX = "plugin: matrix, url: 'https://x.example', token: secret://env/T, channel: '!r:x.example'"
GENERIC = "plugin: generic, signing_secret: secret://env/S"


def test_each_chat_has_defaults(load: Load) -> None:
    text = f"chat: {{a: {{{SLACK}}}, b: {{{MATTERMOST}}}, c: {{{MATRIX}}}, d: {{{GENERIC}}}}}"
    found = load(text).chat
    assert (found["a"].url, found["a"].timeout) == ("https://slack.com/api", timedelta(seconds=10))
    assert found["b"].url == "https://m.example"
    assert (found["c"].signing_secret, found["c"].team) == ((), None)
    assert (found["d"].url, found["d"].signing_secret) == (None, (Secret("secret://env/S"),))


def test_a_secret_can_be_exchanged(load: Load) -> None:
    text = SLACK.replace(
        "signing_secret: secret://env/S", "signing_secret: [a1234567890123456, secret://env/O]"
    )
    found = load(f"chat: {{a: {{{text}}}}}").chat["a"]
    assert found.signing_secret == (Secret("a1234567890123456"), Secret("secret://env/O"))


def test_no_secret_is_printed(load: Load) -> None:
    text = SLACK.replace("secret://env/T", "xoxb-hunter22-hunter22")
    text = text.replace("secret://env/S", "hunter22hunter22")
    assert "hunter22" not in repr(load(f"chat: {{a: {{{text}}}}}"))


@pytest.mark.parametrize("missing", ["token", "signing_secret", "channel", "team", "app"])
def test_slack_needs_everything(missing: str, errors: Errors) -> None:
    """B77: without a secret nothing is started."""
    kept = [part for part in SLACK.split(", ") if not part.startswith(missing)]
    [found] = errors(f"chat: {{team: {{{', '.join(kept)}}}}}")
    assert found["path"] == f"chat.team.{missing}"
    assert "is missing: a chat of slack needs it" in found["message"]


@pytest.mark.parametrize(
    ("text", "path", "words"),
    [
        (SLACK.replace("secret://env/S", "''"), "signing_secret", "at least 16 characters"),
        (SLACK.replace("secret://env/S", "hunter22"), "signing_secret", "at least 16 characters"),
        (SLACK.replace("secret://env/S", "[]"), "signing_secret", "at least 1"),
        (SLACK.replace("secret://env/S", "null"), "signing_secret", "is missing"),
        (SLACK.replace("channel: C1", "channel: '#the deploys'"), "channel", "must be an id"),
        (MATTERMOST + ", app: A1", "app", "means nothing for mattermost"),
        (MATRIX + ", signing_secret: secret://env/S", "signing_secret", "means nothing"),
        (MATTERMOST + ", from_networks: [x]", "from_networks[0]", "network"),
        (GENERIC + ", url: 'https://b.example/?a=b'", "url", "must not hold a query"),
        (GENERIC + ", colour: red", "colour", "unknown key"),
        ("plugin: teams", "plugin", "must be one of slack, mattermost, matrix, generic"),
    ],
)
def test_what_cannot_be_meant_is_refused(text: str, path: str, words: str, errors: Errors) -> None:
    found = errors(f"chat: {{team: {{{text}}}}}")
    assert found[0]["path"] == f"chat.team.{path}"
    assert words in found[0]["message"]
    assert "hunter22" not in str(found)
