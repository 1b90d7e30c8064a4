"""The core of a server without its doors: store, dispatcher, use cases, on a prepared database."""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from manent_server import settings as configuration
from manent_server.domain import audit
from manent_server.domain.access import Caller, everywhere
from manent_server.engine.dispatch import Dispatcher, workflow_id
from manent_server.engine.identity import Identity, identify
from manent_server.engine.inspection import Delivery, deliveries
from manent_server.engine.migration import library
from manent_server.engine.prelude import Claim
from manent_server.engine.version import WORKFLOW_VERSION
from manent_server.observability.metrics import Metrics
from manent_server.plugins.host import Host, Plugin
from manent_server.recovery.reconcile import Reconciler
from manent_server.settings import Settings
from manent_server.store import deploys, queue, work, workers
from manent_server.store.deploys import Deploy
from manent_server.store.engine import Engines, connect, dispose
from manent_server.store.migrate import migrate
from manent_server.store.repeat import Outages
from manent_server.store.tables import Tables
from manent_server.store.transaction import Store, Transaction
from manent_server.store.work import Attempt, StepRow
from manent_server.usecases import policy, submit
from manent_server.usecases.admit import Admission
from manent_server.usecases.desk import Desk
from manent_server.usecases.prospect import Prospect
from manent_server.usecases.requests import DeployRequest

ADMIN = Caller("ann", everywhere("admin"), "person")
VIEWER = Caller("vic", everywhere("viewer"), "person")
RIG = "test"
HOOKS = frozenset({"deploy", "rollback", "verify"})
STALE_AFTER = timedelta(seconds=20)
BEAT = timedelta(seconds=5)
CONFIG = """
environments:
  staging: {tier: staging}
  production: {tier: production, concurrency: 2}
  manual: {tier: staging, rollback: manual}
templates:
  one:
    plugin: fake
    retry: {attempts: 3, initial: 10ms, factor: 1, cap: 10ms, total: 1m}
    environments:
      staging: {targets: {web: {}}}
      production: {targets: {web: {}}}
      manual: {targets: {web: {}}}
applications:
  shop: {template: one}
  mail: {template: one}
  news: {template: one}
"""

_WAITING = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


def read_settings(folder: Path) -> Settings:
    """The configuration of every core."""
    path = folder / "manent.yml"
    path.write_text(CONFIG)
    return configuration.load(path, environ={}, plugins=["fake"])


