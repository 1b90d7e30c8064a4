"""The child process of `library`: launches DBOS once, so that it migrates, and ends."""

import json
import os
import sys
import threading
from datetime import timedelta
from typing import Any, Final

import sqlalchemy as sa
from dbos import DBOS, DBOSConfig

from manent_server.engine.library import TRY_AGAIN
from manent_server.store.engine import connect
from manent_server.store.repeat import is_transient

_NAME: Final = "manent-migration"
_ORPHANED: Final = 70


def main() -> None:
    """Migrate the database named on the first line of standard input."""
    order = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    code = 0
    try:
        _launch(_engine(order["url"]))
    except Exception as error:  # noqa: BLE001 - whatever it is, the parent is told
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        code = TRY_AGAIN if _is_transient(error) else 1
    sys.stderr.flush()
    # Everything is committed; an orderly end would wait a second for the library's threads.
    os._exit(code)


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(_ORPHANED)


def _engine(url: str) -> sa.Engine:
    engines = connect(
        url, pool=4, stale_after=timedelta(minutes=1), application_name="manent migration"
    )
    if engines.dialect == "postgresql":
        sa.event.listen(engines.dbos, "connect", _take_the_time_it_takes)
    return engines.dbos


def _take_the_time_it_takes(connection: Any, _record: Any) -> None:
    # An index is built beside running transactions and waits for each of them.
    connection.autocommit = True
    connection.execute(
        "SELECT set_config(name, '0', false) FROM unnest(%s::text[]) AS t(name)",
        [["statement_timeout", "lock_timeout"]],
    )
    connection.autocommit = False


def _launch(engine: sa.Engine) -> None:
    # Name, executor and version of its own: it finds no workflow to recover or to run.
    DBOS(
        config=DBOSConfig(
            name=_NAME,
            system_database_engine=engine,
            use_listen_notify=False,
            run_migrations=True,
            executor_id=_NAME,
            application_version=_NAME,
            log_level="ERROR",
        )
    )
    DBOS.listen_queues([])
    DBOS.launch()


def _is_transient(error: BaseException | None) -> bool:
    while error is not None:
        if is_transient(error):
            return True
        error = error.__cause__ or error.__context__
    return False


if __name__ == "__main__":
    main()
