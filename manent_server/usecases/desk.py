"""The desk: what every use case works with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from manent_server.domain import names
from manent_server.domain.access import ALL, READ, Caller, Scope
from manent_server.domain.errors import NotFound
from manent_server.engine.dispatch import Dispatcher
from manent_server.engine.observing import Observer
from manent_server.observability.metrics import Metrics
from manent_server.plugins.host import Host
from manent_server.settings.values import Application, Environment, Placement, Settings
from manent_server.sources.issuers import Issuers
from manent_server.store import finding, installation
from manent_server.store.deploys import Deploy
from manent_server.store.transaction import Store, Transaction
from manent_server.usecases.admit import Admission
from manent_server.usecases.prospect import Prospect

STARTING = "starting"
"""The reason a process gives until its tables are ready."""


@dataclass(frozen=True)
class Desk:
    """Collaborators of the use cases.

    `settings` gives the policy this process read last; `report` names what this process
    itself does (`draining`, `running`, `reasons`) for readiness. What lies outside of `sight`
    does not exist for whoever works at this desk. `prospect` reads the files anew, and changes
    nothing. `observer` asks targets while nothing may begin, where this process runs hooks.
    """

    store: Store
    dispatcher: Dispatcher
    admission: Admission
    host: Host
    settings: Callable[[], Settings]
    report: Callable[[], Mapping[str, Any]]
    metrics: Metrics
    prospect: Callable[[], Prospect]
    sight: Scope = ALL
    issuers: Issuers = field(default_factory=Issuers)
    observer: Observer | None = None

    def seen_by(self, caller: Caller) -> "Desk":
        """The same desk for somebody who may not see everything."""
        sight = caller.scope(READ)
        return self if sight.is_everywhere else replace(self, sight=sight)

    def deploy(self, tx: Transaction, address: str) -> Deploy:
        """A deploy by its address.

        Raises:
            NotFound: There is none that can be seen here.
        """
        return finding.by_address(tx, address, sight=self.sight)

    def deploy_for(self, tx: Transaction, address: str, caller: Caller, right: str) -> Deploy:
        """A deploy somebody wants to act on.

        Raises:
            NotFound: There is none that can be seen here.
            NotAllowed: The caller sees it and lacks the right there.
        """
        row = self.deploy(tx, address)
        caller.demand(right, row.application, row.environment)
        return row

    def under(self, demand: Callable[[Transaction], None]) -> "Desk":
        """The same desk for whoever may write only while something holds; see `Store.under`."""
        store = self.store.under(demand)
        return replace(self, store=store, admission=self.admission.under(store))

    def opened(self) -> "Desk":
        """The same desk for whoever may write only while the database is not fenced."""
        return self.under(installation.demand_open)

    @property
    def url(self) -> str:
        """The public address, without a slash at its end."""
        return self.settings().server.url.rstrip("/")

    def environment(self, text: str) -> Environment:
        """A configured environment by the name someone gave."""
        everything = self.settings().environments
        known = {name: one for name, one in everything.items() if self.sight.touches(None, name)}
        name = names.name(text, "environment", known=known)
        if name not in known:
            raise _unknown("environment", name, known)
        return known[name]

    def application(self, text: str) -> Application:
        """A configured application by the name someone gave."""
        everything = self.settings().applications
        known = {name: one for name, one in everything.items() if self.sight.touches(name, None)}
        name = names.name(text, "application", known=known)
        if name not in known:
            raise _unknown("application", name, known)
        return known[name]

    def placement(self, application: Application, environment: Environment) -> Placement:
        """The application's settings in the environment."""
        known = self.places(application)
        if environment.name not in known:
            places = ", ".join(known) or "none"
            raise NotFound(
                f"{application.name} has no targets in {environment.name}",
                next=f"it has targets in: {places}",
            )
        return application.environments[environment.name]

    def demand_seen(self, application: str, environment: str) -> None:
        """Refuse a place that cannot be seen, as one where the application never was.

        Raises:
            NotFound: It lies out of sight.
        """
        if not self.sight.covers(application, environment):
            raise NotFound(
                f"{application} has no targets in {environment}",
                next="manent inventory shows where it runs",
            )

    def places(self, application: Application) -> list[str]:
        """The environments in which the application has targets, by name."""
        sees = self.sight.covers
        return sorted(name for name in application.environments if sees(application.name, name))


def _unknown(what: str, name: str, known: Mapping[str, Any]) -> NotFound:
    like = names.nearest(name, known)
    advice = f"did you mean {like}?" if like else f"known: {', '.join(sorted(known)) or 'none'}"
    return NotFound(f"there is no {what} {name}", next=advice)
