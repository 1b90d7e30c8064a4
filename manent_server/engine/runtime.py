"""The engine's life in this process: launched by a worker only, and once."""

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

from dbos import DBOS, DBOSConfig, WorkflowSerializationFormat

from manent_server.engine.dispatch import APPLICATION, WORKFLOW
from manent_server.engine.identity import Identity
from manent_server.store.engine import Engines
from manent_server.store.repeat import Outages, never, until_answered

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pools:
    """The pools this worker takes from; the limits belong to each pool, in its queue's row."""

    names: Sequence[str]
    concurrency: int
    polling_interval: timedelta


class Runtime:
    """Delivers dispatches to `journey` until it is destroyed."""

    def __init__(
        self,
        engines: Engines,
        identity: Identity,
        pools: Pools,
        journey: Callable[[str, int], None],
    ) -> None:
        self._engines = engines
        self._identity = identity
        self._pools = pools
        self._journey = journey
        self._active = 0
        self._changed = threading.Condition()

    def launch(self, *, stop: Callable[[], bool] = never) -> None:
        """Take from the queues from now on, as soon as the database answers.

        The engine's recovery at launch finds nothing: no earlier start had this id.

        Args:
            stop: Asked before each further try.

        Raises:
            Unavailable: `stop` said so.
        """
        outages = Outages(self._engines.url)
        until_answered(self._launch, outages, patience=None, stop=stop)
        for name in self._pools.names:
            until_answered(partial(self._queue, name), outages, patience=None, stop=stop)

    def _launch(self) -> None:
        config: DBOSConfig = {
            "name": APPLICATION,
            "system_database_engine": self._engines.dbos,
            "executor_id": self._identity.engine_id,
            "application_version": self._identity.version,
            "run_migrations": False,
            "use_listen_notify": False,
            "enable_otlp": False,
            "log_level": "WARNING",
        }
        DBOS(config=config)
        self._register()
        DBOS.listen_queues(list(self._pools.names))
        try:
            DBOS.launch()
        except BaseException:
            # A launch that failed half way is not to be repeated; a new one is.
            DBOS.destroy(destroy_registry=True)
            raise

    def _register(self) -> None:
        journey = self._journey

        @DBOS.workflow(
            name=WORKFLOW,
            max_recovery_attempts=None,
            serialization_type=WorkflowSerializationFormat.PORTABLE,
        )
        def deploy(deploy_id: str, number: int) -> None:
            with self._changed:
                self._active += 1
            try:
                journey(deploy_id, number)
            finally:
                with self._changed:
                    self._active -= 1
                    self._changed.notify_all()

    def _queue(self, name: str) -> None:
        before = DBOS.retrieve_queue(name)
        interval = self._pools.polling_interval.total_seconds()
        mine = (self._pools.concurrency, interval)
        if before is not None:
            stored = (before.worker_concurrency, before.polling_interval_sec)
            if stored != mine:
                _log.warning(
                    "pool %s had (worker.concurrency, polling_interval) %s; now %s, for all of "
                    "its workers",
                    name,
                    stored,
                    mine,
                )
        DBOS.register_queue(
            name,
            worker_concurrency=self._pools.concurrency,
            polling_interval_sec=interval,
            on_conflict="always_update",
        )

    def wait_idle(self, limit: timedelta) -> bool:
        """Whether no dispatch runs any more, waiting at most `limit`."""
        with self._changed:
            return self._changed.wait_for(lambda: self._active == 0, limit.total_seconds())

    def destroy(self, *, limit: timedelta) -> None:
        """Stop taking, wait for what runs at most `limit`, let go."""
        DBOS.destroy(
            destroy_registry=True, workflow_completion_timeout_sec=int(limit.total_seconds())
        )
