"""Dispatch: hand a deploy to the engine's queue, in the transaction that decides it."""

from collections.abc import Sequence
from datetime import timedelta
from functools import cache, cached_property
from typing import TYPE_CHECKING

import sqlalchemy as sa

from manent_server.domain.deploy import Phase, State
from manent_server.engine.version import WORKFLOW_VERSION, newest
from manent_server.store import deploys, workers
from manent_server.store.deploys import Deploy, EndedDeploy
from manent_server.store.engine import Engines
from manent_server.store.tables import Tables, epochs
from manent_server.store.transaction import Transaction

if TYPE_CHECKING:
    from dbos import DBOSClient, EnqueueOptions

APPLICATION = "manent"
WORKFLOW = "deploy"


def workflow_id(deploy: str, number: int) -> str:
    """The engine's id of one dispatch; an id is never used twice."""
    return f"{deploy}.{number}"


class Dispatcher:
    """Enqueues dispatches; needs no worker in this process."""

    def __init__(self, engines: Engines, *, stale_after: timedelta) -> None:
        self._stale_after = stale_after
        self._engines = engines

    @cached_property
    def client(self) -> "DBOSClient":
        """The engine's client, made when it is first needed."""
        # A quarter of a second, and most commands dispatch nothing.
        from dbos import DBOSClient  # noqa: PLC0415

        return DBOSClient(
            system_database_engine=self._engines.dbos,
            application_name=APPLICATION,
            use_listen_notify=False,
            lazy=True,
            retry_connection_errors=False,
        )

    def open(self) -> None:
        """Make the client now, before several threads ask for it at once."""
        _ = self.client

    def dispatch(
        self,
        tx: Transaction,
        deploy: str,
        *,
        state: State = State.ENQUEUED,
        phase: Phase = Phase.DISPATCHED,
        version: str | None = None,
    ) -> int:
        """Start a deploy anew: the next dispatch number, a new epoch, nobody's until its prelude.

        Args:
            tx: The deciding transaction.
            deploy: Its id.
            state: What it is until its prelude.
            phase: What it is doing until then.
            version: The workflow version it is stamped with if it never ran; chosen here from
                the live workers unless the caller has done so.

        Raises:
            EndedDeploy: The deploy has ended; it is never started again.
        """
        number, pool, stamped = self._next(
            tx, deploy, state=state, phase=phase, stamp=version or self._stamp(tx, deploy)
        )
        self._enqueue(tx, deploy, number, pool=pool, version=stamped)
        return number

    def dispatch_interrupted(self, tx: Transaction, rows: Sequence[Deploy]) -> None:
        """Start deploys anew that have run: all at once, each by the version it began with.

        Args:
            tx: The deciding transaction, which holds their locks.
            rows: As they stand under those locks, live.
        """
        at = tx.now()
        fresh = deploys.next_epochs(tx, len(rows))
        common = {
            "dispatched_at": at,
            "executor": None,
            "incarnation": None,
            "state": State.ENQUEUED,
            "phase": Phase.INTERRUPTED,
        }
        changes = {
            row.id: {**common, "dispatch": row.dispatch + 1, "epoch": epoch}
            for row, epoch in zip(rows, fresh, strict=True)
        }
        deploys.update_each(tx, changes)
        for row in rows:
            version = row.workflow_version or WORKFLOW_VERSION
            self._enqueue(tx, row.id, row.dispatch + 1, pool=row.pool, version=version)

    def _enqueue(
        self, tx: Transaction, deploy: str, number: int, *, pool: str, version: str
    ) -> None:
        client = self.client
        from dbos import WorkflowSerializationFormat  # noqa: PLC0415 - loaded by the client

        options: EnqueueOptions = {
            "workflow_name": WORKFLOW,
            "queue_name": pool,
            "workflow_id": workflow_id(deploy, number),
            "workflow_id_reuse_policy": "reject",
            "app_version": version,
            "application_name": APPLICATION,
            "serialization_type": WorkflowSerializationFormat.PORTABLE,
        }
        client.enqueue_in_transaction(tx.connection, options, deploy, number)

    def _stamp(self, tx: Transaction, deploy: str) -> str:
        """The newest version a live worker of the pool can run it by, if it never ran."""
        row = deploys.read(tx, deploy)
        if row is None or not row.is_live:
            raise EndedDeploy(deploy)
        if row.started_at is not None and row.workflow_version is not None:
            return row.workflow_version
        crew = workers.offering(tx, pool=row.pool, stale_after=self._stale_after, at=tx.now())
        found = newest(crew, shape=row.order_shape, plugin=row.order_body["plugin"])
        return found or row.workflow_version or WORKFLOW_VERSION

    def _next(
        self, tx: Transaction, deploy: str, *, state: State, phase: Phase, stamp: str
    ) -> tuple[int, str, str]:
        values = {
            "of_deploy": deploy,
            "stamp": stamp,
            "dispatched_at": tx.now(),
            "executor": None,
            "incarnation": None,
            "state": state,
            "phase": phase,
        }
        if tx.dialect == "sqlite":
            values["epoch"] = deploys.next_epoch(tx)
        row = tx.connection.execute(_begun_anew(tx.tables, tx.dialect), values).one_or_none()
        if row is None:
            raise EndedDeploy(deploy)
        return row.dispatch, row.pool, row.workflow_version

    def hand_back(self, tx: Transaction, deploy: Deploy) -> int:
        """Put a deploy back that its worker will not finish; it keeps its slot."""
        return self.dispatch(tx, deploy.id, phase=Phase.INTERRUPTED)

    def close(self) -> None:
        """Let go of the engine's client."""
        if "client" in vars(self):
            self.client.destroy()


@cache
def _begun_anew(tables: Tables, dialect: str) -> sa.UpdateBase:
    """The other columns are those of the values it is executed with."""
    d, stamp = tables.deploys, sa.bindparam("stamp", type_=sa.Text)
    # A deploy that ran keeps the version it began with; one that never did is stamped anew.
    version = sa.case(
        (d.c.started_at.is_not(None), sa.func.coalesce(d.c.workflow_version, stamp)),
        else_=stamp,
    )
    # The statement draws the epoch itself where it can.
    drawn = {} if dialect == "sqlite" else {d.c.epoch: epochs().next_value()}
    return (
        sa.update(d)
        .where(d.c.id == sa.bindparam("of_deploy"), d.c.state.in_(deploys.LIVE_STATES))
        .values(
            {
                d.c.dispatch: d.c.dispatch + 1,
                d.c.revision: d.c.revision + 1,
                d.c.workflow_version: version,
                **drawn,
            }
        )
        .returning(d.c.dispatch, d.c.pool, d.c.workflow_version)
    )
