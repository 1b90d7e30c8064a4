"""Finds out whether a transaction pooler stands between this process and Postgres.

Behind one, each transaction may run in another session: time limits, session locks and
prepared statements then belong to whoever comes next, and nothing says so.
"""

from typing import Final
from uuid import uuid4

import sqlalchemy as sa

from manent_server.domain.errors import ConfigurationError
from manent_server.store.engine import Engines

_ROUNDS: Final = 3


def refuse_transaction_pooler(engines: Engines) -> None:
    """Do nothing if our sessions are our own.

    Raises:
        ConfigurationError: They are not.
    """
    if engines.dialect == "postgresql" and _shares_sessions(engines.lone):
        raise ConfigurationError(
            f"database.url: {engines.url} leads through a transaction pooler",
            code="transaction_pooler",
            next="Connect to Postgres directly or through a pooler in session mode: time limits "
            "(idle_in_transaction_session_timeout, lock_timeout, statement_timeout), session "
            "advisory locks and prepared statements must last as long as the connection.",
        )


def _shares_sessions(engine: sa.Engine) -> bool:
    try:
        alone = engine.execution_options(isolation_level="AUTOCOMMIT")
        with alone.connect() as first, engine.connect() as second:
            return any(_is_moved(first, second) for _ in range(_ROUNDS))
    except sa.exc.DBAPIError as error:
        # A statement pooler does not even let a transaction begin.
        if "pooling mode" in str(error.orig):
            return True
        raise


def _is_moved(first: sa.Connection, second: sa.Connection) -> bool:
    """Whether the open transaction of `second` takes the session of `first` away."""
    token = uuid4().hex
    mark = sa.text("SELECT set_config('manent.probe', :token, false), pg_backend_pid()")
    session = first.execute(mark, {"token": token}).one()[1]
    with second.begin():
        taken = second.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        if taken == session:
            return True
        look = "SELECT current_setting('manent.probe', true), pg_backend_pid()"
        found, now = first.exec_driver_sql(look).one()
    # One more, so that a pooler which takes turns gives `first` another one next time.
    with second.begin():
        second.exec_driver_sql("SELECT 1")
    return bool(found != token or now != session)