@dataclass
class Core:
    """One installation: `desk` is what the use cases work with."""

    engines: Engines
    settings: Settings
    store: Store
    dispatcher: Dispatcher
    admission: Admission
    desk: Desk

    def configure(self, **changes: Any) -> None:
        """Put changed settings in force: newer ones each time."""
        at = self.settings.modified_at + timedelta(seconds=1)
        self.settings = replace(self.settings, modified_at=at, **changes)
        policy.write(self.store, self.settings, release="1.0", by=RIG)

    def recover_automatically(self, after: timedelta = timedelta(minutes=1)) -> None:
        """Put automatic recovery in force."""
        self.configure(recovery=replace(self.settings.recovery, auto_recover_after=after))

    def change_environment(self, name: str, **changes: Any) -> None:
        """Change one environment."""
        known = dict(self.settings.environments)
        known[name] = replace(known[name], **changes)
        self.configure(environments=known)

    def change_placement(self, application: str, environment: str, **changes: Any) -> None:
        """Change an application's settings in one environment."""
        known = dict(self.settings.applications)
        places = dict(known[application].environments)
        places[environment] = replace(places[environment], **changes)
        known[application] = replace(known[application], environments=places)
        self.configure(applications=known)

    def worker(self, executor: str = "w1", **values: Any) -> Identity:
        """Register a live worker; a further call under the same name is its next start."""
        identity = identify(executor)
        with self.store.write() as tx:
            at = tx.now()
            row = {
                "id": executor,
                "incarnation": identity.incarnation,
                "version": WORKFLOW_VERSION,
                "build": "1.0",
                "hostname": identity.hostname,
                "boot": identity.boot,
                "pid_namespace": identity.pid_namespace,
                "started_at": at,
                "heartbeat_at": at,
                "stopped_at": None,
                "draining": False,
                "pools": ["default"],
                "plugins": ["fake"],
                "running": [],
                "configuration": "c",
                "recovered_by": None,
            }
            workers.write(tx, row | values)
        return identity

    def set_worker(self, executor: str, **values: Any) -> None:
        """Change a worker's row whoever has it."""
        with self.store.write() as tx:
            e = tx.tables.executors
            tx.connection.execute(sa.update(e).where(e.c.id == executor).values(**values))

    def claim(self, deploy: str, number: int, worker: Identity, *, draining: bool = False) -> Claim:
        """What the prelude of a dispatch asks with."""
        plugins = frozenset({"fake"})
        return Claim(deploy, number, worker, is_draining=draining, plugins=plugins)

    def lock_file(self) -> str:
        """A lock file that nobody holds: its processes are gone."""
        file = self.settings.path.with_name("attempt")
        file.touch()
        return str(file)

    def set(self, deploy: str, **values: Any) -> None:
        """Change a deploy's row by force, to make a state that takes long to come about."""
        with self.store.write() as tx:
            d = tx.tables.deploys
            tx.connection.execute(sa.update(d).where(d.c.id == deploy).values(**values))

    def set_approval(self, approval: str, **values: Any) -> None:
        """Change an approval's row by force."""
        with self.store.write() as tx:
            a = tx.tables.approvals
            tx.connection.execute(sa.update(a).where(a.c.id == approval).values(**values))

    def submit(
        self,
        application: str = "shop",
        environment: str = "staging",
        version: str = "1",
        **more: Any,
    ) -> str:
        """Ask for a deploy; its id."""
        request = DeployRequest(application, environment, version, **more)
        return str(submit.submit(self.desk, request, caller=ADMIN)["id"])

    def admit(self, environment: str = "staging") -> None:
        """Admit to an environment."""
        with self.store.write() as tx:
            self.admission.admit(tx, environment)

    def deploy(self, deploy: str) -> Deploy:
        """One row."""
        with self.store.read() as tx:
            found = deploys.read(tx, deploy)
        assert found is not None
        return found

    def steps(self, deploy: str) -> dict[str, StepRow]:
        """The steps of a deploy by name."""
        with self.store.read() as tx:
            return {row.name: row for row in work.read_steps(tx, deploy)}

    def attempts(self, deploy: str) -> list[Attempt]:
        """The attempts of a deploy."""
        with self.store.read() as tx:
            return work.read_attempts(tx, deploy)

    def slots(self, environment: str = "staging") -> list[str]:
        """The deploys that have a place there."""
        with self.store.read() as tx:
            return [slot.deploy for slot in queue.slots(tx, environment)]

    def delivery(self, deploy: str) -> Delivery | None:
        """What the engine says of the current dispatch."""
        name = workflow_id(deploy, self.deploy(deploy).dispatch)
        return deliveries(self.dispatcher.client, [name]).get(name)

    def set_delivery(self, deploy: str, status: str, owner: str | None = None) -> None:
        """Change what the engine says of the current dispatch, as a worker of it would."""
        name = workflow_id(deploy, self.deploy(deploy).dispatch)
        table = _workflows(self.engines)
        with self.engines.dbos.begin() as connection:
            connection.execute(
                sa.update(table)
                .where(table.c.workflow_uuid == name)
                .values(status=status, executor_id=owner)
            )

    def reconciler(self) -> Reconciler:
        """A new one, which has seen nothing yet."""
        return Reconciler(
            self.desk,
            Metrics(),
            here=identify("here"),
            heartbeat_interval=BEAT,
            stale_after=STALE_AFTER,
        )

    def at(self) -> datetime:
        """The database's clock."""
        with self.store.read() as tx:
            return tx.now()

    @property
    def has_waiting(self) -> bool:
        """Whether somebody waits for a lock of this Postgres database."""
        with self.engines.lone.connect() as connection:
            return bool(connection.exec_driver_sql(_WAITING).scalar_one())

    def rows(self, table: str) -> list[Mapping[str, Any]]:
        """Every row of one of our tables.

        Those of the audit with what their text says, and without what the rig itself did.
        """
        with self.store.read() as tx:
            query = sa.select(getattr(tx.tables, table))
            rows: list[Mapping[str, Any]] = [
                dict(row) for row in tx.connection.execute(query).mappings()
            ]
        if table != "audit":
            return rows
        records = [{**audit.parse(row["record"]), **row} for row in rows]
        return [row for row in records if row["actor"] != RIG]


