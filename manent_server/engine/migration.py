"""How the tables of DBOS come to be: by a child process that launches it once.

DBOS migrates only while it launches (its `migrate` command cannot leave LISTEN/NOTIFY out),
and a launch leaves threads and global state behind that a process without a worker must not
have. A child can also be stopped at any moment, and it ends with the process that holds our
lock. It reads the address from its standard input, where no other user sees it.
"""

import contextlib
import importlib.metadata
import json
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import IO, Any, Final

import sqlalchemy as sa

from manent_server.domain.errors import ConfigurationError, StartRefused, Unavailable
from manent_server.store.engine import Engines, connect
from manent_server.store.migrate import Library
from manent_server.store.patience import give_up_after
from manent_server.store.repeat import NotAnswered, is_transient

_CHILD: Final = "manent_server.engine.migration"
_NAME: Final = "manent-migration"
_FAILED: Final = 1
_NEWER_PYTHON: Final = (3, 12)
_NEWER_SQLITE: Final = (3, 42)
_ORPHANED: Final = 70
_TRY_AGAIN: Final = 75
_LOOK: Final = 0.1
_LAST_WORDS: Final = 2000
_LONGEST: Final = timedelta(days=7)


def library() -> Library:
    """What `store.migrate` needs to know about DBOS."""
    return Library(version=importlib.metadata.version("dbos"), migrate=_migrate)


def _migrate(engines: Engines, stop: Callable[[], bool]) -> None:
    if engines.dialect == "sqlite":
        demand_sqlite(sys.version_info[:2], sqlite3.sqlite_version_info)
    order = {"url": engines.dbos.url.render_as_string(hide_password=False)}
    with tempfile.TemporaryFile() as said:
        # -P: nothing in the current folder may stand in for a module.
        child = subprocess.Popen(
            [sys.executable, "-P", "-m", _CHILD],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=said,
        )
        with child:
            try:
                _follow(child, json.dumps(order), stop)
            finally:
                child.kill()
        _judge(child.returncode, said)


def demand_sqlite(python: tuple[int, ...], library: tuple[int, ...]) -> None:
    """DBOS uses fractions of seconds from Python 3.12 on, which older libraries do not know.

    Raises:
        ConfigurationError: This Python comes with too old a one.
    """
    if python >= _NEWER_PYTHON and library < _NEWER_SQLITE:
        has, needs = (".".join(map(str, version)) for version in (library, _NEWER_SQLITE))
        raise ConfigurationError(
            f"database.url: this Python has SQLite {has}; from Python 3.12 on {needs} is needed",
            next="use Postgres, Python 3.11, or a Python built with a newer SQLite",
        )


def _follow(child: subprocess.Popen[bytes], order: str, stop: Callable[[], bool]) -> None:
    """Wait for the child; its input stays open, since its end tells it that we are gone."""
    if child.stdin is None:
        raise RuntimeError("the child has no input")
    with contextlib.suppress(BrokenPipeError):  # it died at once: its exit says why
        child.stdin.write(f"{order}\n".encode())
        child.stdin.flush()
    while True:
        try:
            child.wait(_LOOK)
        except subprocess.TimeoutExpired:
            if stop():
                raise Unavailable("stopped while migrating", next="Start again.") from None
        else:
            return


def _judge(code: int, said: IO[bytes]) -> None:
    if code == 0:
        return
    said.seek(0)
    words = said.read().decode(errors="replace")[-_LAST_WORDS:].strip()
    if code == _TRY_AGAIN:
        raise NotAnswered(words)
    raise StartRefused(
        f"the tables of the execution library could not be made: {words or f'exit {code}'}",
        next="The database role needs CREATE on the database; see the message.",
    )


def main() -> None:
    """The child: migrate the database named on the first line of standard input."""
    order = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_parent, daemon=True).start()
    code = 0
    try:
        _launch(_engine(order["url"]))
    except Exception as error:  # noqa: BLE001 - whatever it is, the parent is told
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        code = _TRY_AGAIN if _is_transient(error) else _FAILED
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
        sa.event.listen(engines.dbos, "connect", _lift_limits)
        # Given up after half a minute a longer statement would be begun again for ever.
        give_up_after(engines.dbos, _LONGEST)
    return engines.dbos


def _lift_limits(connection: Any, _record: Any) -> None:
    # An index is built beside running transactions and waits for each of them.
    limits = ["statement_timeout", "lock_timeout"]
    connection.autocommit = True
    connection.execute("SELECT set_config(unnest(%s::text[]), '0', false)", [limits])
    connection.autocommit = False


def _launch(engine: sa.Engine) -> None:
    from dbos import DBOS, DBOSConfig  # noqa: PLC0415 - half a second, for the child only

    # Name, executor and version of its own: it finds no workflow to recover or to run.
    config = DBOSConfig(
        name=_NAME,
        system_database_engine=engine,
        use_listen_notify=False,
        run_migrations=True,
        executor_id=_NAME,
        application_version=_NAME,
        log_level="ERROR",
    )
    DBOS(config=config)
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
