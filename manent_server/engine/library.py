"""The engine's own tables: made by the engine, under our lock."""

from collections.abc import Callable
from importlib import metadata

from dbos import DBOS, DBOSConfig

from manent_server.engine.dispatch import APPLICATION
from manent_server.engine.version import WORKFLOW_VERSION
from manent_server.store.engine import Engines
from manent_server.store.migrate import Library


def library() -> Library:
    """What `migrate` needs to know of the engine."""
    return Library(version=metadata.version("dbos"), migrate=_migrate)


def _migrate(engines: Engines, stop: Callable[[], bool]) -> None:
    """Launch the engine once without a queue: its only public way to migrate as configured.

    `DBOS.migrate` would create triggers for LISTEN/NOTIFY, which is off here from the start.
    """
    if stop():
        return
    # Statements of a migration have no time limit; on SQLite only the engine made for it fits.
    engine = engines.dbos if engines.dialect == "sqlite" else engines.lone
    config: DBOSConfig = {
        "name": APPLICATION,
        "system_database_engine": engine,
        "executor_id": "migration",
        "application_version": WORKFLOW_VERSION,
        "run_migrations": True,
        "use_listen_notify": False,
        "enable_otlp": False,
        "log_level": "WARNING",
    }
    DBOS(config=config)
    try:
        DBOS.listen_queues([])
        DBOS.launch()
    finally:
        DBOS.destroy(destroy_registry=True)
