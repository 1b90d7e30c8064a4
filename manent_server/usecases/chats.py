"""The chats that are configured here, each ready to listen and to be told."""

import ipaddress
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from manent_server.domain.errors import ConfigurationError, ManentError
from manent_server.domain.secret import Secret
from manent_server.observability import webhook
from manent_server.observability.chats.generic import Generic
from manent_server.observability.chats.line import Chat, Line
from manent_server.observability.chats.matrix import Matrix
from manent_server.observability.chats.mattermost import Mattermost
from manent_server.observability.chats.sealing import Sealing
from manent_server.observability.chats.slack import Slack
from manent_server.observability.egress import Egress
from manent_server.observability.redaction import Redactor
from manent_server.settings import Settings, values
from manent_server.settings import chat as keys
from manent_server.sources.secrets import PREFIX, Secrets

SECOND: Final = timedelta(seconds=1)
PATH: Final = "/webhooks"
_NEXT: Final = "set the secret where manent-server is started, or take the chat out of manent.yml"


class Chats:
    """Makes chats of today's settings; secrets are looked up each time, as they may change.

    Args:
        secrets: Where tokens and signing secrets are.
        redactor: What may leave this server; it learns the secrets used here.
    """

    def __init__(self, secrets: Secrets, redactor: Redactor) -> None:
        self._secrets = secrets
        self._redactor = redactor
        self._egresses: dict[tuple[tuple[str, ...], float], Egress] = {}

    def open(self, settings: Settings, name: str) -> Chat | None:
        """The chat of that name; None if none is configured.

        Raises:
            ManentError: A secret of it cannot be had or used.
        """
        found = settings.chat.get(name)
        if found is None:
            return None
        secret = self._resolved(found.signing_secret)
        if found.plugin == keys.GENERIC:
            return Generic(self._egress(found), found.url, _whsec(name, secret))
        line = Line(self._egress(found), found.url or "", self._token(found))
        if found.plugin == keys.MATRIX:
            return Matrix(line, found.channel or "")
        signing = [each.encode() for each in secret]
        place = {"channel": found.channel or "", "team": found.team or "", "app": found.app or ""}
        sealing = Sealing(name, signing)
        if found.plugin == keys.SLACK:
            return Slack(line, signing, sealing, place)
        return Mattermost(line, sealing, place, f"{settings.server.url.rstrip('/')}{PATH}/{name}")

    def room(self, settings: Settings, name: str, *, timeout: float) -> Matrix | None:
        """A Matrix room to be read, by calls that may wait so many seconds."""
        found = settings.chat.get(name)
        if found is None or found.plugin != keys.MATRIX:
            return None
        egress = self._egress(found, more=timeout)
        line = Line(egress, found.url or "", self._token(found))
        return Matrix(line, found.channel or "")

    def clean(self, words: str | None) -> str | None:
        """What a person wrote, without any secret that is known here: it is stored and told."""
        return self._redactor.redact(words) if words else None

    def demand(self, settings: Settings) -> None:
        """Refuse chats that nobody could believe: every secret has to be there and long enough.

        Raises:
            ConfigurationError: Naming each that is not.
        """
        findings = []
        for name in settings.chat:
            try:
                self.open(settings, name)
            except ManentError as error:
                findings.append({"path": f"chat.{name}", "message": error.detail})
        if findings:
            words = "; ".join(f"{each['path']}: {each['message']}" for each in findings)
            raise ConfigurationError(words, next=_NEXT, errors=findings)

    def _token(self, found: values.Chat) -> str:
        return self._resolved([found.token] if found.token is not None else [])[0]

    def _resolved(self, given: Sequence[Secret]) -> list[str]:
        texts = [each.reveal() for each in given]
        found = [
            self._secrets.resolve(each).reveal() if each.startswith(PREFIX) else each
            for each in texts
        ]
        if any(len(each) < keys.SHORTEST for each in found):
            raise ConfigurationError(
                f"a secret of it has fewer than {keys.SHORTEST} characters", next=_NEXT
            )
        self._redactor.add([*found, *(each.removeprefix(webhook.PREFIX) for each in found)])
        return found

    def _egress(self, found: values.Chat, *, more: float = 0.0) -> Egress:
        """One for each kind of limits: it keeps what certificates are verified with."""
        limits = (found.allow_networks, found.timeout.total_seconds() + more)
        if limits not in self._egresses:
            timeout = found.timeout + more * SECOND
            self._egresses[limits] = Egress(found.allow_networks, timeout=timeout)
        return self._egresses[limits]


def may_come_from(found: values.Chat, address: str | None) -> bool:
    """Whether requests of a chat may come from there."""
    if not found.from_networks:
        return True
    try:
        client = ipaddress.ip_address(address or "")
    except ValueError:
        return False
    if isinstance(client, ipaddress.IPv6Address):
        client = client.ipv4_mapped or client  # as a listener for both has it
    return any(client in ipaddress.ip_network(network) for network in found.from_networks)


def _whsec(name: str, secrets: Sequence[str]) -> list[bytes]:
    try:
        return [webhook.key(each) for each in secrets]
    except ValueError as error:
        raise ConfigurationError(f"the secret of chat {name}: {error}", next=_NEXT) from None
