"""The engine: its launch when the database is away at that moment, and how much it takes."""

import threading
import time
from datetime import timedelta

import psycopg
import pytest
import sqlalchemy as sa

from manent_server.domain.errors import Unavailable
from manent_server.engine.identity import identify
from manent_server.engine.runtime import Pools, Runtime
from manent_server.store.engine import connect, dispose
from tests.rig.core import STALE_AFTER, Core, Ground
from tests.rig.process import until

pytestmark = pytest.mark.postgres
# The queue keeps its room in a row, so that it outlasts a test.
POOLS = Pools(["default"], 1, timedelta(milliseconds=100))


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


def test_no_more_is_taken_than_there_is_room_for(postgres_core: Core) -> None:
    """B29: what waits stays with everybody: nobody's attempt, and nobody's when its taker dies."""
    core = postgres_core
    core.worker("w9")
    places = [
        ("shop", "staging"),
        ("shop", "production"),
        ("mail", "production"),
        ("news", "manual"),
    ]
    waiting = [core.submit(*place) for place in places]
    room, taken = threading.Semaphore(0), []

    def journey(deploy: str, _: int) -> None:
        taken.append(deploy)
        assert room.acquire(timeout=30)

    runtime = Runtime(core.engines, identify("w9"), POOLS, journey)
    runtime.launch()
    try:
        for count in range(1, len(waiting) + 1):
            until(lambda count=count: len(taken) == count, what="the next one")
            time.sleep(0.5)  # five looks at the queue
            held = [core.delivery(deploy) for deploy in waiting]
            mine = [one for one in held if one and one.is_taken and not one.is_over]
            assert (len(mine), len(taken)) == (1, count)
            room.release()
    finally:
        room.release(len(waiting))
        runtime.destroy(limit=timedelta(seconds=2))
    assert sorted(taken) == sorted(waiting)


def test_the_room_of_a_pool_is_said_to_be_that_of_all_its_workers(
    postgres_core: Core, caplog: pytest.LogCaptureFixture
) -> None:
    """R18: the last one to start decides, and says what it has changed."""
    for room in (3, 1):
        pools = Pools(["default"], room, POOLS.polling_interval)
        runtime = Runtime(postgres_core.engines, identify("w9"), pools, lambda *_: None)
        caplog.clear()
        runtime.launch()
        runtime.destroy(limit=timedelta(0))
    [said] = [line for line in caplog.messages if "pool default had" in line]
    assert "(3, 0.1); now (1, 0.1), for all of its workers" in said
