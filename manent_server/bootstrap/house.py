"""What every command stands on: settings in force, plugins, the database, use cases."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from manent_server import settings as configuration
from manent_server.domain.errors import ConfigurationError, ManentError, Unavailable
from manent_server.domain.secret import Secret
from manent_server.engine.dispatch import Dispatcher
from manent_server.engine.observing import Observer
from manent_server.engine.version import build
from manent_server.observability import log, trace
from manent_server.observability.metrics import Metrics
from manent_server.observability.redaction import MIN_LENGTH, Redactor, in_variables
from manent_server.observability.trace import Tracer
from manent_server.plugins import host as hosts
from manent_server.plugins.host import Host
from manent_server.settings import Settings, fill
from manent_server.settings.reload import changed, is_outdated, reload
from manent_server.sources import secrets
from manent_server.sources.secrets import Secrets
from manent_server.store.engine import Engines, connect
from manent_server.store.repeat import never
from manent_server.store.transaction import Store
from manent_server.usecases import policy, sinks
from manent_server.usecases.admit import Admission
from manent_server.usecases.chats import Chats
from manent_server.usecases.desk import Desk
from manent_server.usecases.prospect import Prospect

_log = logging.getLogger(__name__)


def read(path: Path, environ: Mapping[str, str]) -> tuple[Settings, Host]:
    """The settings, and the plugins they are checked against.

    Raises:
        ConfigurationError: With everything that is wrong.
    """
    if not path.exists():
        raise ConfigurationError(
            f"there is no {path}",
            next="name the file by --config or MANENT_CONFIG, or write a first one: "
            "manent-server init",
        )
    host = hosts.discover(configuration.external_plugins(path, environ=environ))

    def check(plugin: str, options: Mapping[str, Any]) -> list[tuple[str, str]]:
        if plugin in host.names():
            return [
                *host.check_options(plugin, options),
                *_check_templates(host, plugin, options),
                *_check_references(options),
            ]
        return [("", f"plugin {plugin} is broken: {host.broken.get(plugin, 'unknown')}")]

    settings = configuration.load(
        path,
        environ=environ,
        check_options=check,
        plugins=[*host.names(), *host.broken],
        needs_artifact=[name for name in host.names() if host.plugin(name).needs_artifact],
    )
    return settings, host


def _check_templates(host: Host, plugin: str, options: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Placeholders nobody would fill in, found before a deploy meets them."""
    found = []
    templates = host.plugin(plugin).templates
    for path, text in fill.texts(options):
        wrong = fill.check(text) if fill.is_template(path, templates) else None
        if wrong is not None:
            found.append((path, wrong))
    return found


def _check_references(options: Mapping[str, Any]) -> list[tuple[str, str]]:
    """References that no server could resolve; whether a value is there only a worker can say."""
    found = []
    for path, text in fill.texts(options):
        wrong = secrets.check(text) if text.startswith(secrets.PREFIX) else None
        if text.startswith(fill.CONFIG_PREFIX):
            wrong = f"{text}: this version has no source of configuration keys"
        if wrong is not None:
            found.append((path, wrong))
    return found


