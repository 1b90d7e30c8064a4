"""A worker that is stopped between two transactions."""

import signal

import psycopg

from tests.rig.process import until
from tests.rig.serve import Rig

# What a process that goes on has open is over by then; whoever only reads is in nobody's way.
_DAWDLES = """
SELECT count(*) FROM pg_stat_activity JOIN pg_locks USING (pid)
WHERE datname = current_database() AND state LIKE 'idle in transaction%'
AND state_change < now() - interval '100 ms'
AND locktype = 'relation' AND mode <> 'AccessShareLock'
"""


def freeze(rig: Rig, name: str) -> None:
    """SIGSTOP it with no row of the database in its hands.

    One that is stopped within a transaction keeps its rows until the database ends that, seconds
    later, and whoever wants them is told to come again.
    """

    def is_frozen() -> bool:
        rig.send(signal.SIGSTOP, name)
        if _holds_nothing(rig.database_url):
            return True
        rig.send(signal.SIGCONT, name)
        return False

    until(is_frozen, what=f"{name} stopped between two transactions")


def _holds_nothing(url: str) -> bool:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_sleep(0.15)")
        return connection.execute(_DAWDLES).fetchone() == (0,)
