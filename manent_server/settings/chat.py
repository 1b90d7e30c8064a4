"""`chat` of manent.yml: where approvals are asked for, and who may answer for whom."""

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from manent_server.domain.secret import Secret
from manent_server.settings import checks, notify, values
from manent_server.settings.kinds import Choice, Duration, Or, Text
from manent_server.settings.structures import REQUIRED, Key, ListOf, Section, TableOf

SLACK: Final = "slack"
MATTERMOST: Final = "mattermost"
MATRIX: Final = "matrix"
GENERIC: Final = "generic"
SHORTEST: Final = 16
"""Characters a secret has at least: whoever guesses it decides for everybody."""
_REFERENCE: Final = "secret://"
_ID: Final = re.compile(r"[!-~]{1,255}")
_SLACK_URL: Final = "https://slack.com/api"

# What each has to say, and what it may; the rest would be read by nobody.
_NEEDS: Final[Mapping[str, tuple[str, ...]]] = {
    SLACK: ("token", "signing_secret", "channel", "team", "app"),
    MATTERMOST: ("url", "token", "signing_secret", "channel", "team"),
    MATRIX: ("url", "token", "channel"),
    GENERIC: ("signing_secret",),
}
_MAY: Final[Mapping[str, tuple[str, ...]]] = {
    SLACK: ("url",),
    MATTERMOST: ("from_networks",),
    MATRIX: (),
    GENERIC: ("url", "from_networks"),
}
_OWN: Final = ("url", "token", "signing_secret", "channel", "team", "app", "from_networks")


def _url(text: str) -> str:
    """The address of a chat's server."""
    if urlsplit(notify.url(text)).query:
        raise ValueError("must not hold a query")
    return text.rstrip("/")


def _secret(text: str) -> str:
    if not text.startswith(_REFERENCE) and len(text) < SHORTEST:
        raise ValueError(
            f"must be secret://env/NAME, secret://file/PATH or at least {SHORTEST} characters"
        )
    return text


def _id(text: str) -> str:
    if not _ID.fullmatch(text):
        raise ValueError("must be an id as the chat has it, not a name with spaces")
    return text


def _check(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    plugin = found["plugin"]
    wrong = [
        (name, f"the key {name} is missing: a chat of {plugin} needs it")
        for name in _NEEDS[plugin]
        if not found[name]
    ]
    known = {*_NEEDS[plugin], *_MAY[plugin]}
    return wrong + [
        (name, f"{name} means nothing for {plugin}")
        for name in _OWN
        if found[name] and name not in known
    ]


def _chat(**found: Any) -> values.Chat:
    url = found.pop("url")
    if url is None and found["plugin"] == SLACK:
        url = _SLACK_URL
    token, secrets = found.pop("token"), found.pop("signing_secret") or ()
    return values.Chat(
        url=url,
        token=Secret(token) if token is not None else None,
        signing_secret=tuple(map(Secret, secrets)),
        **found,
    )


_SECRET: Final = Text("name of a secret, or the secret", _secret)
_CHAT: Final = Section(
    (
        Key("plugin", Choice((SLACK, MATTERMOST, MATRIX, GENERIC)), REQUIRED, "which chat"),
        Key(
            "url",
            Or(Text("http(s) URL", _url)),
            "null",
            "server of mattermost or matrix; where generic is told; null for slack: its own",
        ),
        Key("token", Or(_SECRET), "null", "what our bot signs in with"),
        Key(
            "signing_secret",
            Or(notify.OneOrMore(_SECRET)),
            "null",
            "what shows that a request is the chat's; two while one is exchanged",
        ),
        Key("channel", Or(Text("id", _id)), "null", "id of the channel or room"),
        Key("team", Or(Text("id", _id)), "null", "id of the workspace or team; no other is heard"),
        Key("app", Or(Text("id", _id)), "null", "id of the app at slack; no other is heard"),
        Key(
            "from_networks",
            ListOf(Text("IP address or network", checks.network)),
            "[]",
            "from where its requests may come; [] = anywhere",
        ),
        Key(
            "allow_networks",
            ListOf(Text("IP address or network", notify.allowed)),
            "[]",
            "internal networks its server may be in, e.g. [10.0.0.0/8]; the internet always",
        ),
        Key("timeout", Duration(), "10s", "for telling it once"),
    ),
    _chat,
    _check,
)

CHAT: Final = Key("chat", TableOf(_CHAT, "chat"), "{}", "where approvals are asked for, by name")