@dataclass
class House:
    """What every command needs: settings in force, database, use cases."""

    settings: Settings
    host: Host
    environ: Mapping[str, str] = field(repr=False)
    engines: Engines
    store: Store
    dispatcher: Dispatcher
    admission: Admission
    redactor: Redactor
    metrics: Metrics
    tracer: Tracer

    @property
    def secrets(self) -> Secrets:
        """Where secrets are."""
        return Secrets(self.environ, self.settings.path.absolute().parent)

    @property
    def chats(self) -> Chats:
        """The chats by the settings in force when one is opened."""
        return Chats(self.secrets, self.redactor)

    def desk(
        self, report: Callable[[], Mapping[str, Any]], *, observer: Observer | None = None
    ) -> Desk:
        """The use cases' collaborators."""
        return Desk(
            store=self.store,
            dispatcher=self.dispatcher,
            admission=self.admission,
            host=self.host,
            settings=lambda: self.settings,
            report=report,
            metrics=self.metrics,
            prospect=self.prospect,
            observer=observer,
        )

    def spared(self, desk: Desk) -> Desk:
        """The same desk for loops and the like: half of the connections are left to others."""
        store = desk.store.sparing(max(1, self.settings.database.pool // 2))
        return replace(desk, store=store, admission=desk.admission.under(store))

    def prospect(self) -> Prospect:
        """What a reload would come to; nothing is changed.

        Raises:
            ManentError: It would be refused.
        """
        fresh, _ = read(self.settings.path, self.environ)
        new, waiting = reload(self.settings, fresh)
        self.chats.demand(new)
        with self.store.read() as tx:
            going = policy.demand_may_go(tx, self.settings, new)
        return Prospect(new, waiting, going, changed(self.settings, new))

    def own_prospect(self) -> Prospect:
        """The same of a process that serves nothing and has just read its files.

        Secrets of chats are asked for where they are used: they need not be known here.

        Raises:
            ManentError: No process may take that up.
        """
        with self.store.read() as tx:
            going = policy.demand_may_go(tx, None, self.settings)
        return Prospect(self.settings, (), going)

    def is_outdated(self) -> bool:
        """Whether the files were changed since they were read."""
        return is_outdated(self.settings, environ=self.environ)

    def reload(self, stop: Callable[[], bool] = never) -> None:
        """Take up what a reload may; a bad file changes nothing, and no failure ends the process.

        Args:
            stop: Asked while the database does not answer.
        """
        try:
            self._reload(stop)
        except ManentError as error:
            self.metrics.reload_failed()
            rest = [] if len(error.errors) == 1 else [_in_words(one) for one in error.errors]
            _log.error("reload changes nothing: %s", "; ".join([error.detail, *rest]))
        except Exception:  # noqa: BLE001 - logged whole; deploys run in this process
            self.metrics.reload_failed()
            _log.exception("reload failed")

    def _reload(self, stop: Callable[[], bool]) -> None:
        found = self.prospect()
        new = found.settings
        policy.write(self.store, new, release=build(), by=new.executor_id, stop=stop)
        self.settings = new
        for need in found.going:
            _log.warning("%s, which goes; it ends as it was accepted", need.words)
        for key in found.waiting:
            _log.warning("%s has changed and needs a restart", key)
        self._tell_of_reload(stop)
        _log.info("reloaded %s", new.path)

    def _tell_of_reload(self, stop: Callable[[], bool]) -> None:
        """What the settings in force mean for others; the loops see to what fails here."""
        try:
            sinks.turn_all_on(self.store, by=self.settings.executor_id)
        except Unavailable as error:
            _log.warning("sinks that are off stay so: %s", error.detail)
        for environment in self.settings.environments:
            if stop():
                return
            self.admission(environment)


def _in_words(found: Mapping[str, Any]) -> str:
    return f"{found.get('file')}:{found.get('line')}: {found.get('path')}: {found.get('message')}"


def open_house(path: Path, environ: Mapping[str, str]) -> House:
    """Read the configuration and build what stands on it; no connection is opened.

    Raises:
        ConfigurationError: With everything that is wrong.
    """
    settings, host = read(path, environ)
    engines = connect_to(settings, settings.database.pool)
    redactor = Redactor(_known_secrets(environ, engines.ours.url.password))
    log.configure(settings.server.log.level, settings.server.log.format, redactor)
    store = Store(engines)
    stale_after = settings.recovery.stale_after
    dispatcher = Dispatcher(engines, stale_after=stale_after)
    return House(
        settings=settings,
        host=host,
        environ=environ,
        engines=engines,
        store=store,
        dispatcher=dispatcher,
        admission=Admission(store, dispatcher, stale_after=stale_after),
        redactor=redactor,
        metrics=Metrics(),
        tracer=trace.tracer(environ),
    )


def _known_secrets(environ: Mapping[str, str], password: str | None) -> list[Secret]:
    """What must not be shown from the first line of the log on.

    Variables whose names say so are secrets, whoever reads them: a `${NAME}` in manent.yml, a hook,
    a library. What `secret://` names is learned when it is read.
    """
    found = in_variables(environ)
    if password is not None and len(password.strip()) >= MIN_LENGTH:
        found.append(Secret(password))
    return found


def connect_to(settings: Settings, pool: int) -> Engines:
    """Engines of their own for the configured database, with at most `pool` connections."""
    return connect(
        settings.database.url.reveal(),
        pool=pool,
        stale_after=settings.recovery.stale_after,
        folder=settings.path.absolute().parent,
    )


def demand_environment(environ: Mapping[str, str]) -> None:
    """Refuse MANENT_ variables nobody reads.

    Raises:
        ConfigurationError: Naming each of them.
    """
    findings = configuration.check_environment(environ)
    if findings:
        raise ConfigurationError(
            f"unknown variable {findings[0]['path']}",
            next="take it out of the environment of manent-server",
            errors=findings,
        )
