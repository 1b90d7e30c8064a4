"""Carry: the ways a sink is told, by a webhook or by the plugins' own hook."""

import logging
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from manent_server.domain import cdevents
from manent_server.domain.chat import SINK
from manent_server.domain.errors import ManentError
from manent_server.domain.notice import PLUGINS
from manent_server.observability import webhook
from manent_server.observability.egress import Egress, Unreached
from manent_server.observability.redaction import Redactor
from manent_server.settings.values import Webhook
from manent_server.sources.secrets import PREFIX, Secrets
from manent_server.store.notices import Notice
from manent_server.usecases import view
from manent_server.usecases.chats import Chats
from manent_server.usecases.deliver import Carrier, Receipt
from manent_server.usecases.desk import Desk
from manent_server.usecases.tell import Telling

_log = logging.getLogger(__name__)
_RECEIVED: Final = 200


class Webhooks:
    """Tells a receiver by HTTP.

    Args:
        hook: Whom, by today's configuration.
        url: The public address of this server.
        secrets: Where signing secrets are.
        redactor: What may leave this server; it learns the secrets used here.
    """

    def __init__(self, hook: Webhook, url: str, secrets: Secrets, redactor: Redactor) -> None:
        self._hook = hook
        self._url = url
        self._secrets = secrets
        self._redactor = redactor
        self._egress = Egress(hook.allow_networks, timeout=hook.timeout)

    @property
    def limit(self) -> timedelta:
        """The time for one try; resolving a name comes on top."""
        return self._hook.timeout + timedelta(seconds=20)

    def lacking(self) -> str | None:
        """A secret that cannot be read or used."""
        try:
            self._keys()
        except ManentError as error:
            return self._redactor.redact(error.detail)
        except ValueError as error:
            return f"the secret cannot be used: {error}"
        return None

    def carry(self, notice: Notice, *, at: datetime) -> Receipt:
        """POST the event, signed."""
        try:
            keys = self._keys()
            content = self._content(notice)
            message, moment = notice.event.id, int(at.timestamp())
            headers = webhook.headers(keys, message=message, timestamp=moment, content=content)
            answer = self._egress.post(self._hook.url.reveal(), headers=headers, content=content)
        except Unreached as error:
            return Receipt(None, self._redactor.redact(str(error)))
        except ManentError as error:
            return Receipt(None, self._redactor.redact(error.detail))
        except ValueError as error:
            return Receipt(None, f"the secret cannot be used: {error}")
        return Receipt(answer.status, retry_after=answer.retry_after)

    def _keys(self) -> list[bytes]:
        given = [each.reveal() for each in self._hook.secret]
        found = [
            self._secrets.resolve(each).reveal() if each.startswith(PREFIX) else each
            for each in given
        ]
        # An address may be a secret too: whoever knows it may post there.
        self._redactor.add([*found, *(each.removeprefix(webhook.PREFIX) for each in found)])
        self._redactor.add([self._hook.url])
        return [webhook.key(each) for each in found]

    def _content(self, notice: Notice) -> bytes:
        event = self._redactor.redact_value(view.event(notice.event))
        return webhook.content(cdevents.cloud_event(event, url=self._url))


class Hooks:
    """Tells the plugins, by their hook `deploy_event`."""

    limit = timedelta(minutes=1)

    def __init__(self, desk: Desk, redactor: Redactor) -> None:
        self._desk = desk
        self._redactor = redactor

    def lacking(self) -> str | None:
        """Plugins need nothing."""
        return None

    def carry(self, notice: Notice, *, at: datetime) -> Receipt:
        """Call each plugin once; what one raises keeps nobody else from hearing."""
        del at
        for target in self._desk.host.listeners:
            event: Mapping[str, Any] = self._redactor.redact_value(view.event(notice.event))
            try:
                target.tell(event)
            except (Exception, SystemExit):  # noqa: BLE001 - logged whole; it is only told
                _log.exception("deploy_event of plugin %s failed", target.name)
                self._desk.metrics.deploy_event_failed(target.name)
        return Receipt(_RECEIVED)


def carriers(desk: Desk, secrets: Secrets, redactor: Redactor) -> Callable[[str], Carrier | None]:
    """How each sink is told by today's configuration; None for one that is not there."""
    made: dict[str, tuple[Webhook, Webhooks]] = {}
    chats = Chats(secrets, redactor)

    def carrier(name: str) -> Carrier | None:
        if name == PLUGINS:
            return Hooks(desk, redactor)
        if name.startswith(SINK):
            chat = name.removeprefix(SINK)
            found = desk.settings().chat.get(chat)
            return Telling(desk, chats, redactor, chat, found) if found else None
        hook = desk.settings().notify.get(name)
        if hook is None:
            return None
        if name not in made or made[name][0] != hook:
            made[name] = hook, Webhooks(hook, desk.url, secrets, redactor)
        return made[name][1]

    return carrier
