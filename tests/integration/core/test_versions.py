"""Capability and workflow versions: who is given a deploy, and by which interpretation."""

from typing import Any

import pytest

from manent_server.domain.marks import Sort
from manent_server.engine import prelude
from manent_server.engine.identity import Identity, identify
from manent_server.engine.prelude import Verdict
from manent_server.engine.version import WORKFLOW_VERSION
from manent_server.usecases import explain, mark, wake
from manent_server.usecases.requests import MarkRequest
from tests.rig.core import ADMIN, Core, engine_version, long_ago

NEXT = "0.2.0"


def begin(core: Core, deploy: str, worker: Identity) -> Verdict:
    claim = core.claim(deploy, core.deploy(deploy).dispatch, worker)
    with core.store.write() as tx:
        return prelude.begin(tx, claim, core.dispatcher).verdict


def dispatch(core: Core, deploy: str) -> str | None:
    with core.store.write() as tx:
        core.dispatcher.dispatch(tx, deploy)
    return core.deploy(deploy).workflow_version


def lacking(core: Core, deploy: str) -> Any:
    return explain.explain(core.desk, deploy)["workers"]["lacking"]


def test_the_first_dispatch_takes_the_newest_version_a_live_worker_announces(core: Core):
    """B136: what an old server accepts is stamped with what the workers run."""
    core.worker("w1")
    core.worker("w2", version=NEXT)
    core.worker("w3", version="0.3.0", heartbeat_at=long_ago())
    core.worker("w4", version="0.4.0", pools=["other"])
    core.worker("w5", version="0.5.0", plugins=["other"])
    deploy = core.submit()
    assert core.deploy(deploy).workflow_version == NEXT
    assert engine_version(core, deploy) == NEXT


def test_it_is_stamped_anew_until_its_first_prelude_and_then_kept(core: Core):
    """B134"""
    worker = core.worker("w1")
    deploy = core.submit()
    core.worker("w2", version=NEXT)
    assert dispatch(core, deploy) == NEXT
    core.set_worker("w2", stopped_at=core.at())
    assert dispatch(core, deploy) == WORKFLOW_VERSION
    assert begin(core, deploy, worker) == Verdict.RUN
    core.set_worker("w2", stopped_at=None)
    assert dispatch(core, deploy) == WORKFLOW_VERSION
    assert engine_version(core, deploy) == WORKFLOW_VERSION


def test_without_a_worker_the_stamp_stays(core: Core):
    core.worker("w1", version=NEXT)
    deploy = core.submit()
    core.set_worker("w1", stopped_at=core.at())
    assert dispatch(core, deploy) == NEXT


def test_a_place_given_back_is_a_version_given_back(core: Core):
    worker = core.worker("w1")
    deploy = core.submit()
    assert begin(core, deploy, worker) == Verdict.RUN
    held = mark.put(core.desk, MarkRequest(Sort.LOCK, "wait", environment="staging"), caller=ADMIN)
    core.set(deploy, state="ENQUEUED", executor=None, incarnation=None)
    assert begin(core, deploy, worker) == Verdict.CLOSED
    assert core.deploy(deploy).workflow_version is None
    core.set_worker("w1", version=NEXT)
    mark.lift(core.desk, Sort.LOCK, held["id"], caller=ADMIN)
    assert core.deploy(deploy).workflow_version == NEXT


@pytest.mark.parametrize("what", ["plugin", "version"])
def test_a_worker_that_cannot_run_it_puts_it_back_at_no_cost(core: Core, what: str):
    worker = core.worker("w1")
    deploy = core.submit()
    if what == "plugin":
        core.set(deploy, order_body=core.deploy(deploy).order_body | {"plugin": "other"})
    else:
        core.set(deploy, workflow_version=NEXT)
    assert begin(core, deploy, worker) == Verdict.FOREIGN
    row = core.deploy(deploy)
    assert (row.state, row.phase, row.executor) == ("ENQUEUED", "dispatched", None)
    assert core.attempts(deploy) == []
    assert core.slots() == [deploy]
    with core.store.write() as tx:
        w = tx.tables.wakes
        tx.connection.execute(w.update().values(at=long_ago()))
    assert wake.wake_due(core.desk) == 1
    assert core.deploy(deploy).dispatch == row.dispatch + 1


def test_explain_names_what_no_live_worker_has(core: Core):
    worker = core.worker("w1", plugins=["other"])
    deploy = core.submit()
    assert lacking(core, deploy) == ["plugin fake"]
    summary = explain.explain(core.desk, deploy)["summary"]
    assert "no live worker of pool default offers plugin fake" in summary
    core.set_worker("w1", plugins=["fake"])
    core.set(deploy, order_shape=2)
    assert lacking(core, deploy) == ["order shape 2"]
    core.set(deploy, order_shape=1)
    core.admit()
    assert lacking(core, deploy) == []
    assert begin(core, deploy, worker) == Verdict.RUN
    core.set_worker("w1", version=NEXT)
    core.set(deploy, state="ENQUEUED", executor=None, incarnation=None)
    assert lacking(core, deploy) == [f"workflow version {WORKFLOW_VERSION}"]
    core.set_worker("w1", stopped_at=core.at())
    assert lacking(core, deploy) == ["a live worker"]


def test_a_worker_announces_the_version_it_runs():
    assert identify("w1").version == WORKFLOW_VERSION
    assert identify("w1", version="0.0.9").version == "0.0.9"


def test_what_a_newer_build_was_to_begin_is_begun_by_what_is_left(core: Core):
    """B134: version 2 was tried for a moment and taken back; nobody dequeues its dispatches."""
    core.worker("w2", version=NEXT)
    deploy = core.submit()
    core.set_worker("w2", stopped_at=core.at())
    assert core.reconciler().round() == []
    core.worker("w1")
    assert [found.reason for found in core.reconciler().round()] == [
        "its version has no worker left"
    ]
    assert engine_version(core, deploy) == WORKFLOW_VERSION
    assert core.reconciler().round() == []


def test_what_ran_keeps_waiting_for_its_version(core: Core):
    worker = core.worker("w1")
    deploy = core.submit()
    assert begin(core, deploy, worker) == Verdict.RUN
    assert dispatch(core, deploy) == WORKFLOW_VERSION
    core.set_worker("w1", version=NEXT)
    assert core.reconciler().round() == []
    assert lacking(core, deploy) == [f"workflow version {WORKFLOW_VERSION}"]
