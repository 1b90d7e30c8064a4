"""Which leases some process should hold, and how long each may be nobody's between two rounds."""

from collections.abc import Mapping
from datetime import timedelta

from manent_server.recovery import watcher
from manent_server.retention import prune
from manent_server.settings import Settings
from manent_server.settings.chat import MATRIX
from manent_server.usecases import receivers, sinks
from manent_server.usecases.desk import Desk
from manent_server.usecases.examine import Rota
from manent_server.worker import couriers, readers, resolving
from manent_server.worker.jobs import WHILE_RETAINING, jobs
from manent_server.worker.lookout import Lookout

AT_ONCE = timedelta(0)


def rota(desk: Desk, lasts: timedelta) -> Rota:
    """The same for who looks at an installation from outside."""
    mine = of_workers(desk.settings())
    everywhere = {name: rest for name, rest in rests(desk).items() if name not in mine}
    # Given up after each round: nobody has it in between, however long a lease lasts.
    mine = {**mine, prune.LEASE: max(mine[prune.LEASE], lasts)}
    return Rota(everywhere, mine, lasts)


def rests(desk: Desk) -> Mapping[str, timedelta]:
    """By lease: after how long without a holder its next round should have begun.

    By the settings in force now: what a reload takes away nobody misses.
    """
    settings = desk.settings()
    everyone = jobs(settings, desk.metrics, Lookout(desk.store))
    found = {job.name: job.every for job in everyone if job.is_alone}
    found |= {"audit": AT_ONCE}
    found |= {f"outbox:audit:{name}": AT_ONCE for name in receivers.known(desk)}
    found |= {f"outbox:{sink.name}": couriers.EVERY for sink in sinks.known(desk)}
    found |= {
        f"chat:{name}": readers.EVERY
        for name, chat in settings.chat.items()
        if chat.plugin == MATRIX
    }
    return {**found, **of_workers(settings)}


def of_workers(settings: Settings) -> Mapping[str, timedelta]:
    """Those that only a process with a worker holds."""
    found = {resolving.LEASE: resolving.EVERY}
    found[prune.LEASE] = min(settings.retention.interval, WHILE_RETAINING)
    if settings.recovery.auto_recover_after > timedelta(0):
        found[watcher.LEASE] = AT_ONCE
    return found
