"""Deploys are locked in the order of their ids, whoever locks several: none waits in a circle."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from manent_server.store import deploys
from tests.integration.core.running import Running
from tests.rig.core import Core, long_ago
from tests.rig.process import until

pytestmark = pytest.mark.postgres


@contextmanager
def admitting(core: Core) -> Iterator[None]:
    """An admission that waits for a row somebody holds."""
    thread = threading.Thread(target=core.admit, args=("production",))
    thread.start()
    try:
        until(lambda: core.has_waiting, what="the admission waits")
        yield
    finally:
        thread.join(60)
        assert not thread.is_alive()


def test_what_newer_deploys_cancel_is_locked_in_the_order_of_ids(postgres_core: Core):
    """A worker that starts again locks what it left in that order, and waits for each."""
    core = postgres_core
    running = [Running(core, name, environment="production") for name in ("shop", "mail")]
    low, high = sorted((one.deploy for one in running), key=lambda row: row.id)
    # Accepted first, the one that cancels the deploy with the higher id also goes first.
    for row in (high, low):
        later = core.at() + timedelta(hours=1)
        how = {"collision": "cancel_running", "not_before": later}
        core.set(core.submit(row.application, "production", "2", **how), not_before=long_ago())
    with core.store.write() as tx:
        deploys.lock(tx, low.id)
        with admitting(core):
            with core.store.write() as other:
                assert [row.id for row in deploys.lock_free(other, [high.id])] == [high.id]
            tx.connection.rollback()
    assert all(core.deploy(row.id).cancel_reason for row in (low, high))
