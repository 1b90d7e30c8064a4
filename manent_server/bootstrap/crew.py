"""The worker of a `serve` process, and what is counted there."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from manent_server.api import pulse
from manent_server.bootstrap import rota
from manent_server.bootstrap.house import House, connect_to
from manent_server.domain import liveness
from manent_server.engine.control import Watch
from manent_server.engine.identity import Identity, identify
from manent_server.engine.journey import Journey
from manent_server.engine.observing import AT_ONCE, Observer
from manent_server.engine.runtime import Pools, Runtime
from manent_server.engine.shop import Caps, Lifeline, Shop
from manent_server.observability.prompt import Prompt
from manent_server.observability.quota import Quota
from manent_server.plugins.runner import Runner
from manent_server.recovery.heartbeat import Heartbeat
from manent_server.recovery.start import Offer, Start
from manent_server.recovery.watcher import Watcher
from manent_server.settings import Settings
from manent_server.sources.artifacts import Artifacts
from manent_server.store.installation_file import Glance, InstallationFile
from manent_server.store.patience import give_up_after
from manent_server.store.transaction import REQUEST_PATIENCE, Store
from manent_server.usecases import carry, census
from manent_server.usecases.desk import Desk
from manent_server.usecases.guard import FENCE, Guard
from manent_server.usecases.hear import Ear
from manent_server.worker.couriers import Couriers
from manent_server.worker.crew import Crew
from manent_server.worker.fleet import Fleet
from manent_server.worker.readers import Readers
from manent_server.worker.sentry import Sentry

_LEAST_PATIENCE = timedelta(seconds=1)
_LOOK = timedelta(seconds=2)


def watch(house: House, desk: Desk) -> None:
    """Let the metrics show the installation, and what is configured and repeated here."""
    ask = Prompt(lambda: census.read(desk, rota.rests(desk)))
    house.metrics.watch_executors(lambda: ask().beats)
    house.metrics.watch_sinks(lambda: ask().sinks)
    house.metrics.watch_audit(lambda: (ask().unchained, ask().audit))
    house.metrics.watch_installation(lambda: ask().census)
    house.metrics.of_the_process.watch_repeats(house.store.repeats)
    house.metrics.of_the_process.watch_interval(lambda: _interval(house.settings))
    house.metrics.of_the_process.watch_patience(lambda: _patience(house.settings))


def _interval(settings: Settings) -> float:
    """How often pruning is due, in seconds; 0 while retention is off."""
    is_on = settings.retention.max_age > timedelta(0)
    return settings.retention.interval.total_seconds() if is_on else 0.0


def _patience(settings: Settings) -> float:
    """After how many seconds of silence a worker is taken over from; 0 while that is off."""
    return settings.recovery.auto_recover_after.total_seconds()


def build(house: House, on_lost: Callable[[], None], *, version: str) -> Crew:
    """The worker of this process, which runs deploys of one workflow version."""
    settings = house.settings
    identity = identify(settings.executor_id, version=version)
    # Two workers may share the folder: each keeps its own part of it.
    workdir = settings.worker.workdir.resolve() / identity.executor
    runner = Runner(
        external=settings.plugins.external,
        state_dir=workdir / "idle",
        warm=settings.worker.warm,
        processes=settings.worker.hook_processes,
        line_limit=settings.logs.line_limit,
    )
    house.metrics.of_the_process.watch_hooks(lambda: len(runner.running()))
    shop = _shop(house, identity, runner, workdir)
    watch = Watch(house.store, runner, identity, shop.leftovers)
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
            _own_line(settings),
            shop,
            watch,
            every=settings.recovery.heartbeat_interval,
            on_lost=on_lost,
            configuration=lambda: house.settings.digest,
        ),
        watcher=Watcher(house.desk(dict), identity.executor),
        runtime=Runtime(house.engines, identity, pools, Journey(shop, watch)),
        drain_timeout=settings.dbos.drain_timeout,
    )


def _own_line(settings: Settings) -> Store:
    """A connection of the heartbeat's own: a full pool must not silence a healthy worker.

    An answer that does not come is given up in time for another try before the worker is stale.
    """
    engines = connect_to(settings, 1)
    give_up_after(engines.ours, max(settings.recovery.stale_after / 2 * 0.8, _LEAST_PATIENCE))
    return Store(engines)


def _shop(house: House, identity: Identity, runner: Runner, workdir: Path) -> Shop:
    settings = house.settings
    return Shop(
        store=house.store,
        identity=identity,
        dispatcher=house.dispatcher,
        host=house.host,
        runner=runner,
        artifacts=Artifacts(workdir.parent / "artifacts"),
        secrets=house.secrets,
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
        max_recoveries=settings.recovery.max_recoveries,
        tracer=house.tracer,
        lease=liveness.attempt_lease(settings.recovery.auto_recover_after),
    )


def guard(house: House) -> Guard:
    """What keeps a restored database from beginning anything."""
    settings = house.settings
    return Guard(
        house.store,
        InstallationFile(settings.worker.workdir.resolve()),
        name=settings.executor_id,
        fences=settings.restore_guard == FENCE,
    )


def glance(house: House) -> None:
    """Look once, for a command on the database itself: no server may have looked at it yet.

    Raises:
        Unavailable: The database does not answer.
    """
    settings = house.settings
    if settings.restore_guard != FENCE:
        return
    folder = Glance(settings.worker.workdir.resolve())
    until = time.monotonic() + REQUEST_PATIENCE.total_seconds()
    Guard(house.store, folder, name=settings.executor_id, fences=True).look(
        lambda: time.monotonic() >= until
    )


def observer(house: House) -> Observer:
    """What asks targets what runs there, for the list of a restored database."""
    settings = house.settings

    def runner(folder: Path) -> Runner:
        return Runner(
            external=settings.plugins.external,
            state_dir=folder,
            warm=1,
            processes=AT_ONCE,
            line_limit=settings.logs.line_limit,
        )

    return Observer(house.host, house.secrets, house.redactor, runner)


def probed(house: House, desk: Desk) -> Desk:
    """The same desk for readiness: a pool that is used up is no database that is away."""
    engines = connect_to(house.settings, pulse.AT_ONCE)
    return replace(desk, store=desk.store.through(engines))


def sentry(
    house: House, guard: Guard, on_changed: Callable[[str], None], on_reload: Callable[[], None]
) -> Sentry:
    """Who looks, while the process lives, whether the database is still the same."""
    every = min(house.settings.recovery.heartbeat_interval, _LOOK)
    return Sentry(guard, every=every, on_changed=on_changed, on_reload=on_reload)


def couriers(house: House, desk: Desk, holder: str) -> Sequence[Fleet]:
    """Those who tell this installation's sinks and read its chats, in the name of one process."""
    carrier = carry.carriers(desk, house.secrets, house.redactor)
    lasts = lease_length(house.settings)
    return (
        Couriers(desk, holder, carrier, lasts=lasts),
        Readers(desk, holder, house.chats, lasts=lasts),
    )


def ear(house: House) -> Ear:
    """What one process hears chats with."""
    return Ear(house.chats, Quota())


def lease_length(settings: Settings) -> timedelta:
    """How long the lease of a loop lasts."""
    recovery = settings.recovery
    return liveness.loop_lease(recovery.heartbeat_interval, recovery.auto_recover_after)
