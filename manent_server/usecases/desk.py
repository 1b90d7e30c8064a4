"""The desk: what every use case works with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from manent_server.domain import names
from manent_server.domain.errors import NotFound
from manent_server.engine.dispatch import Dispatcher
from manent_server.observability.metrics import Metrics
from manent_server.plugins.host import Host
from manent_server.settings.values import Application, Environment, Placement, Settings
from manent_server.store.transaction import Store, Transaction
from manent_server.usecases.admit import Admission

STARTING = "starting"
"""The reason a process gives until its tables are ready."""


@dataclass(frozen=True)
class Desk:
    """Collaborators of the use cases.

    `settings` gives the policy this process read last; `report` names what this process
    itself does (`draining`, `running`, `reasons`) for readiness.
    """

    store: Store
    dispatcher: Dispatcher
    admission: Admission
    host: Host
    settings: Callable[[], Settings]
    report: Callable[[], Mapping[str, Any]]
    metrics: Metrics

    def under(self, demand: Callable[[Transaction], None]) -> "Desk":
        """The same desk for whoever may write only while something holds; see `Store.under`."""
        store = self.store.under(demand)
        return replace(self, store=store, admission=self.admission.under(store))

    @property
    def url(self) -> str:
        """The public address, without a slash at its end."""
        return self.settings().server.url.rstrip("/")

    def environment(self, text: str) -> Environment:
        """A configured environment by the name someone gave."""
        known = self.settings().environments
        name = names.name(text, "environment", known=known)
        if name not in known:
            raise _unknown("environment", name, known)
        return known[name]

    def application(self, text: str) -> Application:
        """A configured application by the name someone gave."""
        known = self.settings().applications
        name = names.name(text, "application", known=known)
        if name not in known:
            raise _unknown("application", name, known)
        return known[name]

    def placement(self, application: Application, environment: Environment) -> Placement:
        """The application's settings in the environment."""
        if environment.name not in application.environments:
            places = ", ".join(sorted(application.environments)) or "none"
            raise NotFound(
                f"{application.name} has no targets in {environment.name}",
                next=f"it has targets in: {places}",
            )
        return application.environments[environment.name]


def _unknown(what: str, name: str, known: Mapping[str, Any]) -> NotFound:
    like = names.nearest(name, known)
    advice = f"did you mean {like}?" if like else f"known: {', '.join(sorted(known)) or 'none'}"
    return NotFound(f"there is no {what} {name}", next=advice)
