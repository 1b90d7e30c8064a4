"""The composition root: every object is built here, once, and handed on."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from manent_server import settings as configuration
from manent_server.domain import liveness
from manent_server.domain.errors import ConfigurationError, ManentError
from manent_server.engine.aim import is_template, texts
from manent_server.engine.control import Watch
from manent_server.engine.dispatch import Dispatcher
from manent_server.engine.identity import Identity, identify
from manent_server.engine.journey import Journey
from manent_server.engine.runtime import Pools, Runtime
from manent_server.engine.shop import Caps, Lifeline, Shop
from manent_server.engine.version import build
from manent_server.observability import log
from manent_server.observability.metrics import ExecutorBeat, Metrics
from manent_server.observability.redaction import MIN_LENGTH, Redactor
from manent_server.plugins import host as hosts
from manent_server.plugins.host import Host
from manent_server.plugins.runner import Runner
from manent_server.recovery.heartbeat import Heartbeat
from manent_server.recovery.start import Offer, Start
from manent_server.settings import Settings, fill
from manent_server.settings.reload import reload
from manent_server.sources.artifacts import Artifacts
from manent_server.sources.secrets import Secrets
from manent_server.store.engine import Engines, connect
from manent_server.store.transaction import Store
from manent_server.usecases import inspect, policy
from manent_server.usecases.admit import Admission
from manent_server.usecases.desk import Desk
from manent_server.worker.crew import Crew

_log = logging.getLogger(__name__)


def read(path: Path, environ: Mapping[str, str]) -> tuple[Settings, Host]:
    """The settings, and the plugins they are checked against.

    Raises:
        ConfigurationError: With everything that is wrong.
    """
    host = hosts.discover(configuration.external_plugins(path, environ=environ))

    def check(plugin: str, options: Mapping[str, Any]) -> list[tuple[str, str]]:
        if plugin in host.names():
            return [*host.check_options(plugin, options), *_check_templates(host, plugin, options)]
        return [("", f"plugin {plugin} is broken: {host.broken.get(plugin, 'unknown')}")]

    known = [*host.names(), *host.broken]
    return configuration.load(path, environ=environ, check_options=check, plugins=known), host


def _check_templates(host: Host, plugin: str, options: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Placeholders nobody would fill in, found before a deploy meets them."""
    found = []
    templates = host.plugin(plugin).templates
    for path, text in texts(options):
        wrong = fill.check(text) if is_template(path, templates) else None
        if wrong is not None:
            found.append((path, wrong))
    return found


@dataclass
class House:
    """What every command needs: settings in force, database, use cases."""

    settings: Settings
    host: Host
    environ: Mapping[str, str]
    engines: Engines
    store: Store
    dispatcher: Dispatcher
    admission: Admission
    redactor: Redactor
    metrics: Metrics

    def desk(self, report: Callable[[], Mapping[str, Any]]) -> Desk:
        """The use cases' collaborators."""
        return Desk(
            store=self.store,
            dispatcher=self.dispatcher,
            admission=self.admission,
            host=self.host,
            settings=lambda: self.settings,
            report=report,
            metrics=self.metrics,
        )

    def reload(self) -> None:
        """Take up what a reload may; a bad file changes nothing."""
        try:
            fresh, _ = read(self.settings.path, self.environ)
            new, waiting = reload(self.settings, fresh)
            with self.store.read() as tx:
                policy.demand_may_go(tx, self.settings, new)
        except ManentError as error:
            self.metrics.reload_failed()
            _log.error("reload changes nothing: %s %s", error.detail, list(error.errors))
            return
        self.settings = new
        policy.write(self.store, new, release=build(), by=new.executor_id)
        for environment in new.environments:
            self.admission(environment)
        for key in waiting:
            _log.warning("%s has changed and needs a restart", key)
        _log.info("reloaded %s", new.path)


def open_house(path: Path, environ: Mapping[str, str]) -> House:
    """Read the configuration and build what stands on it; no connection is opened.

    Raises:
        ConfigurationError: With everything that is wrong.
    """
    settings, host = read(path, environ)
    engines = _connect(settings, settings.database.pool)
    redactor = Redactor()
    password = engines.ours.url.password
    if password is not None and len(password) >= MIN_LENGTH:
        redactor.add([password])
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
    )


def _connect(settings: Settings, pool: int) -> Engines:
    return connect(
        settings.database.url,
        pool=pool,
        stale_after=settings.recovery.stale_after,
        folder=settings.path.absolute().parent,
    )


def watch_executors(house: House, desk: Desk) -> None:
    """Let the metrics show the registry."""
    house.metrics.watch_executors(
        lambda: [ExecutorBeat(name, is_up, at) for name, is_up, at in inspect.beats(desk)]
    )


def build_crew(house: House, on_lost: Callable[[], None]) -> Crew:
    """The worker of this process."""
    settings = house.settings
    identity = identify(settings.executor_id)
    # Two workers may share the folder: each keeps its own part of it.
    workdir = settings.worker.workdir.resolve() / identity.executor
    runner = Runner(
        external=settings.plugins.external,
        state_dir=workdir / "idle",
        warm=settings.worker.warm,
        processes=settings.worker.hook_processes,
        line_limit=settings.logs.line_limit,
    )
    shop = _shop(house, identity, runner, workdir)
    watch = Watch(house.store, runner, identity)
    offer = Offer(
        pools=settings.worker.pools,
        plugins=sorted(house.host.names()),
        configuration=settings.digest,
        stale_after=settings.recovery.stale_after,
    )
    pools = Pools(
        names=settings.worker.pools,
        concurrency=settings.worker.concurrency,
        polling_interval=settings.dbos.polling_interval,
    )
    return Crew(
        shop=shop,
        watch=watch,
        start=Start(house.store, house.dispatcher, identity, offer),
        heartbeat=Heartbeat(
            # A connection of its own: a full pool must not silence a healthy worker.
            Store(_connect(settings, 1)),
            identity,
            every=settings.recovery.heartbeat_interval,
            on_lost=on_lost,
        ),
        runtime=Runtime(house.engines, identity, pools, Journey(shop, watch)),
        drain_timeout=settings.dbos.drain_timeout,
    )


def _shop(house: House, identity: Identity, runner: Runner, workdir: Path) -> Shop:
    settings = house.settings
    return Shop(
        store=house.store,
        identity=identity,
        dispatcher=house.dispatcher,
        host=house.host,
        runner=runner,
        artifacts=Artifacts(workdir.parent / "artifacts"),
        secrets=Secrets(house.environ, settings.path.absolute().parent),
        redactor=house.redactor,
        metrics=house.metrics,
        caps=Caps(
            line=settings.logs.line_limit,
            deploy=settings.logs.deploy_limit,
            tail=settings.logs.tail,
            kill_grace=settings.worker.kill_grace,
        ),
        workdir=workdir,
        admit=house.admission,
        lifeline=Lifeline(),
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


def lease_length(settings: Settings) -> timedelta:
    """How long the lease of a loop lasts."""
    recovery = settings.recovery
    return liveness.loop_lease(recovery.heartbeat_interval, recovery.auto_recover_after)
