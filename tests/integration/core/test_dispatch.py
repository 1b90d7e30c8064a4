"""Dispatch: a deploy is handed to the engine in the transaction that decides it."""

import pytest
import sqlalchemy as sa

from manent_server.domain.deploy import Phase, State
from manent_server.engine import inspection
from manent_server.engine.dispatch import workflow_id
from manent_server.recovery.reconcile import Disposal
from manent_server.store.deploys import EndedDeploy
from tests.rig.core import Core


@pytest.fixture
def deploy(core: Core) -> str:
    core.worker()
    return core.submit()


def test_an_ended_deploy_is_never_started_again(core: Core, deploy: str):
    core.set(deploy, state="SUCCESS", outcome="deployed")
    before = core.deploy(deploy)
    with pytest.raises(EndedDeploy), core.store.write() as tx:
        core.dispatcher.dispatch(tx, deploy)
    assert core.deploy(deploy) == before


def test_an_id_is_never_used_twice(core: Core, deploy: str):
    core.set(deploy, dispatch=0)
    with pytest.raises(Exception, match=workflow_id(deploy, 1)), core.store.write() as tx:
        core.dispatcher.dispatch(tx, deploy)
    assert core.deploy(deploy).dispatch == 0


def test_every_dispatch_raises_the_epoch_over_all_deploys(core: Core, deploy: str):
    """I2"""
    other = core.submit("shop", "production")
    epochs = [core.deploy(deploy).epoch, core.deploy(other).epoch]
    for again in (deploy, other, deploy):
        with core.store.write() as tx:
            core.dispatcher.dispatch(tx, again)
        epochs.append(core.deploy(again).epoch)
    assert epochs == sorted(set(epochs))


def test_a_dispatch_is_nobodys_until_its_prelude(core: Core, deploy: str):
    core.set(deploy, state="PENDING", executor="w1", incarnation="i1", handed_out_at=core.at())
    with core.store.write() as tx:
        core.dispatcher.hand_back(tx, core.deploy(deploy))
    row = core.deploy(deploy)
    assert (row.state, row.phase) == (State.ENQUEUED, Phase.INTERRUPTED)
    assert (row.executor, row.incarnation, row.dispatch) == (None, None, 2)
    assert core.slots() == [deploy]


def test_nothing_remains_of_a_dispatch_that_was_not_committed(core: Core, deploy: str):
    before = core.deploy(deploy)

    def undo() -> None:
        with core.store.write() as tx:
            core.dispatcher.dispatch(tx, deploy)
            raise LookupError(deploy)

    with pytest.raises(LookupError):
        undo()
    assert core.deploy(deploy) == before
    gone = workflow_id(deploy, 2)
    assert inspection.deliveries(core.dispatcher.client, [gone]) == {}


def test_a_deploy_that_ran_keeps_its_workflow_version(core: Core, deploy: str):
    core.set(deploy, workflow_version="0.0.9")
    with core.store.write() as tx:
        core.dispatcher.dispatch(tx, deploy)
    assert core.deploy(deploy).workflow_version != "0.0.9"
    core.set(deploy, workflow_version="0.0.9", started_at=core.at())
    with core.store.write() as tx:
        core.dispatcher.dispatch(tx, deploy)
    assert core.deploy(deploy).workflow_version == "0.0.9"


def test_dispatches_that_are_over_are_disposed_of(core: Core, deploy: str):
    other = core.submit("shop", "production")
    for _ in range(2):
        with core.store.write() as tx:
            core.dispatcher.dispatch(tx, deploy)
    disposal = Disposal(core.desk)
    assert disposal.round() == 0, "it may still be on its way out of its worker"
    assert (disposal.round(), disposal.round()) == (2, 0)
    for current in (deploy, other):
        delivery = core.delivery(current)
        assert delivery is not None
        assert not delivery.is_over
    assert sorted(inspection.unfinished(core.dispatcher.client)) == sorted(
        [workflow_id(deploy, 3), workflow_id(other, 1)]
    )
    assert inspection.deliveries(core.dispatcher.client, []) == {}


def test_the_counter_of_epochs_keeps_one_row(sqlite_core: Core):
    sqlite_core.worker()
    deploy = sqlite_core.submit()
    for _ in range(3):
        with sqlite_core.store.write() as tx:
            sqlite_core.dispatcher.dispatch(tx, deploy)
    with sqlite_core.store.read() as tx:
        table = tx.tables.metadata.tables["manent_epochs"]
        found = tx.connection.execute(sa.select(table.c.value)).scalars().all()
    assert found == [sqlite_core.deploy(deploy).epoch]
