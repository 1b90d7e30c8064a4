"""`notify` of manent.yml: who is told what happens."""

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from manent_server.domain import events, names
from manent_server.domain.notice import PLUGINS, matches
from manent_server.domain.secret import Secret
from manent_server.settings import checks, values
from manent_server.settings.kinds import Choice, Duration, Name, Number, Text
from manent_server.settings.node import Listing, Node, Table
from manent_server.settings.reading import INVALID, Invalid, Reading
from manent_server.settings.structures import REQUIRED, SECTION, Key, ListOf, Section, TableOf

_REFERENCE: Final = "secret://"
_HOST: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252})|[0-9a-fA-F:.]+")


def url(text: str) -> str:
    """An address a webhook can be sent to."""
    wrong = ValueError("must be a URL such as https://hooks.example/deploys")
    try:
        parts = urlsplit(text)
        port, host = parts.port, parts.hostname
    except ValueError:
        raise wrong from None
    if parts.scheme not in ("http", "https") or not host or not _HOST.fullmatch(host):
        raise wrong
    if port == 0 or not text.isascii() or not text.isprintable() or " " in text:
        raise wrong
    if "@" in parts.netloc:
        raise ValueError("must not hold a user or password: receivers check the signature")
    if parts.fragment:
        raise ValueError("must not hold a part from # on: it is never sent")
    return text


def secret(text: str) -> str:
    """A signing secret, or the name of one."""
    if not text.startswith((_REFERENCE, "whsec_")):
        raise ValueError("must be secret://env/NAME, secret://file/PATH or whsec_ and base64")
    return text


def event(text: str) -> str:
    """The name of an event, or a beginning of some."""
    if any(matches(text, known) for known in events.KINDS):
        return text
    like = names.nearest(text, events.KINDS)
    hint = f"; did you mean {like}?" if like else ""
    raise ValueError(f"no event is called so{hint}; docs/reference/events.md lists them")


def allowed(text: str) -> str:
    """A network a notice may go to beside the internet."""
    network = checks.network(text)
    if ipaddress.ip_network(network).is_multicast:
        raise ValueError("must not be a multicast network")
    return network


def _webhook(*, url: str, secret: tuple[str, ...], **more: Any) -> values.Webhook:
    return values.Webhook(url=Secret(url), secret=tuple(Secret(each) for each in secret), **more)


@dataclass(frozen=True)
class OneOrMore:
    """A text, or a list of them."""

    kind: Text

    @property
    def words(self) -> str:
        """With the type of each."""
        return f"{self.kind.words}, or a list of them"

    def read(self, node: Node, reading: Reading) -> tuple[str, ...] | Invalid:
        """All of them."""
        if isinstance(node, Listing):
            return ListOf(self.kind, least=1, is_unique=True).read(node, reading)
        found = self.kind.read(node, reading)
        return INVALID if found is INVALID else (found,)


class Sinks(TableOf):
    """Sinks by name; one name is taken."""

    def read(self, node: Node, reading: Reading) -> Mapping[str, Any] | Invalid:
        """The sinks."""
        if isinstance(node, Table) and PLUGINS in node.entries:
            entry = node.entries[PLUGINS]
            message = "the sink of the plugins' hook deploy_event has this name; choose another"
            reading.findings.add(entry.place, entry.node.path, message)
        return super().read(node, reading)


_RETRY = Section(
    (
        Key("initial", Duration(), "5s", "wait before the second try"),
        Key("factor", Number(1), "3", "by how much each wait is longer than the one before"),
        Key("cap", Duration(), "1h", "longest wait"),
        Key("total", Duration(), "24h", "after it a notice is dead, until somebody resends it"),
    ),
    values.NoticeRetry,
)

_WEBHOOK = Section(
    (
        Key("plugin", Choice(("webhook",)), REQUIRED, "what it is told by"),
        Key("url", Text("http(s) URL", url), REQUIRED, "where events are sent by POST"),
        Key(
            "secret",
            OneOrMore(Text("name of a secret, or `whsec_` and base64", secret)),
            REQUIRED,
            "what they are signed with; while it is exchanged, the new and the old one",
        ),
        Key(
            "events",
            ListOf(Text("name of an event, or a beginning and *", event), least=1),
            "[deploy.*]",
            "which events; docs/reference/events.md lists them",
        ),
        Key("applications", ListOf(Name("application")), "[]", "of which; [] = all"),
        Key("environments", ListOf(Name("environment")), "[]", "of which; [] = all"),
        Key(
            "allow_networks",
            ListOf(Text("IP address or network", allowed)),
            "[]",
            "internal networks it may be in, e.g. [10.0.0.0/8]; the internet always",
        ),
        Key("timeout", Duration(), "10s", "for one try in all"),
        Key("retry", _RETRY, SECTION, "how it is tried again"),
    ),
    _webhook,
)

NOTIFY: Final = Key("notify", Sinks(_WEBHOOK, "sink"), "{}", "who is told what happens, by name")
