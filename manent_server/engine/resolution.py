"""Resolution: what a deploy would bring, found out before it is approved and again at its start.

Both ask the same places in the same way, so that a difference is one of the things themselves.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from manent_server.domain import awaiting
from manent_server.domain import order as orders
from manent_server.domain.awaiting import Content
from manent_server.domain.order import Order
from manent_server.settings.fill import fill
from manent_server.store.deploys import Deploy

Read = Callable[[str], Deploy | None]
Digest = Callable[[str, str | None], str]


@dataclass(frozen=True)
class Sources:
    """Where things are read: other deploys by id, the digest of what lies at an address."""

    read: Read
    digest: Digest

    def earlier(self, deploy: str | None) -> Deploy | None:
        """Another deploy, if one is named."""
        return None if deploy is None else self.read(deploy)


@dataclass(frozen=True)
class Resolved:
    """Per target the filled-in address and digest of its artifact; the configuration."""

    artifacts: Mapping[str, Mapping[str, str]]
    configuration: Mapping[str, Any]

    @property
    def configuration_digest(self) -> str | None:
        """SHA-256 of the configuration; None where there is none."""
        return orders.digest(dict(self.configuration)) if self.configuration else None

    def as_rows(self) -> dict[str, Any]:
        """What a deploy stores of it."""
        return {
            "artifacts": {name: dict(one) for name, one in self.artifacts.items()},
            "configuration": dict(self.configuration),
            "configuration_digest": self.configuration_digest,
        }


def resolve(deploy: Deploy, order: Order, sources: Sources) -> Resolved:
    """Read what the deploy refers to outside of manent.

    Raises:
        ManentError: Something is not to be had, now or ever.
    """
    return Resolved(_artifacts(deploy, order, sources), _configuration(deploy, order, sources))


def _artifacts(deploy: Deploy, order: Order, sources: Sources) -> dict[str, dict[str, str]]:
    # A rerun brings what its deploy brought, as a rollback what ran before: by their digests.
    source = sources.earlier(deploy.rerun_of) or sources.earlier(deploy.rollback_to)
    stored = (source.prepared or {}).get("artifacts", {}) if source is not None else {}
    found: dict[str, dict[str, str]] = {
        name: dict(stored[name]) for name in order.targets if name in stored
    }
    if order.artifact is None:
        return found
    for target in order.targets:
        if target in found:
            continue
        url = _url(deploy, order.artifact.url, target)
        known = next((a for a in found.values() if a["url"] == url), None)
        pinned = deploy.sha256 or order.artifact.sha256
        found[target] = {
            "url": url,
            "sha256": known["sha256"] if known else sources.digest(url, pinned),
        }
    return found


def _url(deploy: Deploy, template: str, target: str) -> str:
    return fill(
        template,
        application=deploy.application,
        environment=deploy.environment,
        target=target,
        version=deploy.version,
    )


def _configuration(deploy: Deploy, order: Order, sources: Sources) -> dict[str, Any]:
    """The snapshot of the deploy gone back to; nothing else has a source yet."""
    gone_back = None if order.current_configuration else sources.earlier(deploy.rollback_to)
    return dict((gone_back.prepared or {}).get("configuration", {})) if gone_back else {}


def content(deploy: Deploy, found: Resolved) -> Content:
    """What is approved of a deploy that would bring this."""
    return Content(
        application=deploy.application,
        environment=deploy.environment,
        kind=deploy.kind,
        version=deploy.version,
        order=deploy.order_digest,
        artifacts=found.artifacts,
        configuration={key: orders.digest(value) for key, value in found.configuration.items()},
        returns_to=deploy.rollback_to,
    )


def digest(content: Content) -> str:
    """The digest votes are bound to."""
    return orders.digest(awaiting.body(content))
