"""`manent-server serve`: one process from its first listener to its exit code."""

import logging
import secrets
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

from manent_server.api.app import create_app, create_probe_app
from manent_server.api.server import Front, Listener
from manent_server.bootstrap import crew as crews
from manent_server.bootstrap import machine, receivers
from manent_server.bootstrap.house import House
from manent_server.domain import duration
from manent_server.domain.errors import Unavailable
from manent_server.engine.migration import library
from manent_server.engine.version import WORKFLOW_VERSION, build
from manent_server.settings.checks import host_and_port
from manent_server.store import file_lock, migrate
from manent_server.store.engine import fold
from manent_server.usecases import policy
from manent_server.usecases.refuse import Refusals
from manent_server.worker import resolving
from manent_server.worker.crew import Crew
from manent_server.worker.fleet import Fleet
from manent_server.worker.jobs import jobs, retaining
from manent_server.worker.lookout import Lookout
from manent_server.worker.loops import Job, Loops
from manent_server.worker.process import RESTART_ME, Switches
from manent_server.worker.tally import Tally

_log = logging.getLogger(__name__)
_STOP = timedelta(seconds=5)
_LOOK = timedelta(seconds=1)


class Service:
    """One `serve` process, from its first listener to its exit code.

    Args:
        house: What it stands on.
        has_api: Whether it answers requests.
        runs: The workflow version its worker runs; None for no worker.
    """

    def __init__(self, house: House, *, has_api: bool, runs: str | None) -> None:
        self._house = house
        self._has_api = has_api
        self._runs = runs
        self._switches = Switches()
        self._crew: Crew | None = None
        self._couriers: Sequence[Fleet] = ()
        observer = crews.observer(house) if runs is not None else None
        self._desk = house.desk(self._report, observer=observer)
        self._probed = crews.probed(house, self._desk)
        self._spared = house.spared(self._desk)
        self._refusals = Refusals(house.store)
        self._lookout = Lookout(self._spared.store)
        self._receivers = receivers.jobs(house.settings, self._lookout)
        self._tally = Tally(self._refusals)
        self._guard = crews.guard(house)
        crews.watch(house, self._spared)

    def run(self) -> int:
        """The exit code: 0 after a drain, 75 for "restart me"."""
        self._switches.listen()
        self._house.chats.demand(self._house.settings)
        if self._runs is not None:
            # A worker writes there from the first moment on.
            machine.demand_folder("worker.workdir", self._house.settings.worker.workdir.absolute())
        self._house.dispatcher.open()
        with ExitStack() as stack:
            if self._house.engines.file is not None:
                stack.enter_context(file_lock.serving(self._house.engines.file))
            listeners = self._listen()
            for listener in listeners:
                listener.start()
                stack.callback(listener.stop, _STOP)
            return self._live()

    def _report(self) -> dict[str, Any]:
        crew = self._crew
        report = self._switches.report(crew.running if crew else lambda: 0)
        report["notes"] = self._guard.notes
        if self._guard.fence is not None:
            report["reasons"] = [self._guard.fence]
        if crew is not None and crew.is_fenced:
            report["reasons"].append("its leases have ended: no heartbeat was answered")
        elif crew is not None and crew.silence > self._house.settings.recovery.stale_after:
            # It reads and answers, so it is not taken out of service: a full disk, a standby.
            silent = f"no heartbeat was answered for {crew.silence.total_seconds():.0f} s"
            report["notes"] = [*report["notes"], f"{silent}: it counts as lost"]
        return report

    def _listen(self) -> list[Listener]:
        server = self._house.settings.server
        house = self._house
        listeners = []
        if self._has_api:
            made = create_app(
                self._desk,
                probed=self._probed,
                metrics=house.metrics,
                redactor=house.redactor,
                workflow_version=WORKFLOW_VERSION,
            )
            made.state.tracer = house.tracer
            made.state.refusals = self._refusals
            made.state.ear = crews.ear(house)
            front = Front(
                certificate=server.tls.certificate if server.tls else None,
                key=server.tls.key if server.tls else None,
                trusted_proxies=server.trusted_proxies,
            )
            listeners.append(Listener(made, *host_and_port(server.listen), front=front))
        if server.metrics_listen is not None:
            probes = create_probe_app(
                self._desk, probed=self._probed, metrics=house.metrics, redactor=house.redactor
            )
            address = host_and_port(server.metrics_listen)
            listeners.append(Listener(probes, *address, key="server.metrics_listen"))
        return listeners

    def _live(self) -> int:
        try:
            self._prepare()
            self._await_opening()
        except Unavailable:
            if self._switches.is_ended:
                return 0
            raise
        switches = self._switches
        sentry = crews.sentry(self._house, self._guard, switches.lose, switches.ask_reload)
        sentry.start()
        if self._runs is not None:
            crew = crews.build(self._house, self._switches.lose, version=self._runs)
            try:
                crew.begin(self._switches.wait)
            except Unavailable:
                return RESTART_ME if self._switches.is_lost else 0
            self._crew = crew
        # Replicas may share name and process id: each start is a holder of its own.
        holder = f"{self._house.settings.executor_id}:{secrets.token_hex(4)}"
        loops = Loops(
            self._spared,
            holder,
            [
                *jobs(self._house.settings, self._house.metrics, self._lookout),
                *self._receivers,
                *self._of_the_worker(),
            ],
            lasts=crews.lease_length(self._house.settings),
        )
        loops.start()
        self._tally.start()
        self._couriers = crews.couriers(self._house, self._spared, holder)
        for couriers in self._couriers:
            couriers.start()
        self._switches.is_ready = True
        _log.info("ready: %s", self._house.settings.server.url)
        code = self._switches.attend(lambda: self._house.reload(self._switches.is_over))
        return self._leave(loops, code)

    def _of_the_worker(self) -> list[Job]:
        """Loops that need what a worker has."""
        if self._crew is None:
            return []
        shop = self._crew.shop
        return [
            resolving.job(shop.artifacts.digest, shop.redactor, self._lookout),
            *retaining(self._house.settings, shop.artifacts),
        ]

    def _prepare(self) -> None:
        """The database up to date, the policy in force."""
        house = self._house

        def is_ended() -> bool:
            return self._switches.is_ended

        migrate.migrate(house.engines, library=library(), stop=is_ended)
        self._guard.look(is_ended)
        if house.is_outdated():
            # A reload that was asked for before this look is not seen to be one.
            self._switches.ask_reload()
        settings = house.settings
        policy.write(house.store, settings, release=build(), by=settings.executor_id, stop=is_ended)

    def _await_opening(self) -> None:
        """While a restored database is fenced requests are answered, and nothing begins.

        Raises:
            Unavailable: The process is to end.
        """
        while self._guard.fence is not None:
            if self._switches.wait(_LOOK):
                raise Unavailable("ended while fenced", next="start again")
            self._guard.look(lambda: self._switches.is_ended)

    def _leave(self, loops: Loops, code: int) -> int:
        if code != 0 and self._crew is not None:
            self._crew.abandon()
            return code
        if self._crew is not None:
            # Before anything is waited for: nothing is taken after the signal.
            self._crew.refuse()
        for couriers in self._couriers:
            couriers.stop()
        loops.stop()
        if self._crew is not None:
            _log.info("draining, at most %s", duration.show(self._crew.drain_timeout))
            self._crew.drain()
        for couriers in self._couriers:
            couriers.join()
        self._tally.stop()
        self._house.tracer.close()
        fold(self._house.engines)
        return RESTART_ME if self._switches.is_lost else code
