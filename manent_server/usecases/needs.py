"""Needs: live deploys that need what a changed configuration no longer has."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from manent_server.settings.values import Settings
from manent_server.store import deploys
from manent_server.store.deploys import Deploy
from manent_server.store.transaction import Store


@dataclass(frozen=True)
class Live:
    """What a live deploy was accepted with."""

    id: str
    application: str
    environment: str
    plugin: str
    targets: Sequence[str]


@dataclass(frozen=True)
class Need:
    """One thing that a deploy needs and that would go.

    A target may go: its settings are frozen in the order. The rest is `binding`: without it
    the deploy cannot be seen through.
    """

    deploy: str
    what: str
    name: str
    place: str

    @property
    def is_binding(self) -> bool:
        """Whether the deploy cannot end without it."""
        return self.what != "target"

    @property
    def words(self) -> str:
        """The need as a sentence."""
        return f"live deploy {self.deploy} of {self.place} needs {self.what} {self.name}"


def of_row(row: Deploy) -> Live:
    """A live deploy as this database knows it."""
    body = row.order_body
    targets = [name for wave in body["waves"] for name in wave]
    return Live(row.id, row.application, row.environment, body["plugin"], targets)


def of_json(deploy: Mapping[str, Any]) -> Live:
    """A live deploy as the API shows it."""
    return Live(
        deploy["id"],
        deploy["application"],
        deploy["environment"],
        deploy["plugin"],
        list(deploy["targets"]),
    )


def read(store: Store) -> list[Live]:
    """Every live deploy of a database."""
    with store.read() as tx:
        return [of_row(row) for row in deploys.live(tx)]


def missing(
    live: Iterable[Live], settings: Settings, *, plugins: Collection[str] | None = None
) -> list[Need]:
    """What they need and these settings lack, deploy by deploy.

    Args:
        live: The deploys.
        settings: The configuration they would have to live with.
        plugins: The plugins that would be there; None asks nothing of plugins.
    """
    return [need for deploy in live for need in _missing(deploy, settings, plugins)]


def _missing(deploy: Live, settings: Settings, plugins: Collection[str] | None) -> list[Need]:
    place = f"{deploy.application} in {deploy.environment}"
    found = [Need(deploy.id, what, name, place) for what, name in _places(deploy, settings)]
    if plugins is not None and deploy.plugin not in plugins:
        found.append(Need(deploy.id, "plugin", deploy.plugin, place))
    return found


def _places(deploy: Live, settings: Settings) -> list[tuple[str, str]]:
    if deploy.environment not in settings.environments:
        return [("environment", deploy.environment)]
    application = settings.applications.get(deploy.application)
    if application is None:
        return [("application", deploy.application)]
    placement = application.environments.get(deploy.environment)
    if placement is None:
        return [("application", f"{deploy.application} with targets in {deploy.environment}")]
    return [("target", name) for name in deploy.targets if name not in placement.targets]
