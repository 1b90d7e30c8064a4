"""The end of the wait after a wave, by its time or by a person."""

from datetime import timedelta

from manent_server.domain.deploy import Phase
from manent_server.store import deploys, work
from manent_server.store.deploys import Deploy
from manent_server.store.transaction import Transaction
from manent_server.store.work import StepRow


def end(tx: Transaction, row: Deploy, step: StepRow, *, soak: timedelta) -> None:
    """End a soak that has begun; the caller holds the deploy's row lock.

    Its whole time was added to the deadline when it began: what it took more or less counts too.

    Args:
        tx: The transaction.
        row: The deploy.
        step: The row of the soak.
        soak: How long it was to last.
    """
    at = tx.now()
    work.update_step(tx, row.id, row.pass_number, step.name, state="succeeded", ended_at=at)
    late = at - (step.started_at or at) - soak
    later = row.deadline_at + late if row.deadline_at else None
    deploys.update(tx, row.id, phase=Phase.DEPLOYING, deadline_at=later)
