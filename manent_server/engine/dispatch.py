"""Dispatch: hand a deploy to the engine's queue, in the transaction that decides it."""

import sqlalchemy as sa
from dbos import DBOSClient, EnqueueOptions, WorkflowSerializationFormat

from manent_server.domain.deploy import Phase, State
from manent_server.engine.version import WORKFLOW_VERSION
from manent_server.store import deploys
from manent_server.store.deploys import Deploy, EndedDeploy
from manent_server.store.engine import Engines
from manent_server.store.transaction import Transaction

APPLICATION = "manent"
WORKFLOW = "deploy"


def workflow_id(deploy: str, number: int) -> str:
    """The engine's id of one dispatch; an id is never used twice."""
    return f"{deploy}.{number}"


class Dispatcher:
    """Enqueues dispatches; needs no worker."""

    def __init__(self, engines: Engines) -> None:
        self.client = DBOSClient(
            system_database_engine=engines.dbos,
            application_name=APPLICATION,
            use_listen_notify=False,
            lazy=True,
            retry_connection_errors=False,
        )

    def dispatch(
        self,
        tx: Transaction,
        deploy: str,
        *,
        state: State = State.ENQUEUED,
        phase: Phase = Phase.DISPATCHED,
    ) -> int:
        """Start a deploy anew: the next dispatch number, a new epoch, nobody's until its prelude.

        Raises:
            EndedDeploy: The deploy has ended; it is never started again.
        """
        number, pool, version = self._next(tx, deploy, state, phase)
        options: EnqueueOptions = {
            "workflow_name": WORKFLOW,
            "queue_name": pool,
            "workflow_id": workflow_id(deploy, number),
            "workflow_id_reuse_policy": "reject",
            "app_version": version,
            "application_name": APPLICATION,
            "serialization_type": WorkflowSerializationFormat.PORTABLE,
        }
        self.client.enqueue_in_transaction(tx.connection, options, deploy, number)
        return number

    def _next(
        self, tx: Transaction, deploy: str, state: State, phase: Phase
    ) -> tuple[int, str, str]:
        d = tx.tables.deploys
        # A deploy that ran keeps the version it began with; one that never did is stamped anew.
        version = sa.case(
            (d.c.started_at.is_not(None), sa.func.coalesce(d.c.workflow_version, WORKFLOW_VERSION)),
            else_=WORKFLOW_VERSION,
        )
        row = tx.connection.execute(
            sa.update(d)
            .where(d.c.id == deploy, d.c.state.in_(deploys.LIVE_STATES))
            .values(
                dispatch=d.c.dispatch + 1,
                dispatched_at=tx.now(),
                epoch=deploys.next_epoch(tx),
                executor=None,
                incarnation=None,
                workflow_version=version,
                state=state,
                phase=phase,
                revision=d.c.revision + 1,
            )
            .returning(d.c.dispatch, d.c.pool, d.c.workflow_version)
        ).one_or_none()
        if row is None:
            raise EndedDeploy(deploy)
        return row.dispatch, row.pool, row.workflow_version

    def hand_back(self, tx: Transaction, deploy: Deploy) -> int:
        """Put a deploy back that its worker will not finish; it keeps its slot."""
        return self.dispatch(tx, deploy.id, phase=Phase.INTERRUPTED)

    def close(self) -> None:
        """Let go of the engine's client."""
        self.client.destroy()
