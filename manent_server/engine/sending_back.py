"""Sending back: a deploy that has its place and has not acted waits for its gates again."""

from manent_server.domain.deploy import Phase, State
from manent_server.store import deploys, queue, work
from manent_server.store.deploys import Deploy
from manent_server.store.transaction import Transaction


def send_back(tx: Transaction, deploy: Deploy, phase: Phase) -> None:
    """Free its place and give its ticket back."""
    queue.free_slot(tx, deploy.id)
    # Another deploy may run before this one does: what was fixed while the slot was held goes.
    work.forget_steps(tx, deploy)
    deploys.update(
        tx,
        deploy.id,
        state=State.DELAYED,
        phase=phase,
        ticket=None,
        deadline_at=None,
        executor=None,
        incarnation=None,
        prepared=None,
        replaces=None,
        warnings=None,
        # It begins anew: by the time it does, its version may have no worker left.
        workflow_version=None,
    )