@dataclass
class Ground:
    """A migrated database that many tests use one after the other, with what stands on it."""

    engines: Engines
    store: Store
    dispatcher: Dispatcher

    def close(self) -> None:
        """Let go of the database."""
        self.dispatcher.close()
        dispose(self.engines)

    def clear(self) -> None:
        """Delete every row of ours and of the engine's that a test can make."""
        with self.store.write() as tx, unguarded(tx):
            for statement in _clearing(tx.tables, tx.dialect):
                tx.connection.exec_driver_sql(statement)
        with self.engines.dbos.begin() as connection:
            connection.execute(sa.delete(_workflows(self.engines)))


@cache
def _clearing(tables: Tables, dialect: str) -> list[str]:
    """Statements that empty every table; Postgres takes them all at once."""
    d = tables.deploys
    links = ("rerun_of", "rollback_to", "promoted_from", "replaces", "superseded_by")
    unlinking = ", ".join(f"{name} = NULL" for name in links)
    statements = [f"UPDATE {d.fullname} SET {unlinking}"]  # noqa: S608 - names of ours
    statements += [f"DELETE FROM {t.fullname}" for t in reversed(tables.metadata.sorted_tables)]  # noqa: S608 - names of ours
    return statements if dialect == "sqlite" else ["; ".join(statements)]


@contextmanager
def unguarded(tx: Transaction) -> Iterator[None]:
    """What keeps the audit as it was written is off meanwhile, as only its owner can have it."""
    if tx.dialect == "postgresql":
        tx.connection.exec_driver_sql("SET LOCAL session_replication_role = replica")
        yield
        tx.connection.exec_driver_sql("SET LOCAL session_replication_role = origin")
        return
    query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
    triggers = tx.connection.exec_driver_sql(query).all()
    for name, _ in triggers:
        tx.connection.exec_driver_sql(f"DROP TRIGGER {name}")
    yield
    for _, made in triggers:
        tx.connection.exec_driver_sql(made)


def lay(url: str) -> Ground:
    """Migrate a new database."""
    engines = connect(url, pool=10, stale_after=STALE_AFTER)
    migrate(engines, library=library())
    return Ground(engines, Store(engines), Dispatcher(engines, stale_after=STALE_AFTER))


def build(ground: Ground, settings: Settings) -> Core:
    """A core on cleared ground, its policy in force; it has no worker yet."""
    ground.clear()
    store, dispatcher = ground.store, ground.dispatcher
    # The outages another test has made are none of this one's.
    store._outages = Outages(ground.engines.url)
    store.watermark.move(epoch=0, number=0)
    admission = Admission(store, dispatcher, stale_after=STALE_AFTER)
    host = Host({"fake": Plugin("fake", "1", HOOKS, "idempotent")}, {})
    report: dict[str, Any] = {"draining": False, "running": 0, "reasons": []}
    desk = Desk(
        store,
        dispatcher,
        admission,
        host,
        lambda: core.settings,
        lambda: report,
        Metrics(),
        lambda: Prospect(core.settings, (), ()),
    )
    core = Core(ground.engines, settings, store, dispatcher, admission, desk)
    policy.write(store, settings, release="1.0", by=RIG)
    return core


def _workflows(engines: Engines) -> sa.TableClause:
    """The engine's table, which only tests touch: it stands for what a worker would do."""
    names = ("workflow_uuid", "status", "executor_id", "application_version")
    schema = None if engines.dialect == "sqlite" else "dbos"
    return sa.table("workflow_status", *map(sa.column, names), schema=schema)


def engine_version(core: Core, deploy: str) -> str | None:
    """The version of the workers that may take the current dispatch from the engine."""
    table = _workflows(core.engines)
    name = workflow_id(deploy, core.deploy(deploy).dispatch)
    with core.engines.dbos.connect() as connection:
        query = sa.select(table.c.application_version).where(table.c.workflow_uuid == name)
        found: str | None = connection.execute(query).scalar_one()
        return found


def long_ago() -> datetime:
    """An instant before everything."""
    return datetime(2020, 1, 1, tzinfo=UTC)


def new_id() -> str:
    """The id of a deploy."""
    return secrets.token_hex(10)
