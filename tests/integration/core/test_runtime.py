"""The engine's launch, when the database is away at that moment."""

from datetime import timedelta

import psycopg
import pytest
import sqlalchemy as sa

from manent_server.domain.errors import Unavailable
from manent_server.engine.identity import identify
from manent_server.engine.runtime import Pools, Runtime
from manent_server.store.engine import connect, dispose
from tests.rig.core import STALE_AFTER, Ground

POOLS = Pools(["default"], 2, timedelta(seconds=1))


@pytest.mark.postgres
def test_a_launch_waits_for_the_database(postgres_ground: Ground) -> None:
    """B37: a restart of Postgres in that moment ends no worker."""
    engines = connect(
        postgres_ground.engines.ours.url.render_as_string(hide_password=False),
        pool=2,
        stale_after=STALE_AFTER,
    )
    refused: list[bool] = []

    @sa.event.listens_for(engines.dbos, "connect", insert=True)
    def refuse(connection: psycopg.Connection, _record: object) -> None:
        if len(refused) < 3:
            refused.append(True)
            connection.close()
            raise psycopg.OperationalError("the database system is starting up")

    runtime = Runtime(engines, identify("w9"), POOLS, lambda *_: None)
    with pytest.raises(Unavailable):
        runtime.launch(stop=lambda: True)
    runtime.launch()
    try:
        assert len(refused) == 3
    finally:
        runtime.destroy(limit=timedelta(seconds=1))
        dispose(engines)
